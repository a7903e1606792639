// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Layouts, contents and judgement. Knows where samples lie only to write them; the oracle reads.
#include "tests/colour/cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Format;
using kernels::Frame;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;
using kernels::Siting;
using kernels::Storage;

constexpr int64_t kGuard = 256;

int64_t up_to_256(int64_t n) {
  return (n + 255) / 256 * 256;
}

oracle::Matrix oracle_matrix(Matrix matrix) {
  switch (matrix) {
    case Matrix::Bt601:
      return oracle::Matrix::Bt601;
    case Matrix::Bt709:
      return oracle::Matrix::Bt709;
    case Matrix::Bt2020:
      return oracle::Matrix::Bt2020;
    case Matrix::Smpte240m:
      return oracle::Matrix::Smpte240m;
    case Matrix::Fcc:
      return oracle::Matrix::Fcc;
    case Matrix::Rgb:
      break;
  }
  return oracle::Matrix::Rgb;
}

oracle::Colour oracle_colour(const Picture& p) {
  const Siting& s = p.siting;
  return {oracle_matrix(p.colour.matrix),
          p.colour.range == Range::Full,
          {s.x == Phase::Even, s.y[0] == Phase::Even && s.y[1] == Phase::Even,
           s.y[0] == Phase::Odd && s.y[1] == Phase::Even}};
}

double tolerance(int bits) {
  return bits <= 8 ? 0.501 : bits <= 12 ? 0.505 : 0.55;
}

std::string name_of(const Siting& s) {
  return s == kCentred   ? "centred"
         : s == kLeft    ? "left"
         : s == kTopLeft ? "top-left"
         : s == kDv      ? "DV"
                         : "another siting";
}

std::string name_of(const Colour& c) {
  constexpr const char* kNames[] = {"RGB", "601", "709", "2020", "240M", "FCC"};
  return std::string(kNames[static_cast<int>(c.matrix)]) +
         (c.range == Range::Full ? " full" : " limited");
}

// Where a component's sample is in a tight picture: its bytes, and its lowest bit in them.
struct Spot {
  int64_t at;
  int bytes, shift;
  uint32_t mask;
};

Spot spot(const Format& f, const Layout& l, int component, int x, int y) {
  const uint32_t mask = (1u << (component == 3 ? f.alpha_bits : f.bits)) - 1;
  const auto row = [&](int plane) { return l.begin[plane] + y * l.stride[plane]; };
  const int place = component < 3 ? f.position[component] : 0;
  switch (f.storage) {
    case Storage::SemiPlanar8:
    case Storage::SemiPlanar16: {
      const int b = f.container_bytes();
      const int64_t at = component == 0 ? row(0) + b * x : row(1) + b * (2 * x + place - 1);
      return {at, b, f.shift, mask};
    }
    case Storage::Planar8:
    case Storage::Planar16: {
      const int b = f.container_bytes();
      return {row(place) + b * x, b, f.shift, mask};
    }
    case Storage::Packed4x8: {
      const int byte = component == 3 ? (f.alpha_first ? 0 : 3) : place + (f.alpha_first ? 1 : 0);
      return {row(0) + 4 * x + byte, 1, 0, mask};
    }
    case Storage::Packed3x8:
      return {row(0) + 3 * x + place, 1, 0, mask};
    case Storage::Packed1010102:
      break;
  }
  return {row(0) + 4 * x, 4, component == 3 ? 30 : 10 * place, mask};
}

}  // namespace

// --- Layout

std::string describe(const Look& look) {
  std::string text =
      look.extra == Look::kAligned ? "aligned rows" : "rows +" + std::to_string(look.extra);
  text += ", planes at 256k+" + std::to_string(look.offset);
  return look.upside_down ? text + ", upside down" : text;
}

Layout::Layout(const Format& format, int width, int height, const Look& look)
    : planes(format.planes) {
  int64_t end = 0;
  for (int k = 0; k < planes; ++k) {
    row_bytes[k] = format.row_bytes(k, width);
    rows[k] = format.rows(k, height);
    stride[k] = look.extra == Look::kAligned ? up_to_256(row_bytes[k]) + 256 * k
                                             : row_bytes[k] + look.extra;
    begin[k] = up_to_256(end + kGuard) + look.offset;
    end = begin[k] + stride[k] * rows[k];
    if (look.upside_down) {
      begin[k] += stride[k] * (rows[k] - 1);
      stride[k] = -stride[k];
    }
  }
  size = static_cast<size_t>(up_to_256(end + kGuard));
}

Layout Layout::tight(const Format& format, int width, int height) {
  Layout l;
  l.planes = format.planes;
  for (int k = 0; k < l.planes; ++k) {
    l.row_bytes[k] = l.stride[k] = format.row_bytes(k, width);
    l.rows[k] = format.rows(k, height);
    l.begin[k] = static_cast<int64_t>(l.size);
    l.size += static_cast<size_t>(l.stride[k] * l.rows[k]);
  }
  return l;
}

