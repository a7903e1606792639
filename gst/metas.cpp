// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// One pair of functions per kind of meta.
#include "gst/metas.h"

#include <gst/video/gstvideometa.h>
#include <gst/video/video-anc.h>
#include <gst/video/video.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gst/context.h"
#include "gst/wire/message.h"

namespace cudaipc {
namespace {

// Numbers on the wire: never reused.
enum class Kind : uint32_t {
  Custom = 1,
  RegionOfInterest = 2,
  TimeCode = 3,
  Caption = 4,
  Crop = 5,
  ReferenceTimestamp = 6,
  Afd = 7,
  Bar = 8,
  Serialised = 9,  // GStreamer's own serialiser (1.24 and newer)
};

struct StructureFree {
  void operator()(GstStructure* s) const { gst_structure_free(s); }
};
using StructurePtr = std::unique_ptr<GstStructure, StructureFree>;

// Appends values to the end of a record.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  template <typename T>
  Writer& put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    return raw(&value, sizeof(value));
  }
  Writer& put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    return raw(text.data(), text.size());
  }
  Writer& raw(const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
    return *this;
  }

 private:
  std::vector<std::byte>& out_;
};

// Takes values from the front; after a read past the end every value is zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <typename T>
  T get() {
    T value{};
    const auto bytes = raw(sizeof(T));
    if (ok_)
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string text() {
    const auto bytes = raw(get<uint32_t>());
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.find('\0') != text.npos)
      ok_ = false;
    return ok_ ? text : std::string();
  }
  std::span<const std::byte> raw(size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return {};
    }
    const auto bytes = in_.first(size);
    in_ = in_.subspan(size);
    return bytes;
  }
  std::span<const std::byte> rest() { return raw(in_.size()); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && in_.empty(); }

 private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

StructurePtr structure_from(const std::string& text) {
  return StructurePtr(gst_structure_from_string(text.c_str(), nullptr));
}

// --- One writer per kind; nothing is written for a meta that cannot travel.

std::optional<Kind> write_custom(GstMeta* meta, Writer& out) {
  const Text text(gst_structure_to_string(
      gst_custom_meta_get_structure(reinterpret_cast<GstCustomMeta*>(meta))));
  if (!text)
    return {};
  out.put(std::string_view(text.get()));
  return Kind::Custom;
}

std::optional<Kind> write_roi(GstMeta* meta, Writer& out) {
  const auto* roi = reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
  const char* name = g_quark_to_string(roi->roi_type);
  out.put(std::string_view(name ? name : ""))
      .put<int32_t>(roi->id)
      .put<int32_t>(roi->parent_id)
      .put<uint32_t>(roi->x)
      .put<uint32_t>(roi->y)
      .put<uint32_t>(roi->w)
      .put<uint32_t>(roi->h)
      .put<uint32_t>(g_list_length(roi->params));
  for (GList* l = roi->params; l; l = l->next) {
    const Text text(gst_structure_to_string(static_cast<GstStructure*>(l->data)));
    out.put(std::string_view(text ? text.get() : ""));
  }
  return Kind::RegionOfInterest;
}

std::optional<Kind> write_timecode(GstMeta* meta, Writer& out) {
  const GstVideoTimeCode& tc = reinterpret_cast<GstVideoTimeCodeMeta*>(meta)->tc;
  // Seconds and microseconds since the epoch, or none.
  int64_t seconds = 0;
  int32_t microseconds = 0;
  if (tc.config.latest_daily_jam) {
    seconds = g_date_time_to_unix(tc.config.latest_daily_jam);
    microseconds = g_date_time_get_microsecond(tc.config.latest_daily_jam);
  }
  out.put<uint32_t>(tc.config.fps_n)
      .put<uint32_t>(tc.config.fps_d)
      .put<uint32_t>(tc.config.flags)
      .put<uint32_t>(tc.config.latest_daily_jam != nullptr)
      .put(seconds)
      .put(microseconds)
      .put<uint32_t>(tc.hours)
      .put<uint32_t>(tc.minutes)
      .put<uint32_t>(tc.seconds)
      .put<uint32_t>(tc.frames)
      .put<uint32_t>(tc.field_count);
  return Kind::TimeCode;
}

