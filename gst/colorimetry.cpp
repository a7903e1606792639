// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// GStreamer's names of colours to those of the standards, and back.
#include "gst/colorimetry.h"

#include <gst/cuda/gstcudamemory.h>

#include <optional>

#include "gst/context.h"

namespace cudaipc {
namespace {

using kernels::Format;
using kernels::Matrix;
using kernels::Phase;
using kernels::Range;

constexpr int kSdHeight = 576;  // GStreamer's own border between SD and HD (video-info.c)

Matrix matrix_of(GstVideoColorMatrix matrix) {
  switch (matrix) {
    case GST_VIDEO_COLOR_MATRIX_BT601:
      return Matrix::Bt601;
    case GST_VIDEO_COLOR_MATRIX_BT709:
      return Matrix::Bt709;
    case GST_VIDEO_COLOR_MATRIX_BT2020:
      return Matrix::Bt2020;
    case GST_VIDEO_COLOR_MATRIX_SMPTE240M:
      return Matrix::Smpte240m;
    case GST_VIDEO_COLOR_MATRIX_FCC:
      return Matrix::Fcc;
    case GST_VIDEO_COLOR_MATRIX_UNKNOWN:
    case GST_VIDEO_COLOR_MATRIX_RGB:
      break;
  }
  return Matrix::Rgb;
}

GstVideoColorimetry named(const char* name) {
  GstVideoColorimetry c{};
  gst_video_colorimetry_from_string(&c, name);
  return c;
}

GstVideoColorimetry default_colorimetry(const Format& format, int height) {
  if (format.rgb)
    return named(GST_VIDEO_COLORIMETRY_SRGB);
  GstVideoColorimetry c =
      named(height > kSdHeight ? GST_VIDEO_COLORIMETRY_BT709 : GST_VIDEO_COLORIMETRY_BT601);
  if (format.gray()) {
    c = {};
    c.range = GST_VIDEO_COLOR_RANGE_0_255;
    c.matrix = GST_VIDEO_COLOR_MATRIX_BT601;
  }
  return c;
}

std::string text_of(const GstVideoColorimetry& colorimetry) {
  const Text text(gst_video_colorimetry_to_string(&colorimetry));
  return text ? text.get() : "unknown";
}

// The stated colorimetry; what of it has no meaning for the format is replaced and named.
GstVideoColorimetry colorimetry_of(const Format& format, int height, const char* stated,
                                   std::string& assumed) {
  const GstVideoColorimetry fallback = default_colorimetry(format, height);
  if (!stated)
    return fallback;
  GstVideoColorimetry c{};
  if (!gst_video_colorimetry_from_string(&c, stated)) {
    assumed =
        std::string("colorimetry '") + stated + "' is not known, taken as " + text_of(fallback);
    return fallback;
  }
  const bool is_rgb = c.matrix == GST_VIDEO_COLOR_MATRIX_RGB;
  const bool unknown = c.matrix == GST_VIDEO_COLOR_MATRIX_UNKNOWN;
  if (unknown || is_rgb != format.rgb) {
    if (unknown || !format.gray())
      assumed = std::string("the matrix of colorimetry '") + stated + "' is " +
                (unknown ? "unknown" : "not one for " + std::string(format.name)) +
                ", taken as that of " + text_of(fallback);
    c.matrix = fallback.matrix;
    // A matrix of the other family says nothing of the range either.
    if (!unknown)
      c.range = fallback.range;
  }
  if (c.range == GST_VIDEO_COLOR_RANGE_UNKNOWN) {
    if (assumed.empty())
      assumed = std::string("the range of colorimetry '") + stated +
                "' is unknown, taken as that of " + text_of(fallback);
    c.range = fallback.range;
  }
  return c;
}

GstVideoChromaSite default_site(int height) {
  return height > kSdHeight ? GST_VIDEO_CHROMA_SITE_H_COSITED : GST_VIDEO_CHROMA_SITE_NONE;
}

kernels::Siting siting_of(GstVideoChromaSite site) {
  kernels::Siting s;
  if (site & GST_VIDEO_CHROMA_SITE_H_COSITED)
    s.x = Phase::Even;
  if (site & GST_VIDEO_CHROMA_SITE_ALT_LINE) {
    // DV: Cr with the even lines, Cb with the odd ones (IEC 61834-2).
    s.y[0] = Phase::Odd;
    s.y[1] = Phase::Even;
  } else if (site & GST_VIDEO_CHROMA_SITE_V_COSITED) {
    s.y[0] = s.y[1] = Phase::Even;
  }
  return s;
}

// Calls back with each string of a field: its value, or the members of its list.
template <typename F>
void each_string(const GstStructure* structure, const char* field, F f) {
  const GValue* value = gst_structure_get_value(structure, field);
  if (!value)
    return;
  if (G_VALUE_HOLDS_STRING(value))
    f(g_value_get_string(value));
  for (guint i = 0; GST_VALUE_HOLDS_LIST(value) && i < gst_value_list_get_size(value); ++i) {
    const GValue* member = gst_value_list_get_value(value, i);
    if (G_VALUE_HOLDS_STRING(member))
      f(g_value_get_string(member));
  }
}

bool in_cuda(const GstCapsFeatures* features) {
  return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

// --- Choosing

// How much of `from` is lost in `to`, and then what is wasted; smaller is better.
int loss(const Format& from, const Format& to) {
  const int from_sub = from.sub_x + from.sub_y, to_sub = to.sub_x + to.sub_y;
  int score = 0;
  if (to.bits < from.bits)
    score += 10000 * (from.bits - to.bits);
  if (from.alpha_bits > to.alpha_bits)
    score += 4000;
  if (!from.gray() && to.gray())
    score += 100000;  // all colour
  if (!from.gray() && to_sub > from_sub)
    score += 1000 * (to_sub - from_sub);
  if (from.rgb != to.rgb)
    score += 400;
  score += 20 * std::max(0, to.bits - from.bits);
  score += to.alpha_bits && !from.alpha_bits ? 10 : 0;
  score += 5 * std::max(0, from_sub - to_sub);
  if (from.storage != to.storage)
    score += 2;
  if (&from != &to)
    score += 1;
  return score;
}

// Of a structure's formats the best for `input`; null if it has none that can be made of it.
const Format* best_format(const GstStructure* structure, const Format& input) {
  const Format* best = nullptr;
  each_string(structure, "format", [&](const char* name) {
    const Format* f = kernels::find_format(name);
    if (f && (f->target || f == &input) && (!best || loss(input, *f) < loss(input, *best)))
      best = f;
  });
  return best;
}

// The colorimetry of the output where it is free.
GstVideoColorimetry natural_colorimetry(const VideoPicture& input, const Format& to) {
  GstVideoColorimetry c = input.colorimetry;
  const bool from_rgb = input.picture.format->rgb;
  if (from_rgb == to.rgb)
    return c;
  if (to.rgb) {
    c.matrix = GST_VIDEO_COLOR_MATRIX_RGB;
    c.range = GST_VIDEO_COLOR_RANGE_0_255;
    return c;
  }
  // The matrix that belongs to the primaries; the frames keep their primaries and transfer.
  c.range = GST_VIDEO_COLOR_RANGE_16_235;
  if (c.primaries == GST_VIDEO_COLOR_PRIMARIES_BT2020)
    c.matrix = GST_VIDEO_COLOR_MATRIX_BT2020;
  else if (c.primaries == GST_VIDEO_COLOR_PRIMARIES_SMPTE240M)
    c.matrix = GST_VIDEO_COLOR_MATRIX_SMPTE240M;
  else
    c.matrix = default_colorimetry(to, input.picture.height).matrix;
  return c;
}

std::string natural_site(const VideoPicture& input, const Format& to,
                         const GstVideoColorimetry& colorimetry) {
  const Format& from = *input.picture.format;
  GstVideoChromaSite site = default_site(input.picture.height);
  if (from.sub_x == to.sub_x && from.sub_y == to.sub_y)
    site = static_cast<GstVideoChromaSite>(input.info.chroma_site);
  else if (colorimetry.matrix == GST_VIDEO_COLOR_MATRIX_BT2020)
    site = GST_VIDEO_CHROMA_SITE_COSITED;  // ITU-R BT.2020, BT.2100
  const Text text(gst_video_chroma_site_to_string(site));
  return text ? text.get() : "";
}

// Sets a string field to `wanted` where it is free to be that.
void prefer(GstStructure* structure, const char* field, const std::string& wanted) {
  if (wanted.empty())
    return;
  if (gst_structure_has_field(structure, field))
    gst_structure_fixate_field_string(structure, field, wanted.c_str());
  else
    gst_structure_set(structure, field, G_TYPE_STRING, wanted.c_str(), nullptr);
}

void append_formats(GValue* list, bool targets) {
  g_value_init(list, GST_TYPE_LIST);
  for (const Format& format : kernels::formats()) {
    if ((targets && !format.target) ||
        gst_video_format_from_string(format.name) == GST_VIDEO_FORMAT_UNKNOWN)
      continue;
    GValue name = G_VALUE_INIT;
    g_value_init(&name, G_TYPE_STRING);
    g_value_set_static_string(&name, format.name);
    gst_value_list_append_and_take_value(list, &name);
  }
}

}  // namespace

Result<VideoPicture> picture_from_caps(const GstCaps* caps) {
  VideoPicture p;
  const Text shown(gst_caps_to_string(caps));
  if (!gst_video_info_from_caps(&p.info, caps))
    return Error{Fault::Unsupported, 0, std::string("no raw video: ") + shown.get()};
  const GstStructure* s = gst_caps_get_structure(caps, 0);
  p.picture.format =
      kernels::find_format(gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&p.info)));
  if (!p.picture.format)
    return Error{Fault::Unsupported, 0,
                 std::string("format ") +
                     gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&p.info)) +
                     " is not one that can be converted"};
  p.picture.width = GST_VIDEO_INFO_WIDTH(&p.info);
  p.picture.height = GST_VIDEO_INFO_HEIGHT(&p.info);
  if (p.picture.width < 1 || p.picture.height < 1)
    return Error{Fault::Unsupported, 0, std::string("an empty picture: ") + shown.get()};
  p.cuda = in_cuda(gst_caps_get_features(caps, 0));
  p.interlaced = GST_VIDEO_INFO_INTERLACE_MODE(&p.info) != GST_VIDEO_INTERLACE_MODE_PROGRESSIVE;

  const Format& format = *p.picture.format;
  const char* stated_colorimetry = gst_structure_get_string(s, "colorimetry");
  p.stated = stated_colorimetry != nullptr;
  p.colorimetry = colorimetry_of(format, p.picture.height, stated_colorimetry, p.assumed);
  p.picture.colour.matrix = format.rgb ? Matrix::Rgb : matrix_of(p.colorimetry.matrix);
  p.picture.colour.range =
      p.colorimetry.range == GST_VIDEO_COLOR_RANGE_16_235 ? Range::Limited : Range::Full;

  GstVideoChromaSite site = default_site(p.picture.height);
  if (const char* stated = gst_structure_get_string(s, "chroma-site")) {
    const GstVideoChromaSite known = gst_video_chroma_site_from_string(stated);
    if (known != GST_VIDEO_CHROMA_SITE_UNKNOWN)
      site = known;
    else if (format.subsampled() && p.assumed.empty())
      p.assumed = std::string("chroma-site '") + stated + "' is not known, taken as the default";
  }
  p.info.chroma_site = site;
  p.picture.siting = siting_of(site);
  return p;
}