Frame Layout::frame(CUdeviceptr base) const {
  Frame f;
  for (int k = 0; k < planes; ++k) {
    f.plane[k] = base + static_cast<CUdeviceptr>(begin[k]);
    f.stride[k] = stride[k];
  }
  return f;
}

void Layout::copy_to(const Layout& to, const Bytes& from_bytes, Bytes& to_bytes) const {
  for (int k = 0; k < planes; ++k) {
    for (int y = 0; y < rows[k]; ++y)
      memcpy(to_bytes.data() + to.begin[k] + y * to.stride[k],
             from_bytes.data() + begin[k] + y * stride[k], static_cast<size_t>(row_bytes[k]));
  }
}

int64_t Layout::first_touched(const Bytes& bytes, uint8_t poison) const {
  // Rows in the order of memory; between them, nothing may have changed.
  int64_t at = 0;
  const auto untouched_until = [&](int64_t end) {
    for (; at < end; ++at)
      if (bytes[static_cast<size_t>(at)] != poison)
        return false;
    return true;
  };
  for (int k = 0; k < planes; ++k) {
    for (int y = 0; y < rows[k]; ++y) {
      const int64_t row = begin[k] + (stride[k] < 0 ? rows[k] - 1 - y : y) * stride[k];
      if (!untouched_until(row))
        return at;
      at = row + row_bytes[k];
    }
  }
  return untouched_until(static_cast<int64_t>(size)) ? -1 : at;
}

// --- Cases

std::string describe(const Picture& p) {
  std::ostringstream text;
  text << p.format->name << " " << p.width << "x" << p.height << " " << name_of(p.colour);
  if (p.format->subsampled())
    text << " " << name_of(p.siting);
  return text.str();
}

std::string describe(const Case& c) {
  std::string text = describe(c.from) + " -> " + describe(c.to);
  if (c.x || c.y || c.from.width != c.to.width || c.from.height != c.to.height)
    text += ", from (" + std::to_string(c.x) + "," + std::to_string(c.y) + ")";
  return text;
}

const std::vector<Looks>& both_looks() {
  static const std::vector<Looks> looks = {{kAlignedLook, kAlignedLook},
                                           {kMisalignedLook, kMisalignedLook}};
  return looks;
}

Picture picture(std::string_view format, int width, int height, const Colour& yuv,
                const Siting& siting) {
  Picture p;
  p.format = kernels::find_format(format);
  if (!p.format)
    throw std::invalid_argument("unknown format " + std::string(format));
  p.width = width, p.height = height;
  p.colour = p.format->rgb == (yuv.matrix == Matrix::Rgb) ? yuv : kRgbFull;
  p.siting = siting;
  return p;
}

// --- Contents

Bytes noise(const Picture& p, uint32_t seed) {
  Bytes bytes(Layout::tight(*p.format, p.width, p.height).size);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint8_t& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<uint8_t>(state >> 56);
  }
  // In words, bits that are no part of the code are noise as well: they mean nothing.
  return bytes;
}

void put(Bytes& bytes, const Picture& p, int component, int x, int y, uint32_t code) {
  const Spot s = spot(*p.format, Layout::tight(*p.format, p.width, p.height), component, x, y);
  uint32_t word = 0;
  memcpy(&word, &bytes[static_cast<size_t>(s.at)], static_cast<size_t>(s.bytes));
  word = (word & ~(s.mask << s.shift)) | code << s.shift;
  memcpy(&bytes[static_cast<size_t>(s.at)], &word, static_cast<size_t>(s.bytes));
}

int component_width(const Picture& p, int component) {
  const bool half = (component == 1 || component == 2) && p.format->sub_x;
  return half ? (p.width + 1) / 2 : p.width;
}

int component_height(const Picture& p, int component) {
  const bool half = (component == 1 || component == 2) && p.format->sub_y;
  return half ? (p.height + 1) / 2 : p.height;
}

Bytes plain(const Picture& p, const uint32_t (&code)[4]) {
  Bytes bytes(Layout::tight(*p.format, p.width, p.height).size);
  for (int k = 0; k < (p.format->alpha_bits ? 4 : p.format->gray() ? 1 : 3); ++k) {
    for (int y = 0; y < component_height(p, k); ++y) {
      for (int x = 0; x < component_width(p, k); ++x)
        put(bytes, p, k, x, y, code[k]);
    }
  }
  return bytes;
}