std::optional<Kind> write_caption(GstMeta* meta, Writer& out) {
  const auto* caption = reinterpret_cast<GstVideoCaptionMeta*>(meta);
  out.put<uint32_t>(caption->caption_type).raw(caption->data, caption->size);
  return Kind::Caption;
}

std::optional<Kind> write_crop(GstMeta* meta, Writer& out) {
  const auto* crop = reinterpret_cast<GstVideoCropMeta*>(meta);
  out.put<uint32_t>(crop->x)
      .put<uint32_t>(crop->y)
      .put<uint32_t>(crop->width)
      .put<uint32_t>(crop->height);
  return Kind::Crop;
}

std::optional<Kind> write_reference_timestamp(GstMeta* meta, Writer& out) {
  const auto* reference = reinterpret_cast<GstReferenceTimestampMeta*>(meta);
  const Text caps(gst_caps_to_string(reference->reference));
  out.put<uint64_t>(reference->timestamp)
      .put<uint64_t>(reference->duration)
      .put(std::string_view(caps.get()));
  return Kind::ReferenceTimestamp;
}

std::optional<Kind> write_afd(GstMeta* meta, Writer& out) {
  const auto* afd = reinterpret_cast<GstVideoAFDMeta*>(meta);
  out.put<uint32_t>(afd->field).put<uint32_t>(afd->spec).put<uint32_t>(afd->afd);
  return Kind::Afd;
}

std::optional<Kind> write_bar(GstMeta* meta, Writer& out) {
  const auto* bar = reinterpret_cast<GstVideoBarMeta*>(meta);
  out.put<uint32_t>(bar->field)
      .put<uint32_t>(bar->is_letterbox)
      .put<uint32_t>(bar->bar_data1)
      .put<uint32_t>(bar->bar_data2);
  return Kind::Bar;
}

std::optional<Kind> write_serialised(GstMeta* meta, Writer& out) {
#if GST_CHECK_VERSION(1, 24, 0)
  GByteArray* bytes = g_byte_array_new();
  std::optional<Kind> kind;
  if (gst_meta_serialize_simple(meta, bytes)) {
    out.raw(bytes->data, bytes->len);
    kind = Kind::Serialised;
  }
  g_byte_array_unref(bytes);
  return kind;
#else
  (void)meta;
  (void)out;
  return {};
#endif
}

std::optional<Kind> write_meta(GstMeta* meta, Writer& out) {
  const GType api = meta->info->api;
  if (gst_meta_info_is_custom(meta->info))
    return write_custom(meta, out);
  if (api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)
    return write_roi(meta, out);
  if (api == GST_VIDEO_TIME_CODE_META_API_TYPE)
    return write_timecode(meta, out);
  if (api == GST_VIDEO_CAPTION_META_API_TYPE)
    return write_caption(meta, out);
  if (api == GST_VIDEO_CROP_META_API_TYPE)
    return write_crop(meta, out);
  if (api == GST_REFERENCE_TIMESTAMP_META_API_TYPE)
    return write_reference_timestamp(meta, out);
  if (api == GST_VIDEO_AFD_META_API_TYPE)
    return write_afd(meta, out);
  if (api == GST_VIDEO_BAR_META_API_TYPE)
    return write_bar(meta, out);
  return write_serialised(meta, out);
}

// Made anew on the other side, or about memory of this process.
bool stays_here(const GstMeta* meta) {
  return meta->info->api == GST_VIDEO_META_API_TYPE ||
         meta->info->api == GST_PARENT_BUFFER_META_API_TYPE ||
         gst_meta_api_type_has_tag(meta->info->api, GST_META_TAG_MEMORY) ||
         gst_meta_api_type_has_tag(meta->info->api,
                                   g_quark_from_static_string(GST_META_TAG_MEMORY_REFERENCE_STR));
}

struct Serialising {
  std::vector<std::byte>& out;
  guint lost = 0;
};