GstCaps* convertible_caps() {
  GstCaps* caps = gst_caps_new_empty();
  for (const bool cuda : {true, false}) {
    GstStructure* s = gst_structure_new("video/x-raw", "width", GST_TYPE_INT_RANGE, 1, G_MAXINT,
                                        "height", GST_TYPE_INT_RANGE, 1, G_MAXINT, "framerate",
                                        GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr);
    GValue list = G_VALUE_INIT;
    append_formats(&list, false);
    gst_structure_take_value(s, "format", &list);
    gst_caps_append_structure_full(
        caps, s,
        cuda ? gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr) : nullptr);
  }
  return caps;
}

GstCaps* transformed_caps(const GstCaps* caps, bool to_source_pad) {
  // The same first: nothing is better than nothing to do.
  GstCaps* result = gst_caps_copy(caps);
  for (const bool cuda : {true, false}) {
    for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
      // What cannot be written comes from the same only.
      bool reachable = to_source_pad;
      each_string(gst_caps_get_structure(caps, i), "format", [&](const char* name) {
        const Format* f = kernels::find_format(name);
        reachable |= f && f->target;
      });
      if (!reachable)
        continue;
      GstStructure* s = gst_structure_copy(gst_caps_get_structure(caps, i));
      gst_structure_remove_fields(s, "colorimetry", "chroma-site", nullptr);
      GValue list = G_VALUE_INIT;
      append_formats(&list, to_source_pad);
      gst_structure_take_value(s, "format", &list);
      GstCapsFeatures* features =
          cuda ? gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr)
               : gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY, nullptr);
      if (gst_caps_is_subset_structure_full(result, s, features)) {
        gst_structure_free(s);
        gst_caps_features_free(features);
      } else {
        gst_caps_append_structure_full(result, s, features);
      }
    }
  }
  return result;
}

