// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Every format to every format that can be written, and every colour to every other.
#include <string>
#include <vector>

#include "kernels/table.h"
#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Format;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;

std::vector<const Format*> targets() {
  std::vector<const Format*> all;
  for (const Format& f : kernels::formats()) {
    if (f.target)
      all.push_back(&f);
  }
  return all;
}

// --- Which pairs have a vector kernel: said again, from names

std::string class_of(const std::string& name) {
  const auto is = [&](std::initializer_list<const char*> names) {
    for (const char* n : names) {
      if (name == n)
        return true;
    }
    return false;
  };
  return is({"NV12", "NV21"})                                                  ? "sp8"
         : is({"P010_10LE", "P012_LE", "P016_LE"})                             ? "sp16"
         : is({"I420", "YV12"})                                                ? "p8"
         : is({"I420_10LE", "I420_12LE"})                                      ? "p16"
         : is({"Y444", "RGBP", "BGRP", "GBR"})                                 ? "f8"
         : is({"Y444_10LE", "Y444_12LE", "Y444_16LE", "GBR_10LE", "GBR_16LE"}) ? "f16"
         : is({"VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "RGBx", "BGRx"})        ? "x4"
         : is({"RGB", "BGR"})                                                  ? "x3"
         : is({"RGB10A2_LE", "BGR10A2_LE"})                                    ? "x10"
                                                                               : "";
}

bool has_vector_kernel(const Format& from, const Format& to) {
  const std::string a = class_of(from.name), b = class_of(to.name);
  if (a.empty() || b.empty() || from.name == std::string("ARGB") ||
      from.name == std::string("ABGR"))
    return false;
#define X(kind, f, t, width, height, blocks) \
  if (a == #f && b == #t)                    \
    return std::string(#kind) != "Expand" || oracle::is_rgb(to.name);
  CUDAIPC_VECTOR_KERNELS(X)
#undef X
  return false;
}

void expect_path(const Case& c, const Looks& looks, bool want) {
  const Layout in(*c.from.format, c.from.width, c.from.height, looks.from);
  const Layout out(*c.to.format, c.to.width, c.to.height, looks.to);
  const CUdeviceptr base = CUdeviceptr{1} << 32;
  if (converter(c).vectorised(in.frame(base), c.x, c.y, out.frame(base)) != want)
    fail(describe(c) + " [" + describe(looks.from) + " -> " + describe(looks.to) +
         "]: " + (want ? "does not take" : "takes") + " the vector kernel");
}

class Pairs : public ::testing::TestWithParam<const char*> {};

TEST_P(Pairs, ToEveryFormat) {
  const auto all = targets();
  for_each(all.size() * 2, [&](Lane& lane, size_t n) {
    const bool odd = n % 2;
    const int width = odd ? 67 : 128, height = odd ? 35 : 64;
    const kernels::Siting& siting = odd ? kLeft : kCentred;
    Case c;
    c.from = picture(GetParam(), width, height, kBt709, siting);
    c.to = picture(all[n / 2]->name, width, height, kBt709, siting);
    const bool vector = has_vector_kernel(*c.from.format, *c.to.format);
    expect_path(c, {kAlignedLook, kAlignedLook}, vector);
    expect_path(c, {kMisalignedLook, kAlignedLook}, false);
    expect_path(c, {kAlignedLook, kMisalignedLook}, false);
    check(lane, c, both_looks(), noise(c.from, static_cast<uint32_t>(n) + 1));
  });
}

std::vector<const char*> names() {
  std::vector<const char*> all;
  for (const Format& f : kernels::formats())
    all.push_back(f.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(From, Pairs, ::testing::ValuesIn(names()),
                         [](const auto& param) { return std::string(param.param); });

// --- Colours

std::vector<Colour> yuv_colours() {
  std::vector<Colour> all;
  for (Matrix matrix : kMatrices) {
    for (Range range : kRanges)
      all.push_back({matrix, range});
  }
  return all;
}

constexpr const char* kYuv[] = {"NV12", "P010_10LE", "Y444", "Y444_16LE", "I420", "VUYA"};
constexpr const char* kRgb[] = {"RGBA", "RGB10A2_LE", "GBR_16LE", "RGBP"};

std::vector<Case> between_yuv_and_rgb(bool to_rgb) {
  std::vector<Case> all;
  for (const char* yuv : kYuv) {
    for (const char* rgb : kRgb) {
      for (const Colour& colour : yuv_colours()) {
        for (const Colour& other : {kRgbFull, kRgbLimited}) {
          Case c;
          const Picture a = picture(yuv, 40, 18, colour, kLeft);
          Picture b = picture(rgb, 40, 18);
          b.colour = other;
          c.from = to_rgb ? a : b;
          c.to = to_rgb ? b : a;
          all.push_back(c);
        }
      }
    }
  }
  return all;
}

void check_all(const std::vector<Case>& cases) {
  for_each(cases.size(), [&](Lane& lane, size_t n) {
    check(lane, cases[n], both_looks(), noise(cases[n].from, static_cast<uint32_t>(n) + 1));
  });
}

TEST(Colours, YuvToRgb) {
  check_all(between_yuv_and_rgb(true));
}

TEST(Colours, RgbToYuv) {
  check_all(between_yuv_and_rgb(false));
}

TEST(Colours, YuvToYuv) {
  std::vector<Case> cases;
  constexpr const char* kPairs[][2] = {
      {"NV12", "I420"}, {"P010_10LE", "NV12"},    {"NV12", "P010_10LE"}, {"Y444", "Y444_16LE"},
      {"VUYA", "NV12"}, {"Y444_16LE", "P016_LE"}, {"I420", "Y444"},      {"Y42B", "VUYA"}};
  for (const auto& pair : kPairs) {
    for (const Colour& a : yuv_colours()) {
      for (const Colour& b : yuv_colours())
        cases.push_back({picture(pair[0], 34, 10, a, kLeft), picture(pair[1], 34, 10, b, kLeft)});
    }
  }
  check_all(cases);
}

TEST(Colours, RgbRanges) {
  std::vector<Case> cases;
  for (const char* a : {"RGBA", "RGB", "RGBP", "GBR_16LE", "RGB10A2_LE"}) {
    for (const char* b : {"RGBA", "BGRx", "RGB", "GBR", "GBR_10LE", "RGB10A2_LE"}) {
      for (int n = 0; n < 4; ++n)
        cases.push_back({picture(a, 40, 18, n & 1 ? kRgbLimited : kRgbFull),
                         picture(b, 40, 18, n & 2 ? kRgbLimited : kRgbFull)});
    }
  }
  check_all(cases);
}

TEST(Colours, GreyToAndFromAll) {
  std::vector<Case> cases;
  for (const Colour& colour : yuv_colours()) {
    for (const char* other : {"RGBA", "NV12", "P010_10LE", "Y444", "RGBP", "RGB10A2_LE"}) {
      cases.push_back({picture("GRAY8", 37, 9, colour), picture(other, 37, 9, kBt709)});
      cases.push_back({picture(other, 37, 9, kBt709), picture("GRAY8", 37, 9, colour)});
    }
  }
  check_all(cases);
}

}  // namespace
}  // namespace cudaipc::test
