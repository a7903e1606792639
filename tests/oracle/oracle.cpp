// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The double-precision colour-conversion oracle: scalar, by the definitions, nothing rounded.
#include "tests/oracle/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace oracle {
namespace {

// ---- Formats ------------------------------------------------------------------------------------

enum class Kind { Yuv, Rgb, Gray };

// Where one component's samples are: sample x of a row is the little-endian word of `word` bytes at
// byte offset + x * step, and its code the `bits` bits of that word from bit `shift` up.
struct Field {
  int plane = 0, offset = 0, step = 1, word = 1, shift = 0, bits = 0;  // bits 0: no such component
};

struct Format {
  std::string_view name;
  Kind kind;
  int h_sub, v_sub;  // of components 1 and 2 of YUV formats
  std::array<Field, 4> field;
  int pad_offset = -1;  // of the pad byte in the 4-byte pixels of plane 0
};

// A component alone in its plane: bytes, or 16-bit words.
constexpr Field own8(int plane) {
  return {plane, 0, 1, 1, 0, 8};
}
constexpr Field own16(int plane, int shift, int bits) {
  return {plane, 0, 2, 2, shift, bits};
}
// A component that shares plane 1 with the other chroma component.
constexpr Field pair8(int index) {
  return {1, index, 2, 1, 0, 8};
}
constexpr Field pair16(int index, int shift, int bits) {
  return {1, 2 * index, 4, 2, shift, bits};
}
// A byte of a packed pixel of `size` bytes; bits of a packed 32-bit pixel.
constexpr Field packed(int index, int size) {
  return {0, index, size, 1, 0, 8};
}
constexpr Field packed32(int shift, int bits) {
  return {0, 0, 4, 4, shift, bits};
}

constexpr Format planar8(std::string_view name, Kind kind, int h_sub, int v_sub, int first,
                         int second, int third) {
  return {name, kind, h_sub, v_sub, {own8(first), own8(second), own8(third), Field{}}};
}
constexpr Format planar16(std::string_view name, Kind kind, int h_sub, int v_sub, int bits,
                          int first, int second, int third) {
  return {name,
          kind,
          h_sub,
          v_sub,
          {own16(first, 0, bits), own16(second, 0, bits), own16(third, 0, bits), Field{}}};
}
constexpr Format high_bits_420(std::string_view name, int bits) {
  const int shift = 16 - bits;
  return {name,
          Kind::Yuv,
          2,
          2,
          {own16(0, shift, bits), pair16(0, shift, bits), pair16(1, shift, bits), Field{}}};
}
// Bytes of 4-byte pixels, by the place of each component in the pixel.
constexpr Format packed4(std::string_view name, Kind kind, int first, int second, int third,
                         int alpha) {
  return {
      name, kind, 1, 1, {packed(first, 4), packed(second, 4), packed(third, 4), packed(alpha, 4)}};
}
constexpr Format packed4_pad(std::string_view name, int r, int g, int b, int pad) {
  return {name, Kind::Rgb, 1, 1, {packed(r, 4), packed(g, 4), packed(b, 4), Field{}}, pad};
}
constexpr Format packed3(std::string_view name, int r, int g, int b) {
  return {name, Kind::Rgb, 1, 1, {packed(r, 3), packed(g, 3), packed(b, 3), Field{}}};
}
constexpr Format packed_10a2(std::string_view name, int r_shift, int g_shift, int b_shift) {
  return {name,
          Kind::Rgb,
          1,
          1,
          {packed32(r_shift, 10), packed32(g_shift, 10), packed32(b_shift, 10), packed32(30, 2)}};
}

constexpr Format kFormats[] = {
    {"NV12", Kind::Yuv, 2, 2, {own8(0), pair8(0), pair8(1), Field{}}},
    {"NV21", Kind::Yuv, 2, 2, {own8(0), pair8(1), pair8(0), Field{}}},
    planar8("I420", Kind::Yuv, 2, 2, 0, 1, 2),
    planar8("YV12", Kind::Yuv, 2, 2, 0, 2, 1),
    high_bits_420("P010_10LE", 10),
    high_bits_420("P012_LE", 12),
    high_bits_420("P016_LE", 16),
    planar16("I420_10LE", Kind::Yuv, 2, 2, 10, 0, 1, 2),
    planar16("I420_12LE", Kind::Yuv, 2, 2, 12, 0, 1, 2),
    planar8("Y42B", Kind::Yuv, 2, 1, 0, 1, 2),
    planar16("I422_10LE", Kind::Yuv, 2, 1, 10, 0, 1, 2),
    planar8("Y444", Kind::Yuv, 1, 1, 0, 1, 2),
    planar16("Y444_10LE", Kind::Yuv, 1, 1, 10, 0, 1, 2),
    planar16("Y444_12LE", Kind::Yuv, 1, 1, 12, 0, 1, 2),
    planar16("Y444_16LE", Kind::Yuv, 1, 1, 16, 0, 1, 2),
    packed4("VUYA", Kind::Yuv, 2, 1, 0, 3),
    packed4("RGBA", Kind::Rgb, 0, 1, 2, 3),
    packed4("BGRA", Kind::Rgb, 2, 1, 0, 3),
    packed4("ARGB", Kind::Rgb, 1, 2, 3, 0),
    packed4("ABGR", Kind::Rgb, 3, 2, 1, 0),
    packed4_pad("RGBx", 0, 1, 2, 3),
    packed4_pad("BGRx", 2, 1, 0, 3),
    packed3("RGB", 0, 1, 2),
    packed3("BGR", 2, 1, 0),
    planar8("RGBP", Kind::Rgb, 1, 1, 0, 1, 2),
    planar8("BGRP", Kind::Rgb, 1, 1, 2, 1, 0),
    planar8("GBR", Kind::Rgb, 1, 1, 2, 0, 1),
    planar16("GBR_10LE", Kind::Rgb, 1, 1, 10, 2, 0, 1),
    planar16("GBR_16LE", Kind::Rgb, 1, 1, 16, 2, 0, 1),
    packed_10a2("RGB10A2_LE", 0, 10, 20),
    packed_10a2("BGR10A2_LE", 20, 10, 0),
    {"GRAY8", Kind::Gray, 1, 1, {own8(0), Field{}, Field{}, Field{}}},
};

const Format* find(std::string_view name) {
  for (const Format& format : kFormats)
    if (format.name == name)
      return &format;
  return nullptr;
}

const Format& need(std::string_view name) {
  const Format* format = find(name);
  if (!format)
    throw std::invalid_argument("oracle: unknown format " + std::string(name));
  return *format;
}

bool present(const Format& format, int component) {
  return format.field[static_cast<size_t>(component)].bits != 0;
}

bool is_chroma(const Format& format, int component) {
  return format.kind == Kind::Yuv && (component == 1 || component == 2);
}

int divide_up(int value, int by) {
  return (value + by - 1) / by;
}

int component_width(const Format& format, int component, int width) {
  return is_chroma(format, component) ? divide_up(width, format.h_sub) : width;
}

int component_height(const Format& format, int component, int height) {
  return is_chroma(format, component) ? divide_up(height, format.v_sub) : height;
}

double max_code(int bits) {
  return static_cast<double>((uint64_t{1} << bits) - 1);
}

void check_colour(const Format& format, const Colour& colour) {
  if ((format.kind == Kind::Rgb) != (colour.matrix == Matrix::Rgb))
    throw std::invalid_argument("oracle: this matrix does not go with " + std::string(format.name));
}

void check_picture(const Picture& picture, const Format& format) {
  if (picture.width <= 0 || picture.height <= 0)
    throw std::invalid_argument("oracle: empty picture");
  for (const Field& field : format.field)
    if (field.bits && !picture.plane[field.plane])
      throw std::invalid_argument("oracle: missing plane");
}

// By bytes, so that neither alignment nor the machine's byte order matters.
uint32_t load_word(const uint8_t* at, int bytes) {
  uint32_t word = 0;
  for (int i = 0; i < bytes; ++i)
    word |= static_cast<uint32_t>(at[i]) << (8 * i);
  return word;
}

// ---- Codes and real values ----------------------------------------------------------------------

// real = (code - zero) / span
struct Scale {
  double zero, span;
};

// BT.601-7 2.5.3, BT.709-6 4.6, BT.2020-2 table 5: black 16, 219 steps to white; chroma 128 +- 112.
Scale scale_of(const Colour& colour, bool chroma, int bits) {
  const double codes = max_code(bits) + 1;
  const double s = codes / 256;
  if (colour.full)
    return {chroma ? codes / 2 : 0.0, max_code(bits)};
  return chroma ? Scale{128 * s, 224 * s} : Scale{16 * s, 219 * s};
}

double to_real(double code, const Scale& scale) {
  return (code - scale.zero) / scale.span;
}

double to_code(double real, const Scale& scale, int bits) {
  return std::clamp(scale.zero + real * scale.span, 0.0, max_code(bits));
}

// ---- Matrices -----------------------------------------------------------------------------------

struct Weights {
  double kr, kg, kb;
};

Weights weights_of(Matrix matrix) {
  const auto make = [](double kr, double kb) { return Weights{kr, 1 - kr - kb, kb}; };
  switch (matrix) {
    case Matrix::Bt601:
      return make(0.299, 0.114);  // BT.601-7 2.5.1
    case Matrix::Bt709:
      return make(0.2126, 0.0722);  // BT.709-6 3.2
    case Matrix::Bt2020:
      return make(0.2627, 0.0593);  // BT.2020-2 table 4, non-constant luminance
    case Matrix::Smpte240m:
      return make(0.212, 0.087);  // SMPTE 240M
    case Matrix::Fcc:
      return make(0.30, 0.11);  // FCC 73.682
    case Matrix::Rgb:
      break;
  }
  throw std::invalid_argument("oracle: not a YUV matrix");
}

Triple yuv_to_rgb(const Triple& yuv, const Weights& k) {
  const auto [y, u, v] = yuv.v;
  return {{y + 2 * (1 - k.kr) * v,
           y - 2 * k.kb * (1 - k.kb) / k.kg * u - 2 * k.kr * (1 - k.kr) / k.kg * v,
           y + 2 * (1 - k.kb) * u}};
}

Triple rgb_to_yuv(const Triple& rgb, const Weights& k) {
  const auto [r, g, b] = rgb.v;
  const double y = k.kr * r + k.kg * g + k.kb * b;
  return {{y, (b - y) / (2 * (1 - k.kb)), (r - y) / (2 * (1 - k.kr))}};
}

// Real values of one matrix to real values of another, nothing clipped on the way.
class Change {
 public:
  Change(Matrix from, Matrix to) : same_(from == to) {
    if (from != Matrix::Rgb)
      from_ = weights_of(from), from_yuv_ = true;
    if (to != Matrix::Rgb)
      to_ = weights_of(to), to_yuv_ = true;
  }
  bool same() const { return same_; }
  Triple operator()(const Triple& in) const {
    if (same_)
      return in;
    const Triple rgb = from_yuv_ ? yuv_to_rgb(in, from_) : in;
    return to_yuv_ ? rgb_to_yuv(rgb, to_) : rgb;
  }