namespace {

// The colorimetry and siting of a chosen format, as far as downstream leaves them open.
void choose_colours(const VideoPicture& input, const GstStructure* in, const Format& to,
                    GstStructure* s) {
  const GstVideoColorimetry natural = natural_colorimetry(input, to);
  // What the input leaves to the default and the output's default says as well needs no words.
  const GstVideoColorimetry implied = default_colorimetry(to, input.picture.height);
  if (input.stated || gst_structure_has_field(s, "colorimetry") ||
      !gst_video_colorimetry_is_equal(&natural, &implied)) {
    // Where downstream does not take that: the first that does not change what the colours mean.
    std::string wanted = text_of(natural), kept;
    VideoPicture output = input;
    output.picture.format = &to;
    each_string(s, "colorimetry", [&](const char* text) {
      if (kept != wanted && gst_video_colorimetry_from_string(&output.colorimetry, text) &&
          (text == wanted || (kept.empty() && meaning_changes(input, output).empty())))
        kept = text;
    });
    prefer(s, "colorimetry", kept.empty() ? wanted : kept);
  }
  if (to.subsampled() &&
      (gst_structure_has_field(s, "chroma-site") || gst_structure_has_field(in, "chroma-site") ||
       !input.picture.format->subsampled()))
    prefer(s, "chroma-site", natural_site(input, to, natural));
}

}  // namespace

