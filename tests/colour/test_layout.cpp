// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Where pictures lie and how large they are: strides, offsets, sizes, crops; alpha; what is
// refused.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Format;
using kernels::Picture;

// One for each layout of memory and each family of vector kernels.
constexpr const char* kLayoutPairs[][2] = {
    {"NV12", "RGBA"},          {"RGBA", "NV12"},      {"NV12", "RGB"},
    {"RGB", "NV12"},           {"I420", "RGBP"},      {"GBR", "I420"},
    {"RGB", "YV12"},           {"P010_10LE", "RGBA"}, {"P010_10LE", "RGB10A2_LE"},
    {"P016_LE", "GBR_16LE"},   {"NV12", "I420"},      {"I420_10LE", "P010_10LE"},
    {"GBR_10LE", "P012_LE"},   {"RGBA", "P010_10LE"}, {"BGR10A2_LE", "P016_LE"},
    {"Y444_10LE", "VUYA"},     {"VUYA", "RGBP"},      {"RGB10A2_LE", "BGRA"},
    {"Y42B", "ABGR"},          {"ARGB", "GRAY8"},     {"BGR", "Y444_16LE"},
    {"I422_10LE", "Y444_12LE"}};

TEST(Layouts, StridesAndOffsets) {
  std::vector<Look> all;
  for (int extra : {0, 1, 16, Look::kAligned}) {
    for (int offset : {0, 1, 2, 4, 64, 256})
      all.push_back({extra, offset, false});
    all.push_back({extra, 4, true});
  }
  std::vector<Looks> looks;
  for (const Look& look : all) {
    looks.push_back({look, kAlignedLook});
    looks.push_back({kAlignedLook, look});
    looks.push_back({look, look});
  }
  // 4 and 2 rows less than whole tiles, and whole ones.
  constexpr int kSizes[][2] = {{67, 18}, {64, 12}};
  for_each(std::size(kLayoutPairs) * 2, [&](Lane& lane, size_t n) {
    const auto& pair = kLayoutPairs[n / 2];
    const auto [width, height] = kSizes[n % 2];
    const Case c{picture(pair[0], width, height, kBt709, kLeft),
                 picture(pair[1], width, height, kBt709, kLeft)};
    check(lane, c, looks, noise(c.from, static_cast<uint32_t>(n) + 1));
  });
}

// A stride that only the rows' addresses make unaligned, or the other way round.
TEST(Layouts, VectorKernelsAskForAlignedPlanesAndStrides) {
  for (const auto& pair : {std::pair{"NV12", "RGBA"}, {"RGBA", "NV12"}, {"I420", "RGBP"}}) {
    const Case c{picture(pair.first, 64, 12), picture(pair.second, 64, 12)};
    const kernels::Converter made = converter(c);
    const Layout in(*c.from.format, 64, 12, kAlignedLook), out(*c.to.format, 64, 12, kAlignedLook);
    const CUdeviceptr base = CUdeviceptr{1} << 32;
    const auto taken = [&](auto change) {
      kernels::Frame a = in.frame(base), b = out.frame(base);
      change(a, b);
      return made.vectorised(a, 0, 0, b);
    };
    EXPECT_TRUE(taken([](auto&, auto&) {})) << describe(c);
    for (int k = 0; k < c.from.format->planes; ++k) {
      EXPECT_FALSE(taken([&](auto& a, auto&) { a.plane[k] += 1; })) << describe(c) << k;
      EXPECT_FALSE(taken([&](auto& a, auto&) { a.stride[k] += 1; })) << describe(c) << k;
      EXPECT_FALSE(taken([&](auto& a, auto&) { a.stride[k] *= -1; })) << describe(c) << k;
    }
    for (int k = 0; k < c.to.format->planes; ++k) {
      EXPECT_FALSE(taken([&](auto&, auto& b) { b.plane[k] += 1; })) << describe(c) << k;
      EXPECT_FALSE(taken([&](auto&, auto& b) { b.stride[k] += 1; })) << describe(c) << k;
      EXPECT_FALSE(taken([&](auto&, auto& b) { b.stride[k] *= -1; })) << describe(c) << k;
    }
  }
}

// --- Sizes

struct Size {
  int width, height;
};

std::vector<Size> sizes() {
  std::vector<Size> all = {{67, 35},  {1920, 2}, {2, 1080}, {1919, 3},
                           {3, 1079}, {1, 129},  {129, 1}};
  const auto add = [&](int x0, int x1, int y0, int y1) {
    for (int w = x0; w <= x1; ++w) {
      for (int h = y0; h <= y1; ++h)
        all.push_back({w, h});
    }
  };
  add(1, 9, 1, 9);
  add(16, 18, 1, 6);
  add(31, 33, 31, 33);
  return all;
}