 private:
  bool same_, from_yuv_ = false, to_yuv_ = false;
  Weights from_{}, to_{};
};

// ---- Chroma siting ------------------------------------------------------------------------------

// How one component lies on one axis of the luma grid.
enum class Place {
  Full,        // a sample on every luma position
  Centred,     // sample j between luma 2j and 2j+1
  Cosited,     // sample j on luma 2j
  CositedOdd,  // sample j on luma 2j+1 (Cb of alternate lines)
};

Place h_place(const Format& format, const Site& site) {
  if (format.h_sub == 1)
    return Place::Full;
  return site.h_cosited ? Place::Cosited : Place::Centred;
}

Place v_place(const Format& format, const Site& site, int component) {
  if (format.v_sub == 1)
    return Place::Full;
  if (site.alternate_lines)
    return component == 2 ? Place::Cosited : Place::CositedOdd;
  return site.v_cosited ? Place::Cosited : Place::Centred;
}

// One output sample as a weighted sum of input samples along one axis. Interpolation to the luma
// grid (2 samples) followed by the widest filter (3 samples) makes 6.
struct Taps {
  int count = 0;
  int index[6] = {};
  double weight[6] = {};
  void add(int at, double by) {
    if (by == 0)
      return;
    index[count] = at;
    weight[count++] = by;
  }
};

// Adds `by` times the value at luma position `luma`, interpolated between `size` samples.
void add_interpolated(Taps& taps, Place place, int size, int luma, double by) {
  double at = luma;
  if (place == Place::Centred)
    at = luma / 2.0 - 0.25;
  if (place == Place::Cosited)
    at = luma / 2.0;
  if (place == Place::CositedOdd)
    at = (luma - 1) / 2.0;
  const double below = std::floor(at);
  const int low = static_cast<int>(below);
  taps.add(std::clamp(low, 0, size - 1), by * (1 - (at - below)));
  taps.add(std::clamp(low + 1, 0, size - 1), by * (at - below));
}

// Every output sample of one axis: from `size` samples at `from` to the samples at `to` of a luma
// grid of `length`, whose first position is `offset` on the input's luma grid.
std::vector<Taps> axis(Place from, int size, int offset, int length, Place to) {
  const bool half = to != Place::Full;
  std::vector<Taps> out(static_cast<size_t>(half ? divide_up(length, 2) : length));
  for (size_t i = 0; i < out.size(); ++i) {
    const int j = static_cast<int>(i);
    // The same samples stand at the same places: resampling could only blur them.
    if (from == to && (!half || offset % 2 == 0)) {
      out[i].add(half ? offset / 2 + j : offset + j, 1);
      continue;
    }
    const auto luma = [&](int position, double weight) {
      add_interpolated(out[i], from, size, offset + std::clamp(position, 0, length - 1), weight);
    };
    switch (to) {
      case Place::Full:
        luma(j, 1);
        break;
      case Place::Centred:
        luma(2 * j, 0.5), luma(2 * j + 1, 0.5);
        break;
      case Place::Cosited:
      case Place::CositedOdd: {
        const int centre = to == Place::Cosited ? 2 * j : 2 * j + 1;
        luma(centre - 1, 0.25), luma(centre, 0.5), luma(centre + 1, 0.25);
        break;
      }
    }
  }
  return out;
}

Component resample(const Component& in, const std::vector<Taps>& across,
                   const std::vector<Taps>& down) {
  const size_t width = across.size();
  Component out{static_cast<int>(width), static_cast<int>(down.size()), {}};
  out.value.resize(width * down.size());
  std::vector<double> column_sums(static_cast<size_t>(in.width));
  for (size_t y = 0; y < down.size(); ++y) {
    std::fill(column_sums.begin(), column_sums.end(), 0.0);
    for (int t = 0; t < down[y].count; ++t) {
      const double* row = &in.value[static_cast<size_t>(down[y].index[t]) * column_sums.size()];
      for (size_t x = 0; x < column_sums.size(); ++x)
        column_sums[x] += down[y].weight[t] * row[x];
    }
    for (size_t x = 0; x < width; ++x) {
      double sum = 0;
      for (int t = 0; t < across[x].count; ++t)
        sum += across[x].weight[t] * column_sums[static_cast<size_t>(across[x].index[t])];
      out.value[y * width + x] = sum;
    }
  }
  return out;
}

Component cropped(const Component& in, const Rect& crop) {
  Component out{crop.width, crop.height, {}};
  out.value.reserve(static_cast<size_t>(crop.width) * static_cast<size_t>(crop.height));
  for (int y = 0; y < crop.height; ++y) {
    const auto row = in.value.begin() + ptrdiff_t{crop.y + y} * in.width + crop.x;
    out.value.insert(out.value.end(), row, row + crop.width);
  }
  return out;
}

// ---- Pictures -----------------------------------------------------------------------------------

Component read_component(const Picture& picture, const Format& format, int component, size_t& bad) {
  const Field& field = format.field[static_cast<size_t>(component)];
  Component out{component_width(format, component, picture.width),
                component_height(format, component, picture.height),
                {}};
  out.value.reserve(static_cast<size_t>(out.width) * static_cast<size_t>(out.height));
  const uint32_t mask = static_cast<uint32_t>(max_code(field.bits));
  // Only in 16-bit words do the bits that are not of this code belong to nothing else.
  const uint32_t pad_mask = field.word == 2 ? 0xffffu & ~(mask << field.shift) : 0;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* at = picture.plane[field.plane] + y * picture.stride[field.plane] + field.offset;
    for (int x = 0; x < out.width; ++x, at += field.step) {
      const uint32_t word = load_word(at, field.word);
      out.value.push_back((word >> field.shift) & mask);
      if (word & pad_mask)
        ++bad;
    }
  }
  return out;
}