GstCaps* choose_output(const GstCaps* input, GstCaps* options) {
  auto picture = picture_from_caps(input);
  if (!picture)
    return gst_caps_fixate(options);
  const Format& from = *picture->picture.format;
  // The best format; among equals the input's own memory if nothing else changes, else GPU memory,
  // else the peer's order.
  guint best_index = 0;
  const Format* best = nullptr;
  int best_score = 0;
  for (guint i = 0; i < gst_caps_get_size(options); ++i) {
    const Format* f = best_format(gst_caps_get_structure(options, i), from);
    if (!f)
      continue;
    const bool cuda = in_cuda(gst_caps_get_features(options, i));
    const int memory = f == &from && cuda == picture->cuda ? 0 : cuda ? 1 : 2;
    const int score = 4 * loss(from, *f) + memory;
    if (!best || score < best_score) {
      best = f;
      best_index = i;
      best_score = score;
    }
  }
  if (!best)
    return gst_caps_fixate(options);
  GstCaps* chosen = gst_caps_copy_nth(options, best_index);
  gst_caps_unref(options);
  GstStructure* s = gst_caps_get_structure(chosen, 0);
  gst_structure_set(s, "format", G_TYPE_STRING, best->name, nullptr);
  choose_colours(*picture, gst_caps_get_structure(input, 0), *best, s);
  if (gst_structure_has_field(s, "pixel-aspect-ratio"))
    gst_structure_fixate_field_nearest_fraction(s, "pixel-aspect-ratio", 1, 1);
  return gst_caps_fixate(chosen);
}

bool same_picture(const VideoPicture& a, const VideoPicture& b) {
  const kernels::Picture &x = a.picture, &y = b.picture;
  return x.format == y.format && x.width == y.width && x.height == y.height &&
         x.colour == y.colour && (!x.format->subsampled() || x.siting == y.siting);
}

std::string meaning_changes(const VideoPicture& from, const VideoPicture& to) {
  const GstVideoColorimetry &a = from.colorimetry, &b = to.colorimetry;
  std::string text;
  if (!from.stated)
    return text;
  const auto differs = [&text](const char* field, int x, int y) {
    text += (text.empty() ? "" : ", ") + std::string(field) + " " + std::to_string(x) + " and " +
            std::to_string(y);
  };
  if (a.primaries != GST_VIDEO_COLOR_PRIMARIES_UNKNOWN &&
      b.primaries != GST_VIDEO_COLOR_PRIMARIES_UNKNOWN &&
      !gst_video_color_primaries_is_equivalent(a.primaries, b.primaries))
    differs("primaries", static_cast<int>(gst_video_color_primaries_to_iso(a.primaries)),
            static_cast<int>(gst_video_color_primaries_to_iso(b.primaries)));
  const auto depth = [](const VideoPicture& p) {
    return static_cast<guint>(p.picture.format->bits);
  };
  if (a.transfer != GST_VIDEO_TRANSFER_UNKNOWN && b.transfer != GST_VIDEO_TRANSFER_UNKNOWN &&
      !gst_video_transfer_function_is_equivalent(a.transfer, depth(from), b.transfer, depth(to)))
    differs("transfer", static_cast<int>(gst_video_transfer_function_to_iso(a.transfer)),
            static_cast<int>(gst_video_transfer_function_to_iso(b.transfer)));
  if (text.empty())
    return text;
  return text + " (ISO/IEC 23091-2 codes; input " + text_of(a) + ", output " + text_of(b) + ")";
}

}  // namespace cudaipc