gboolean serialise_one(GstBuffer*, GstMeta** meta, gpointer data) {
  auto& s = *static_cast<Serialising*>(data);
  if (stays_here(*meta))
    return TRUE;
  const size_t start = s.out.size();
  Writer out(s.out);
  out.put<uint32_t>(0).put<uint32_t>(0);
  const auto kind = write_meta(*meta, out);
  if (!kind || s.out.size() > wire::kMaxMetas) {
    s.out.resize(start);
    ++s.lost;
    return TRUE;
  }
  const uint32_t head[2] = {static_cast<uint32_t>(*kind),
                            static_cast<uint32_t>(s.out.size() - start - sizeof(head))};
  std::memcpy(s.out.data() + start, head, sizeof(head));
  return TRUE;
}

// --- One reader per kind; false: not understood.

bool read_custom(GstBuffer* buffer, Reader& in) {
  const StructurePtr structure = structure_from(in.text());
  if (!in.at_end() || !structure)
    return false;
  const gchar* name = gst_structure_get_name(structure.get());
  // In this process nobody may have registered the meta: then it exists without tags.
  const GstMetaInfo* info = gst_meta_get_info(name);
  if (info && !gst_meta_info_is_custom(info))
    return false;
  if (!info && (g_type_from_name(name) != 0 ||
                !gst_meta_register_custom(name, nullptr, nullptr, nullptr, nullptr)))
    return false;
  GstCustomMeta* meta = gst_buffer_add_custom_meta(buffer, name);
  if (!meta)
    return false;
  GstStructure* own = gst_custom_meta_get_structure(meta);
  gst_structure_foreach(
      structure.get(),
      [](GQuark field, const GValue* value, gpointer to) -> gboolean {
        gst_structure_id_set_value(static_cast<GstStructure*>(to), field, value);
        return TRUE;
      },
      own);
  return true;
}

bool read_roi(GstBuffer* buffer, Reader& in) {
  const std::string name = in.text();
  const auto id = in.get<int32_t>();
  const auto parent = in.get<int32_t>();
  const auto x = in.get<uint32_t>(), y = in.get<uint32_t>();
  const auto w = in.get<uint32_t>(), h = in.get<uint32_t>();
  const auto n_params = in.get<uint32_t>();
  std::vector<StructurePtr> params;
  for (uint32_t i = 0; i < n_params && in.ok(); ++i) {
    if (StructurePtr structure = structure_from(in.text()))
      params.push_back(std::move(structure));
    else
      return false;
  }
  if (!in.at_end())
    return false;
  auto* roi = gst_buffer_add_video_region_of_interest_meta(buffer, name.c_str(), x, y, w, h);
  roi->id = id;
  roi->parent_id = parent;
  for (auto& structure : params)
    gst_video_region_of_interest_meta_add_param(roi, structure.release());
  return true;
}

bool read_timecode(GstBuffer* buffer, Reader& in) {
  const auto fps_n = in.get<uint32_t>(), fps_d = in.get<uint32_t>(), flags = in.get<uint32_t>();
  const auto jam = in.get<uint32_t>();
  const auto seconds = in.get<int64_t>();
  const auto microseconds = in.get<int32_t>();
  const auto hh = in.get<uint32_t>(), mm = in.get<uint32_t>(), ss = in.get<uint32_t>();
  const auto ff = in.get<uint32_t>(), fields = in.get<uint32_t>();
  if (!in.at_end())
    return false;
  GDateTime* when = nullptr;
  if (jam) {
    GDateTime* whole = g_date_time_new_from_unix_utc(seconds);
    when = whole ? g_date_time_add(whole, microseconds) : nullptr;
    g_clear_pointer(&whole, g_date_time_unref);
  }
  GstVideoTimeCode* tc = gst_video_time_code_new(
      fps_n, fps_d, when, static_cast<GstVideoTimeCodeFlags>(flags), hh, mm, ss, ff, fields);
  g_clear_pointer(&when, g_date_time_unref);
  const bool valid = tc && gst_video_time_code_is_valid(tc);
  if (valid)
    gst_buffer_add_video_time_code_meta(buffer, tc);
  if (tc)
    gst_video_time_code_free(tc);
  return valid;
}

bool read_caption(GstBuffer* buffer, Reader& in) {
  const auto type = in.get<uint32_t>();
  const auto data = in.rest();
  if (!in.ok() || data.empty() || type > GST_VIDEO_CAPTION_TYPE_CEA708_CDP)
    return false;
  return gst_buffer_add_video_caption_meta(buffer, static_cast<GstVideoCaptionType>(type),
                                           reinterpret_cast<const guint8*>(data.data()),
                                           data.size()) != nullptr;
}