TEST(Sizes, AllSmallAndSomeOdd) {
  constexpr const char* kPairs[][2] = {{"NV12", "RGBA"},
                                       {"RGBA", "NV12"},
                                       {"I420", "RGBP"},
                                       {"P010_10LE", "RGBA"},
                                       {"NV12", "I420"},
                                       {"Y42B", "RGBA"},
                                       {"RGB", "NV12"},
                                       {"GRAY8", "RGB"},
                                       {"I420_10LE", "RGBA"},
                                       {"BGRP", "I420"},
                                       {"RGB10A2_LE", "P010_10LE"},
                                       {"NV12", "BGR"},
                                       {"P016_LE", "GBR_16LE"},
                                       {"RGB", "BGRx"},
                                       {"I420", "P010_10LE"}};
  const std::vector<Size> all = sizes();
  for_each(std::size(kPairs) * all.size(), [&](Lane& lane, size_t n) {
    const auto& pair = kPairs[n / all.size()];
    const Size size = all[n % all.size()];
    const kernels::Siting& siting = kSitings[n % 3];
    const Case c{picture(pair[0], size.width, size.height, kBt709, siting),
                 picture(pair[1], size.width, size.height, kBt709, siting)};
    check(lane, c, both_looks(), noise(c.from, static_cast<uint32_t>(n) + 1));
  });
}

// --- Crops

TEST(Crops, AtEveryParity) {
  constexpr const char* kPairs[][2] = {
      {"NV12", "RGBA"},      {"RGBA", "NV12"},           {"I420", "RGBP"},
      {"P010_10LE", "RGBA"}, {"NV12", "I420"},           {"Y42B", "RGBA"},
      {"RGB", "NV12"},       {"GRAY8", "RGB"},           {"I420", "NV12"},
      {"RGBP", "I420"},      {"P010_10LE", "I420_10LE"}, {"RGB10A2_LE", "P010_10LE"}};
  struct Offset {
    int x, y;
  };
  std::vector<Offset> offsets;
  for (int x : {0, 1, 2, 3, 4, 5, 8, 16, 36, 37}) {
    for (int y : {0, 1, 2, 3, 4, 23, 24})
      offsets.push_back({x, y});
  }
  for_each(std::size(kPairs) * offsets.size() * 4, [&](Lane& lane, size_t n) {
    const auto& pair = kPairs[n / offsets.size() / 4];
    const auto [x, y] = offsets[n / 4 % offsets.size()];
    const kernels::Siting& siting = kSitings[n % 4];
    const int less = static_cast<int>(n / 4 % 2);
    const Case c{picture(pair[0], 70, 41, kBt709, siting),
                 picture(pair[1], 33 - less, 17 - less, kBt709, siting), x, y};
    check(lane, c, both_looks(), noise(c.from, static_cast<uint32_t>(n) + 1));
  });
}

// The picture given to convert() may be larger than the one given to create().
TEST(Crops, OfAPictureOfAnotherSize) {
  for_each(4, [&](Lane& lane, size_t n) {
    constexpr const char* kPairs[][2] = {
        {"NV12", "RGBA"}, {"I420", "RGBP"}, {"RGBA", "NV12"}, {"NV12", "I420"}};
    Case c{picture(kPairs[n][0], 61, 27), picture(kPairs[n][1], 32, 16), 28, 10};
    const Bytes source = noise(c.from, 7);
    Case smaller = c;
    smaller.from.width = 32, smaller.from.height = 16;
    const Bytes want = convert(lane, converter(c), c, both_looks()[1], source);
    for (const Looks& looks : both_looks()) {
      if (convert(lane, converter(smaller), c, looks, source) != want)
        fail(describe(c) + ": differs when create() is told of a smaller source");
    }
  });
}

// --- Alpha

TEST(Alpha, KeptAndScaled) {
  constexpr const char* kWith[] = {"RGBA", "BGRA",       "ARGB",      "ABGR",
                                   "VUYA", "RGB10A2_LE", "BGR10A2_LE"};
  for_each(std::size(kWith) * std::size(kWith), [&](Lane& lane, size_t n) {
    Case c{picture(kWith[n / std::size(kWith)], 64, 12),
           picture(kWith[n % std::size(kWith)], 64, 12)};
    const Format& in = *c.from.format;
    Bytes source = noise(c.from, 3);
    for (int i = 0; i < 64 * 12; ++i)
      put(source, c.from, 3, i % 64, i / 64,
          static_cast<uint32_t>(i) & ((1u << in.alpha_bits) - 1));
    check(lane, c, both_looks(), source);
    if (c.to.format->alpha_bits != in.alpha_bits)
      return;
    for (const Looks& looks : both_looks()) {
      if (codes(c.to, convert(lane, c, looks, source)).c[3].value !=
          codes(c.from, source).c[3].value)
        fail(describe(c) + " [" + describe(looks.from) + "]: alpha is not the same");
    }
  });
}