size_t bad_pad_bytes(const Picture& picture, const Format& format) {
  size_t bad = 0;
  if (format.pad_offset < 0)
    return bad;
  for (int y = 0; y < picture.height; ++y) {
    const uint8_t* at = picture.plane[0] + y * picture.stride[0] + format.pad_offset;
    for (int x = 0; x < picture.width; ++x, at += 4)
      if (*at != 0xff)
        ++bad;
  }
  return bad;
}

void describe(const Format& format, Components& out) {
  out.has_alpha = present(format, 3);
  for (size_t i = 0; i < 4; ++i)
    out.bits[i] = format.field[i].bits;
}

// Real values of all components (alpha left as codes).
Components read_real(const Picture& picture, const Format& format) {
  Components out = read(picture).components;
  for (int i = 0; i < 3; ++i) {
    if (!present(format, i))
      continue;
    const Scale scale = scale_of(picture.colour, is_chroma(format, i), out.bits[i]);
    for (double& value : out.c[i].value)
      value = to_real(value, scale);
  }
  return out;
}

void quantise(Component& component, const Scale& scale, int bits) {
  for (double& value : component.value)
    value = to_code(value, scale, bits);
}

// The places of the source's samples, seen from the destination's grid.
struct Grids {
  const Format& src;
  const Site& src_site;
  const Rect& crop;
};