oracle::Picture oracle_picture(const Picture& p, const Bytes& tight) {
  const Layout l = Layout::tight(*p.format, p.width, p.height);
  oracle::Picture o{p.format->name, p.width, p.height, oracle_colour(p), {}, {}};
  for (int k = 0; k < l.planes; ++k) {
    o.plane[k] = tight.data() + l.begin[k];
    o.stride[k] = static_cast<ptrdiff_t>(l.stride[k]);
  }
  return o;
}

oracle::Components codes(const Picture& p, const Bytes& tight) {
  return oracle::read(oracle_picture(p, tight)).components;
}

// --- Judging

kernels::Converter converter(const Case& c) {
  auto made = kernels::Converter::create(module(), c.from, c.to);
  if (!made)
    throw std::runtime_error(describe(c) + ": " + made.error().message);
  return std::move(*made);
}

Bytes convert(Lane& lane, const kernels::Converter& converter, const Case& c, const Looks& looks,
              const Bytes& source) {
  const Picture &from = c.from, &to = c.to;
  const auto where = [&] {
    return describe(c) + " [" + describe(looks.from) + " -> " + describe(looks.to) + "]: ";
  };
  const Layout from_tight = Layout::tight(*from.format, from.width, from.height);
  const Layout to_tight = Layout::tight(*to.format, to.width, to.height);
  const Layout in(*from.format, from.width, from.height, looks.from);
  const Layout out(*to.format, to.width, to.height, looks.to);
  const CUdeviceptr in_base = lane.source.at_least(in.size);
  const CUdeviceptr out_base = lane.target.at_least(out.size);
  Bytes results[2];
  for (int pass = 0; pass < 2; ++pass) {
    const uint8_t poison = pass ? 0x5a : 0xa5;  // differ in every bit
    Bytes in_bytes(in.size, static_cast<uint8_t>(~poison)), out_bytes(out.size, poison);
    from_tight.copy_to(in, source, in_bytes);
    lane.upload(in_base, in_bytes);
    lane.upload(out_base, out_bytes);
    if (auto done = converter.convert(in.frame(in_base), from.width, from.height, c.x, c.y,
                                      out.frame(out_base), lane.stream.get());
        !done) {
      lane.wait();
      fail(where() + done.error().message);
      return {};
    }
    lane.download(out_bytes, out_base);
    lane.wait();
    if (const int64_t at = out.first_touched(out_bytes, poison); at >= 0)
      fail(where() + "wrote outside the picture, at byte " + std::to_string(at) +
           " of the allocation; plane 0 begins at " + std::to_string(out.begin[0]) + ", stride " +
           std::to_string(out.stride[0]));
    results[pass].resize(to_tight.size);
    out.copy_to(to_tight, out_bytes, results[pass]);
  }
  if (results[0] != results[1]) {
    const auto differ = std::mismatch(results[0].begin(), results[0].end(), results[1].begin());
    const int64_t at = differ.first - results[0].begin();
    int k = to_tight.planes - 1;
    while (at < to_tight.begin[k])
      --k;
    const int64_t in_plane = at - to_tight.begin[k];
    fail(where() + "plane " + std::to_string(k) + " row " +
         std::to_string(in_plane / to_tight.stride[k]) + " byte " +
         std::to_string(in_plane % to_tight.stride[k]) +
         " was not written, or depends on what lies beside the picture: got " +
         std::to_string(*differ.first) + ", then " + std::to_string(*differ.second));
  }
  return std::move(results[0]);
}

Bytes convert(Lane& lane, const Case& c, const Looks& looks, const Bytes& source) {
  return convert(lane, converter(c), c, looks, source);
}

void check(Lane& lane, const Case& c, const std::vector<Looks>& looks, const Bytes& source,
           Tally* tally) {
  const kernels::Converter made = converter(c);
  const oracle::Components want =
      oracle::convert(oracle_picture(c.from, source), {c.x, c.y, c.to.width, c.to.height},
                      c.to.format->name, oracle_colour(c.to));
  Bytes before;
  for (const Looks& look : looks) {
    Bytes got = convert(lane, made, c, look, source);
    if (got.empty() || got == before)
      continue;
    const oracle::Read read = oracle::read(oracle_picture(c.to, got));
    const oracle::Verdict v = oracle::compare(read.components, want);
    if (!(v.max_error <= tolerance(c.to.format->bits)) || read.bad_padding) {
      std::ostringstream text;
      text << describe(c) << " [" << describe(look.from) << " -> " << describe(look.to)
           << "]: component " << v.component << " at (" << v.x << "," << v.y << "): got " << v.got
           << ", want " << v.want << ", off by " << v.max_error << " codes; " << read.bad_padding
           << " samples with wrong padding bits";
      fail(text.str());
    }
    if (tally) {
      const std::lock_guard lock(tally->mutex);
      tally->sum += v.mean_error * static_cast<double>(v.samples);
      tally->samples += v.samples;
    }
    before = std::move(got);
  }
}

}  // namespace cudaipc::test