TEST(Alpha, OpaqueWhereThereIsNone) {
  constexpr const char* kFrom[] = {"NV12", "P010_10LE", "I420",     "Y444",  "RGB",
                                   "RGBx", "RGBP",      "GBR_16LE", "GRAY8", "Y42B"};
  constexpr const char* kTo[] = {"RGBA", "ARGB",       "ABGR",       "VUYA",
                                 "RGBx", "RGB10A2_LE", "BGR10A2_LE", "BGRx"};
  for_each(std::size(kFrom) * std::size(kTo), [&](Lane& lane, size_t n) {
    const Case c{picture(kFrom[n / std::size(kTo)], 67, 12),
                 picture(kTo[n % std::size(kTo)], 67, 12)};
    const Bytes source = noise(c.from, 5);
    for (const Looks& looks : both_looks()) {
      const Bytes got = convert(lane, c, looks, source);
      // The fourth byte, or the two top bits; of ARGB and ABGR the first byte.
      const size_t first = c.to.format->alpha_first ? 0 : 3;
      for (size_t i = first; i < got.size(); i += 4) {
        const int want = c.to.format->bits == 10 ? 0xc0 : 0xff;
        if ((got[i] & want) != want) {
          fail(describe(c) + " [" + describe(looks.from) + "]: pixel " + std::to_string(i / 4) +
               " is not opaque: got " + std::to_string(got[i]) + ", want " + std::to_string(want));
          return;
        }
      }
    }
  });
}

TEST(Alpha, PadBytesAreAllOnes) {
  for_each(2, [&](Lane& lane, size_t n) {
    const Case c{picture("RGBA", 67, 12), picture(n ? "RGBx" : "BGRx", 67, 12)};
    const Bytes source = noise(c.from, 5);
    for (const Looks& looks : both_looks()) {
      const Bytes got = convert(lane, c, looks, source);
      for (size_t i = 3; i < got.size(); i += 4) {
        if (got[i] != 0xff) {
          fail(describe(c) + " [" + describe(looks.from) + "]: pad byte of pixel " +
               std::to_string(i / 4) + ": got " + std::to_string(got[i]) + ", want 255");
          return;
        }
      }
    }
  });
}

// --- What is refused

TEST(Refusals, FormatsThatCannotBeWritten) {
  for (const char* name : {"Y42B", "I422_10LE"}) {
    const auto made =
        kernels::Converter::create(module(), picture("NV12", 64, 12), picture(name, 64, 12));
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().fault, Fault::Unsupported);
    EXPECT_NE(made.error().message.find(name), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().message.find(' '), std::string::npos) << made.error().message;
  }
}

TEST(Refusals, RectanglesOutsideThePicture) {
  for_each(1, [](Lane& lane, size_t) {
    const Case c{picture("NV12", 64, 12), picture("RGBA", 32, 6)};
    const kernels::Converter made = converter(c);
    const Layout in(*c.from.format, 64, 12, kAlignedLook), out(*c.to.format, 32, 6, kAlignedLook);
    const CUdeviceptr from = lane.source.at_least(in.size), to = lane.target.at_least(out.size);
    Bytes bytes(out.size, 0xa5);
    lane.upload(to, bytes);
    constexpr int kBad[][4] = {{64, 12, -1, 0}, {64, 12, 0, -1},        {64, 12, 33, 0},
                               {64, 12, 0, 7},  {31, 12, 0, 0},         {64, 5, 0, 0},
                               {0, 0, 0, 0},    {64, 12, INT32_MAX, 0}, {64, 12, 0, INT32_MAX}};
    for (const auto& [width, height, x, y] : kBad) {
      const auto done =
          made.convert(in.frame(from), width, height, x, y, out.frame(to), lane.stream.get());
      EXPECT_FALSE(done) << width << "x" << height << " at " << x << "," << y;
      if (!done) {
        EXPECT_NE(done.error().message.find("32x6"), std::string::npos) << done.error().message;
      }
    }
    lane.download(bytes, to);
    lane.wait();
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0xa5), static_cast<ptrdiff_t>(bytes.size()))
        << "something was launched";
  });
}

}  // namespace
}  // namespace cudaipc::test