// Source chroma component `from` (real values) at the places of a destination component, which
// are given per axis.
Component move_chroma(const Component& in, int from, const Grids& grids, Place h_to, Place v_to) {
  const Rect& crop = grids.crop;
  return resample(
      in, axis(h_place(grids.src, grids.src_site), in.width, crop.x, crop.width, h_to),
      axis(v_place(grids.src, grids.src_site, from), in.height, crop.y, crop.height, v_to));
}

}  // namespace

bool known(std::string_view format) {
  return find(format) != nullptr;
}
bool is_rgb(std::string_view format) {
  return need(format).kind == Kind::Rgb;
}
bool is_gray(std::string_view format) {
  return need(format).kind == Kind::Gray;
}
bool has_alpha(std::string_view format) {
  return present(need(format), 3);
}
int bits(std::string_view format) {
  return need(format).field[0].bits;
}
int alpha_bits(std::string_view format) {
  return need(format).field[3].bits;
}
int h_subsampling(std::string_view format) {
  return need(format).h_sub;
}
int v_subsampling(std::string_view format) {
  return need(format).v_sub;
}

int planes(std::string_view format) {
  int last = 0;
  for (const Field& field : need(format).field)
    last = std::max(last, field.plane);
  return last + 1;
}

const std::vector<std::string>& formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Format& format : kFormats)
      all.emplace_back(format.name);
    return all;
  }();
  return names;
}