bool read_crop(GstBuffer* buffer, Reader& in) {
  const auto x = in.get<uint32_t>(), y = in.get<uint32_t>();
  const auto w = in.get<uint32_t>(), h = in.get<uint32_t>();
  if (!in.at_end())
    return false;
  auto* crop = gst_buffer_add_video_crop_meta(buffer);
  crop->x = x;
  crop->y = y;
  crop->width = w;
  crop->height = h;
  return true;
}

bool read_reference_timestamp(GstBuffer* buffer, Reader& in) {
  const auto timestamp = in.get<uint64_t>(), duration = in.get<uint64_t>();
  const std::string text = in.text();
  if (!in.at_end() || timestamp == GST_CLOCK_TIME_NONE)
    return false;
  GstCaps* caps = gst_caps_from_string(text.c_str());
  if (!caps)
    return false;
  gst_buffer_add_reference_timestamp_meta(buffer, caps, timestamp, duration);
  gst_caps_unref(caps);
  return true;
}

bool read_afd(GstBuffer* buffer, Reader& in) {
  const auto field = in.get<uint32_t>(), spec = in.get<uint32_t>(), value = in.get<uint32_t>();
  if (!in.at_end() || field > 1 || spec > GST_VIDEO_AFD_SPEC_SMPTE_ST2016_1 || value > 15)
    return false;
  return gst_buffer_add_video_afd_meta(buffer, static_cast<guint8>(field),
                                       static_cast<GstVideoAFDSpec>(spec),
                                       static_cast<GstVideoAFDValue>(value)) != nullptr;
}

bool read_bar(GstBuffer* buffer, Reader& in) {
  const auto field = in.get<uint32_t>(), letterbox = in.get<uint32_t>();
  const auto data1 = in.get<uint32_t>(), data2 = in.get<uint32_t>();
  if (!in.at_end() || field > 1 || letterbox > 1)
    return false;
  return gst_buffer_add_video_bar_meta(buffer, static_cast<guint8>(field),
                                       static_cast<gboolean>(letterbox), data1, data2) != nullptr;
}

bool read_serialised(GstBuffer* buffer, Reader& in) {
#if GST_CHECK_VERSION(1, 24, 0)
  const auto data = in.rest();
  guint32 consumed = 0;
  return in.ok() && gst_meta_deserialize(buffer, reinterpret_cast<const guint8*>(data.data()),
                                         data.size(), &consumed) != nullptr;
#else
  (void)buffer;
  (void)in;
  return false;
#endif
}

bool read_meta(GstBuffer* buffer, Kind kind, Reader& in) {
  switch (kind) {
    case Kind::Custom:
      return read_custom(buffer, in);
    case Kind::RegionOfInterest:
      return read_roi(buffer, in);
    case Kind::TimeCode:
      return read_timecode(buffer, in);
    case Kind::Caption:
      return read_caption(buffer, in);
    case Kind::Crop:
      return read_crop(buffer, in);
    case Kind::ReferenceTimestamp:
      return read_reference_timestamp(buffer, in);
    case Kind::Afd:
      return read_afd(buffer, in);
    case Kind::Bar:
      return read_bar(buffer, in);
    case Kind::Serialised:
      return read_serialised(buffer, in);
  }
  return false;
}

}  // namespace

guint serialise_metas(GstBuffer* buffer, std::vector<std::byte>& out) {
  out.clear();
  Serialising s{out};
  gst_buffer_foreach_meta(buffer, serialise_one, &s);
  return s.lost;
}

guint add_metas(GstBuffer* buffer, std::span<const std::byte> records) {
  guint unknown = 0;
  Reader all(records);
  while (!all.at_end()) {
    const auto kind = all.get<uint32_t>();
    const auto size = all.get<uint32_t>();
    Reader record(all.raw(size));
    if (!all.ok())
      return unknown + 1;
    if (!read_meta(buffer, static_cast<Kind>(kind), record))
      ++unknown;
  }
  return unknown;
}

}  // namespace cudaipc