Read read(const Picture& picture) {
  const Format& format = need(picture.format);
  check_picture(picture, format);
  Read out;
  describe(format, out.components);
  for (int i = 0; i < 4; ++i)
    if (present(format, i))
      out.components.c[i] = read_component(picture, format, i, out.bad_padding);
  out.bad_padding += bad_pad_bytes(picture, format);
  return out;
}

Components convert(const Picture& src, const Rect& crop, std::string_view dst_format,
                   const Colour& dst_colour) {
  const Format& from = need(src.format);
  const Format& to = need(dst_format);
  check_colour(from, src.colour);
  check_colour(to, dst_colour);
  check_picture(src, from);
  if (crop.x < 0 || crop.y < 0 || crop.width <= 0 || crop.height <= 0 ||
      crop.width > src.width - crop.x || crop.height > src.height - crop.y)
    throw std::invalid_argument("oracle: the crop is empty or leaves the picture");

  Components in = read_real(src, from);
  Components out;
  describe(to, out);
  const Change change(src.colour.matrix, dst_colour.matrix);
  const Grids grids{from, src.colour.site, crop};
  const bool yuv_to_yuv = from.kind != Kind::Rgb && to.kind != Kind::Rgb;

  // 1. What stands on the luma grid: R,G,B, or Y, and from RGB also U and V before filtering.
  const bool needs_all = !change.same() || to.kind == Kind::Rgb;
  Component grid[3];
  grid[0] = cropped(in.c[0], crop);
  if (needs_all) {
    for (int i = 1; i < 3; ++i) {
      if (from.kind == Kind::Yuv)
        grid[i] = move_chroma(in.c[i], i, grids, Place::Full, Place::Full);
      else if (from.kind == Kind::Rgb)
        grid[i] = cropped(in.c[i], crop);
      else  // a grey
        grid[i] = {crop.width, crop.height, std::vector<double>(grid[0].value.size(), 0.0)};
    }
    for (size_t p = 0; p < grid[0].value.size(); ++p) {
      const Triple real = change({{grid[0].value[p], grid[1].value[p], grid[2].value[p]}});
      for (size_t i = 0; i < 3; ++i)
        grid[i].value[p] = real.v[i];
    }
  }
  out.c[0] = std::move(grid[0]);

  // 2. The other two components at their places.
  for (int i = 1; i < 3; ++i) {
    if (!present(to, i))
      continue;
    const Place h_to = h_place(to, dst_colour.site);
    const Place v_to = v_place(to, dst_colour.site, i);
    if (needs_all && h_to == Place::Full && v_to == Place::Full) {
      out.c[i] = std::move(grid[i]);
      continue;
    }
    if (!yuv_to_yuv) {
      out.c[i] = resample(grid[i], axis(Place::Full, crop.width, 0, crop.width, h_to),
                          axis(Place::Full, crop.height, 0, crop.height, v_to));
      continue;
    }
    Component& sum = out.c[i];
    sum.width = component_width(to, i, crop.width);
    sum.height = component_height(to, i, crop.height);
    sum.value.assign(static_cast<size_t>(sum.width) * static_cast<size_t>(sum.height), 0.0);
    if (from.kind == Kind::Gray)
      continue;
    // Greys stay grey, so luma has no part in chroma: U and V each give their share. Each goes from
    // its own places to those of component i, since on alternate lines U and V lie apart.
    for (int j = 1; j < 3; ++j) {
      const double share = change({{0.0, j == 1 ? 1.0 : 0.0, j == 2 ? 1.0 : 0.0}}).v[i];
      if (share == 0)
        continue;
      const Component part = move_chroma(in.c[j], j, grids, h_to, v_to);
      for (size_t p = 0; p < sum.value.size(); ++p)
        sum.value[p] += share * part.value[p];
    }
  }

  for (int i = 0; i < 3; ++i)
    if (present(to, i))
      quantise(out.c[i], scale_of(dst_colour, is_chroma(to, i), out.bits[i]), out.bits[i]);

  if (out.has_alpha) {
    const double opaque = max_code(out.bits[3]);
    if (in.has_alpha) {
      out.c[3] = cropped(in.c[3], crop);
      for (double& value : out.c[3].value)
        value = value * opaque / max_code(in.bits[3]);
    } else {
      out.c[3] = {crop.width, crop.height, std::vector<double>(out.c[0].value.size(), opaque)};
    }
  }
  return out;
}

Verdict compare(const Components& got, const Components& want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Verdict verdict;
  for (int i = 0; i < 4; ++i) {
    const Component &g = got.c[i], &w = want.c[i];
    const size_t samples = static_cast<size_t>(w.width) * static_cast<size_t>(w.height);
    if (g.width != w.width || g.height != w.height || got.bits[i] != want.bits[i] ||
        got.has_alpha != want.has_alpha || g.value.size() != samples || w.value.size() != samples) {
      Verdict different;
      different.max_error = kInfinity;
      different.component = i;
      return different;
    }
  }
  double total = 0;
  for (int i = 0; i < 4; ++i) {
    const Component &g = got.c[i], &w = want.c[i];
    for (size_t p = 0; p < w.value.size(); ++p) {
      const double error = g.value[p] - w.value[p];
      const double size = std::isnan(error) ? kInfinity : std::fabs(error);
      total += error;
      if (size > verdict.max_error) {
        const size_t width = static_cast<size_t>(w.width);
        verdict.max_error = size;
        verdict.component = i;
        verdict.x = static_cast<int>(p % width);
        verdict.y = static_cast<int>(p / width);
        verdict.got = g.value[p];
        verdict.want = w.value[p];
      }
    }
    verdict.samples += w.value.size();
  }
  if (verdict.samples)
    verdict.mean_error = total / static_cast<double>(verdict.samples);
  return verdict;
}

Triple convert_triple(const double code[3], Colour from, int from_bits, Colour to, int to_bits) {
  Triple real;
  for (int i = 0; i < 3; ++i) {
    const bool chroma = from.matrix != Matrix::Rgb && i > 0;
    real.v[i] = to_real(code[i], scale_of(from, chroma, from_bits));
  }
  real = Change(from.matrix, to.matrix)(real);
  Triple out;
  for (int i = 0; i < 3; ++i) {
    const bool chroma = to.matrix != Matrix::Rgb && i > 0;
    out.v[i] = to_code(real.v[i], scale_of(to, chroma, to_bits), to_bits);
  }
  return out;
}

}  // namespace oracle
