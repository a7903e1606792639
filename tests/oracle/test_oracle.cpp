// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The oracle judged by published bar codes, hand-written bytes and hand-computed siting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/oracle/oracle.h"

namespace {

using oracle::Colour;
using oracle::Component;
using oracle::Components;
using oracle::Matrix;
using oracle::Picture;
using oracle::Rect;
using oracle::Site;
using oracle::Triple;
using oracle::Verdict;
using Bytes = std::vector<uint8_t>;
using Values = std::vector<double>;

constexpr Site kCentred{false, false, false};
constexpr Site kLeft{true, false, false};    // MPEG-2
constexpr Site kTopLeft{true, true, false};  // BT.2020
constexpr Site kTop{false, true, false};
constexpr Site kDv{true, false, true};
constexpr Site kDvCentred{false, false, true};

constexpr Colour kFullRgb{Matrix::Rgb, true, {}};
constexpr Colour kLimitedRgb{Matrix::Rgb, false, {}};
constexpr Matrix kYuvMatrices[] = {Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020, Matrix::Smpte240m,
                                   Matrix::Fcc};

Colour limited(Matrix matrix, Site site = {}) {
  return {matrix, false, site};
}
Colour full(Matrix matrix, Site site = {}) {
  return {matrix, true, site};
}

// Owns its bytes, planes without gaps unless the test gives its own strides.
struct Image {
  Picture picture;
  std::vector<Bytes> planes;
  Image(const std::string& format, int width, int height, Colour colour, std::vector<Bytes> bytes,
        std::vector<ptrdiff_t> strides)
      : planes(std::move(bytes)) {
    picture.format = format;
    picture.width = width;
    picture.height = height;
    picture.colour = colour;
    for (size_t i = 0; i < planes.size(); ++i) {
      picture.plane[i] = planes[i].data();
      picture.stride[i] = strides[i];
    }
  }
  Image(const Image&) = delete;
};

// An 8-bit planar YUV picture whose luma is `luma` everywhere, without row gaps.
Image yuv8(const std::string& format, int width, int height, Colour colour, Bytes u, Bytes v,
           uint8_t luma = 100) {
  const int chroma_width =
      (width + oracle::h_subsampling(format) - 1) / oracle::h_subsampling(format);
  return Image(format, width, height, colour,
               {Bytes(static_cast<size_t>(width * height), luma), std::move(u), std::move(v)},
               {width, chroma_width, chroma_width});
}

Components convert(const Image& image, const std::string& format, Colour colour) {
  return oracle::convert(image.picture, {0, 0, image.picture.width, image.picture.height}, format,
                         colour);
}

void expect_near(const Component& got, int width, int height, const Values& want,
                 double tolerance = 1e-9) {
  EXPECT_EQ(got.width, width);
  EXPECT_EQ(got.height, height);
  ASSERT_EQ(got.value.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got.value[i], want[i], tolerance) << "sample " << i;
}

Triple triple(double a, double b, double c, Colour from, int from_bits, Colour to, int to_bits) {
  const double code[3] = {a, b, c};
  return oracle::convert_triple(code, from, from_bits, to, to_bits);
}

void expect_triple(const Triple& got, double a, double b, double c, double tolerance = 1e-9) {
  EXPECT_NEAR(got.v[0], a, tolerance);
  EXPECT_NEAR(got.v[1], b, tolerance);
  EXPECT_NEAR(got.v[2], c, tolerance);
}

// ---- Matrices and ranges ------------------------------------------------------------------------

struct Bar {
  const char* name;
  int r, g, b;  // 0 or 1
  int y, u, v;  // published 8-bit codes
};

void expect_bars(Matrix matrix, double level, const std::vector<Bar>& bars) {
  for (const Bar& bar : bars) {
    SCOPED_TRACE(bar.name);
    const Triple got = triple(255 * level * bar.r, 255 * level * bar.g, 255 * level * bar.b,
                              kFullRgb, 8, limited(matrix), 8);
    EXPECT_EQ(std::lround(got.v[0]), bar.y);
    EXPECT_EQ(std::lround(got.v[1]), bar.u);
    EXPECT_EQ(std::lround(got.v[2]), bar.v);
  }
}

TEST(Bars, Bt601Full) {
  expect_bars(Matrix::Bt601, 1,
              {{"white", 1, 1, 1, 235, 128, 128},
               {"yellow", 1, 1, 0, 210, 16, 146},
               {"cyan", 0, 1, 1, 170, 166, 16},
               {"green", 0, 1, 0, 145, 54, 34},
               {"magenta", 1, 0, 1, 106, 202, 222},
               {"red", 1, 0, 0, 81, 90, 240},
               {"blue", 0, 0, 1, 41, 240, 110},
               {"black", 0, 0, 0, 16, 128, 128}});
}

TEST(Bars, Bt601ThreeQuarters) {
  expect_bars(Matrix::Bt601, 0.75,
              {{"grey", 1, 1, 1, 180, 128, 128},
               {"yellow", 1, 1, 0, 162, 44, 142},
               {"cyan", 0, 1, 1, 131, 156, 44},
               {"green", 0, 1, 0, 112, 72, 58},
               {"magenta", 1, 0, 1, 84, 184, 198},
               {"red", 1, 0, 0, 65, 100, 212},
               {"blue", 0, 0, 1, 35, 212, 114}});
}

TEST(Bars, Bt709Full) {
  expect_bars(Matrix::Bt709, 1,
              {{"white", 1, 1, 1, 235, 128, 128},
               {"yellow", 1, 1, 0, 219, 16, 138},
               {"cyan", 0, 1, 1, 188, 154, 16},
               {"green", 0, 1, 0, 173, 42, 26},
               {"magenta", 1, 0, 1, 78, 214, 230},
               {"red", 1, 0, 0, 63, 102, 240},
               {"blue", 0, 0, 1, 32, 240, 118},
               {"black", 0, 0, 0, 16, 128, 128}});
}

TEST(Bars, Bt709ThreeQuarters) {
  expect_bars(Matrix::Bt709, 0.75,
              {{"grey", 1, 1, 1, 180, 128, 128},
               {"yellow", 1, 1, 0, 168, 44, 136},
               {"cyan", 0, 1, 1, 145, 147, 44},
               {"green", 0, 1, 0, 133, 63, 52},
               {"magenta", 1, 0, 1, 63, 193, 204},
               {"red", 1, 0, 0, 51, 109, 212},
               {"blue", 0, 0, 1, 28, 212, 120}});
}

// 64 + 876 Kr, 512 - 896 Kr / (2 (1 - Kb)), 960, worked out by hand from the Recommendations.
TEST(Bars, RedAndBlueOfTheOtherMatrices) {
  expect_triple(triple(1023, 0, 0, kFullRgb, 10, limited(Matrix::Bt2020), 10), 294.1252, 386.8915,
                960, 1e-3);
  expect_triple(triple(0, 0, 1023, kFullRgb, 10, limited(Matrix::Bt2020), 10), 115.9468, 960,
                475.9680, 1e-3);
  expect_triple(triple(255, 0, 0, kFullRgb, 8, limited(Matrix::Smpte240m), 8), 62.428, 101.9934,
                240, 1e-3);
  expect_triple(triple(0, 0, 255, kFullRgb, 8, limited(Matrix::Smpte240m), 8), 35.053, 240,
                115.6345, 1e-3);
  expect_triple(triple(255, 0, 0, kFullRgb, 8, limited(Matrix::Fcc), 8), 81.7, 90.2472, 240, 1e-3);
  expect_triple(triple(0, 0, 255, kFullRgb, 8, limited(Matrix::Fcc), 8), 40.09, 240, 110.4, 1e-3);
}

// JFIF: the familiar 8-bit full-range BT.601 numbers.
TEST(Bars, FullRangeBt601) {
  expect_triple(triple(255, 0, 0, kFullRgb, 8, full(Matrix::Bt601), 8), 76.245, 84.9723, 255, 1e-3);
  // 1.402, 0.344136, 0.714136, 1.772 are JFIF's own decoder constants.
  expect_triple(triple(100, 148, 108, full(Matrix::Bt601), 8, kFullRgb, 8), 100 - 1.402 * 20,
                100 - 0.344136 * 20 + 0.714136 * 20, 100 + 1.772 * 20, 1e-4);
}

// 298.082/256 etc.: the decoder constants printed for studio-range BT.601 and BT.709.
TEST(Decode, StudioRangeConstants) {
  expect_triple(triple(126, 138, 118, limited(Matrix::Bt601), 8, kFullRgb, 8),
                1.164383 * 110 - 1.596027 * 10, 1.164383 * 110 - 0.391762 * 10 + 0.812968 * 10,
                1.164383 * 110 + 2.017232 * 10, 1e-3);
  expect_triple(triple(126, 138, 118, limited(Matrix::Bt709), 8, kFullRgb, 8),
                1.164383 * 110 - 1.792741 * 10, 1.164383 * 110 - 0.213249 * 10 + 0.532909 * 10,
                1.164383 * 110 + 2.112402 * 10, 1e-3);
}

// The 601 to 709 matrix as video tools print it; chroma depends on chroma alone.
TEST(Decode, Bt601ToBt709) {
  expect_triple(triple(126, 148, 98, limited(Matrix::Bt601), 8, limited(Matrix::Bt709), 8),
                126 + 219.0 / 224 * (-0.1181878 * 20 + 0.2126850 * 30),
                128 + 1.0186397 * 20 - 0.1146183 * 30, 128 + 0.0750494 * 20 - 1.0253271 * 30, 1e-3);
  const Triple dark = triple(20, 148, 98, limited(Matrix::Bt601), 8, limited(Matrix::Bt709), 8);
  const Triple light = triple(200, 148, 98, limited(Matrix::Bt601), 8, limited(Matrix::Bt709), 8);
  EXPECT_NEAR(dark.v[1], light.v[1], 1e-10);
  EXPECT_NEAR(dark.v[2], light.v[2], 1e-10);
}

TEST(Range, DepthWithinLimitedIsAFactorOfFour) {
  for (Matrix matrix : kYuvMatrices) {
    expect_triple(triple(16, 128, 240, limited(matrix), 8, limited(matrix), 10), 64, 512, 960);
    expect_triple(triple(235, 16, 128, limited(matrix), 8, limited(matrix), 10), 940, 64, 512);
    expect_triple(triple(940, 64, 960, limited(matrix), 10, limited(matrix), 8), 235, 16, 240);
    expect_triple(triple(5, 250, 3, limited(matrix), 8, limited(matrix), 16), 1280, 64000, 768);
  }
}

TEST(Range, DepthWithinFull) {
  expect_triple(triple(0, 51, 255, kFullRgb, 8, kFullRgb, 10), 0, 204.6, 1023);
  expect_triple(triple(0, 257, 65535, kFullRgb, 16, kFullRgb, 8), 0, 1, 255);
  // Chroma turns about 2^(b-1), which is not the middle of the codes: 512 - 513.5 is clipped.
  expect_triple(triple(255, 128, 0, full(Matrix::Bt709), 8, full(Matrix::Bt709), 10), 1023, 512, 0);
  expect_triple(triple(51, 28, 178, full(Matrix::Bt709), 8, full(Matrix::Bt709), 10), 204.6,
                512 - 100 * 1023.0 / 255, 512 + 50 * 1023.0 / 255);
}

TEST(Range, LimitedAndFull) {
  expect_triple(triple(0, 255, 51, kFullRgb, 8, kLimitedRgb, 8), 16, 235, 16 + 219 * 0.2);
  expect_triple(triple(64, 940, 502, kLimitedRgb, 10, kFullRgb, 8), 0, 255, 127.5);
  expect_triple(triple(235, 16, 240, limited(Matrix::Bt709), 8, full(Matrix::Bt709), 8), 255, 0.5,
                255);  // 128 + 127.5 does not fit
  expect_triple(triple(255, 128, 128, full(Matrix::Bt601), 8, limited(Matrix::Bt601), 8), 235, 128,
                128);
}

TEST(Range, ClipsOnlyTheResultAndOnlyToTheCodes) {
  // Below black and beyond the chroma range of 16..240: kept within one range, clipped when the
  // codes end.
  expect_triple(triple(5, 2, 254, limited(Matrix::Bt601), 8, limited(Matrix::Bt601), 10), 20, 8,
                1016);
  expect_triple(triple(5, 128, 128, limited(Matrix::Bt601), 8, kFullRgb, 8), 0, 0, 0);
  expect_triple(triple(250, 128, 128, limited(Matrix::Bt601), 8, kFullRgb, 8), 255, 255, 255);
  expect_triple(triple(250, 128, 128, limited(Matrix::Bt601), 8, kLimitedRgb, 8), 250, 250, 250);
  // R and B are far above white here: clipping them on the way would lower the luma.
  expect_triple(triple(200, 190, 190, limited(Matrix::Bt601), 8, limited(Matrix::Bt709), 8),
                200 + 219.0 / 224 * (-0.1181878 - 0.2126850) * 62,
                128 + (1.0186397 + 0.1146183) * 62, 128 + (0.0750494 + 1.0253271) * 62, 1e-3);
}

TEST(Range, GreyStaysGrey) {
  for (Matrix from : kYuvMatrices) {
    for (Matrix to : kYuvMatrices)
      expect_triple(triple(77, 128, 128, limited(from), 8, limited(to), 8), 77, 128, 128);
    expect_triple(triple(77, 77, 77, kFullRgb, 8, full(from), 8), 77, 128, 128);
    expect_triple(triple(77, 128, 128, full(from), 8, kFullRgb, 8), 77, 77, 77);
    expect_triple(triple(308, 512, 512, limited(from), 10, kLimitedRgb, 8), 77, 77, 77);
  }
}

TEST(Range, RoundTrip) {
  for (Matrix matrix : kYuvMatrices)
    for (bool is_full : {false, true})
      for (double r : {20.0, 100.25, 250.0})
        for (double g : {20.0, 133.5, 250.0})
          for (double b : {20.0, 90.125, 250.0}) {
            const Colour middle{matrix, is_full, {}};
            const Triple yuv = triple(r, g, b, kFullRgb, 8, middle, 12);
            const Triple back = triple(yuv.v[0], yuv.v[1], yuv.v[2], middle, 12, kFullRgb, 8);
            EXPECT_LT(std::fabs(back.v[0] - r) / r, 1e-12);
            EXPECT_LT(std::fabs(back.v[1] - g) / g, 1e-12);
            EXPECT_LT(std::fabs(back.v[2] - b) / b, 1e-12);
          }
}

// ---- Siting: up ---------------------------------------------------------------------------------

// Luma and the other chroma component differ from the one watched, so a mix-up shows.
TEST(Up, Horizontal) {
  const Bytes u{100, 200}, v{60, 20};
  const auto up = [&](int width, Site site) {
    return convert(yuv8("Y42B", width, 1, limited(Matrix::Bt601, site), u, v), "Y444",
                   limited(Matrix::Bt601));
  };
  expect_near(up(4, kCentred).c[1], 4, 1, {100, 125, 175, 200});
  expect_near(up(4, kCentred).c[2], 4, 1, {60, 50, 30, 20});
  expect_near(up(4, kLeft).c[1], 4, 1, {100, 150, 200, 200});
  expect_near(up(4, kLeft).c[2], 4, 1, {60, 40, 20, 20});
  expect_near(up(3, kCentred).c[1], 3, 1, {100, 125, 175});
  expect_near(up(3, kLeft).c[1], 3, 1, {100, 150, 200});
  // 4:2:2 has no vertical subsampling, whatever the site says of it.
  expect_near(up(4, kTop).c[1], 4, 1, {100, 125, 175, 200});
  expect_near(up(4, kDv).c[1], 4, 1, {100, 150, 200, 200});
  expect_near(up(4, kDv).c[0], 4, 1, {100, 100, 100, 100});
}

TEST(Up, Vertical) {
  const Bytes u{100, 200}, v{60, 20};
  const auto up = [&](int height, Site site) {
    return convert(yuv8("I420", 1, height, limited(Matrix::Bt601, site), u, v), "Y444",
                   limited(Matrix::Bt601));
  };
  expect_near(up(4, kLeft).c[1], 1, 4, {100, 125, 175, 200});
  expect_near(up(4, kTop).c[1], 1, 4, {100, 150, 200, 200});
  expect_near(up(3, kCentred).c[2], 1, 3, {60, 50, 30});
  expect_near(up(3, kTopLeft).c[2], 1, 3, {60, 40, 20});
  // Alternate lines: Cb on lines 1 and 3, Cr on lines 0 and 2.
  for (const Site& site : {kDv, kDvCentred, Site{true, true, true}}) {
    expect_near(up(4, site).c[1], 1, 4, {100, 100, 150, 200});
    expect_near(up(4, site).c[2], 1, 4, {60, 40, 20, 20});
    expect_near(up(3, site).c[1], 1, 3, {100, 100, 150});
  }
}

TEST(Up, BothAxes) {
  const Bytes u{100, 200, 60, 20}, flat(4, 128);
  const auto up = [&](Site site) {
    return convert(yuv8("I420", 4, 4, limited(Matrix::Bt709, site), u, flat), "Y444",
                   limited(Matrix::Bt709));
  };
  const Components centred = up(kCentred), left = up(kLeft), top_left = up(kTopLeft), dv = up(kDv);
  EXPECT_NEAR(centred.c[1].value[1 * 4 + 1], 106.25, 1e-9);  // 3/4 125 + 1/4 50
  EXPECT_NEAR(centred.c[1].value[2 * 4 + 3], 65, 1e-9);      // 1/4 200 + 3/4 20
  EXPECT_NEAR(left.c[1].value[1 * 4 + 1], 122.5, 1e-9);      // 3/4 150 + 1/4 40
  EXPECT_NEAR(top_left.c[1].value[1 * 4 + 1], 95, 1e-9);     // 1/2 150 + 1/2 40
  EXPECT_NEAR(dv.c[1].value[1 * 4 + 1], 150, 1e-9);
  EXPECT_NEAR(dv.c[1].value[2 * 4 + 1], 95, 1e-9);
  expect_near(up(kTopLeft).c[1], 4, 4,
              {100, 150, 200, 200, 80, 95, 110, 110, 60, 40, 20, 20, 60, 40, 20, 20});
}

TEST(Up, ToRgbInterpolatesBeforeTheMatrix) {
  // Full-range BT.601, Y 100, V steps by 40 from neutral: R = Y + 1.402 (V - 128).
  const Image image =
      yuv8("Y42B", 4, 1, full(Matrix::Bt601), Bytes{128, 128}, Bytes{128, 168}, 100);
  const Components rgb = convert(image, "RGBA", kFullRgb);
  expect_near(rgb.c[0], 4, 1, {100, 100 + 1.402 * 10, 100 + 1.402 * 30, 100 + 1.402 * 40});
  expect_near(rgb.c[2], 4, 1, {100, 100, 100, 100});
  expect_near(rgb.c[3], 4, 1, {255, 255, 255, 255});
  // Clipped codes come last: R of the last two would pass 255 from a luma of 200.
  const Image light =
      yuv8("Y42B", 4, 1, full(Matrix::Bt601), Bytes{128, 128}, Bytes{128, 168}, 200);
  expect_near(convert(light, "RGBP", kFullRgb).c[0], 4, 1, {200, 214.02, 242.06, 255});
}

// ---- Siting: down -------------------------------------------------------------------------------

TEST(Down, Horizontal) {
  const auto down = [](Bytes u, Site site) {
    const int width = static_cast<int>(u.size());
    Bytes v(u);
    for (uint8_t& value : v)
      value = static_cast<uint8_t>(255 - value);
    return convert(yuv8("Y444", width, 1, limited(Matrix::Bt601), u, v), "Y42B",
                   limited(Matrix::Bt601, site));
  };
  expect_near(down({100, 140, 180, 60}, kCentred).c[1], 2, 1, {120, 120});
  expect_near(down({100, 140, 180, 60}, kLeft).c[1], 2, 1, {110, 140});
  expect_near(down({100, 140, 180, 60}, kLeft).c[2], 2, 1, {145, 115});
  expect_near(down({100, 140, 180, 60, 20}, kCentred).c[1], 3, 1, {120, 120, 20});
  expect_near(down({100, 140, 180, 60, 20}, kLeft).c[1], 3, 1, {110, 140, 30});
  expect_near(down({90}, kCentred).c[1], 1, 1, {90});
  expect_near(down({90}, kLeft).c[1], 1, 1, {90});
  expect_near(down({100, 140, 180, 60}, kDv).c[1], 2, 1, {110, 140});
  expect_near(down({100, 140, 180, 60}, kTop).c[1], 2, 1, {120, 120});
}

TEST(Down, Vertical) {
  const auto down = [](Bytes u, Site site) {
    const int height = static_cast<int>(u.size());
    return convert(yuv8("Y444", 1, height, limited(Matrix::Bt601), u, u), "NV12",
                   limited(Matrix::Bt601, site));
  };
  expect_near(down({100, 140, 180, 60}, kLeft).c[1], 1, 2, {120, 120});
  expect_near(down({100, 140, 180, 60}, kTopLeft).c[1], 1, 2, {110, 140});
  expect_near(down({100, 140, 180}, kCentred).c[1], 1, 2, {120, 180});
  expect_near(down({100, 140, 180}, kTop).c[1], 1, 2, {110, 170});
  for (const Site& site : {kDv, kDvCentred, Site{true, true, true}}) {
    expect_near(down({100, 140, 180, 60}, site).c[1], 1, 2, {140, 90});   // about lines 1 and 3
    expect_near(down({100, 140, 180, 60}, site).c[2], 1, 2, {110, 140});  // about lines 0 and 2
    expect_near(down({100, 140, 180}, site).c[1], 1, 2, {140, 180});
    expect_near(down({100, 140, 180}, site).c[2], 1, 2, {110, 170});
  }
}

TEST(Down, ImpulseInBothAxes) {
  // 64 above neutral at luma (2, 1) of a 5x3 picture.
  Bytes u(15, 128);
  u[1 * 5 + 2] = 192;
  const auto down = [&](Site site) {
    return convert(yuv8("Y444", 5, 3, limited(Matrix::Bt601), u, u), "I420",
                   limited(Matrix::Bt601, site));
  };
  expect_near(down(kCentred).c[1], 3, 2, {128, 144, 128, 128, 128, 128});
  expect_near(down(kLeft).c[1], 3, 2, {128, 144, 128, 128, 128, 128});
  expect_near(down(kTopLeft).c[1], 3, 2, {128, 136, 128, 128, 136, 128});
  expect_near(down(kDv).c[1], 3, 2, {128, 144, 128, 128, 128, 128});
  expect_near(down(kDv).c[2], 3, 2, {128, 136, 128, 128, 136, 128});
  // The same one position to the right, where a co-sited filter spreads over two samples.
  std::swap(u[1 * 5 + 2], u[1 * 5 + 3]);
  expect_near(down(kCentred).c[1], 3, 2, {128, 144, 128, 128, 128, 128});
  expect_near(down(kLeft).c[1], 3, 2, {128, 136, 136, 128, 128, 128});
}

TEST(Down, FromRgb) {
  // Red, red, black at full-range BT.601: V of red is 0.5, of black 0; U of red -0.299/1.772.
  const Image image("RGB", 3, 1, kFullRgb, {{255, 0, 0, 255, 0, 0, 0, 0, 0}}, {9});
  const double u_red = -0.299 / 1.772 * 224;
  const Components centred = convert(image, "NV12", limited(Matrix::Bt601));
  expect_near(centred.c[0], 3, 1, {16 + 219 * 0.299, 16 + 219 * 0.299, 16});
  expect_near(centred.c[1], 2, 1, {128 + u_red, 128});
  expect_near(centred.c[2], 2, 1, {240, 128});
  const Components left = convert(image, "NV12", limited(Matrix::Bt601, kLeft));
  expect_near(left.c[1], 2, 1, {128 + u_red, 128 + u_red / 4});
  expect_near(left.c[2], 2, 1, {240, 156});
}

// ---- Crops --------------------------------------------------------------------------------------

TEST(Crop, OddAndEvenHorizontally) {
  const Bytes u{100, 200, 60}, flat(3, 128);
  const auto crop = [&](Site site, int x, int width, const char* to, Site to_site) {
    return oracle::convert(yuv8("Y42B", 6, 1, limited(Matrix::Bt601, site), u, flat).picture,
                           {x, 0, width, 1}, to, limited(Matrix::Bt601, to_site))
        .c[1];
  };
  expect_near(crop(kCentred, 1, 4, "Y444", {}), 4, 1, {125, 175, 165, 95});
  expect_near(crop(kLeft, 1, 4, "Y444", {}), 4, 1, {150, 200, 130, 60});
  // Chroma beyond the crop takes part in interpolation...
  expect_near(crop(kCentred, 2, 2, "Y444", {}), 2, 1, {175, 165});
  // ...but the filter down repeats the edges of the crop.
  expect_near(crop(kCentred, 1, 4, "Y42B", kCentred), 2, 1, {150, 130});
  expect_near(crop(kLeft, 1, 4, "Y42B", kLeft), 2, 1, {162.5, 130});
  expect_near(crop(kCentred, 1, 3, "Y42B", kCentred), 2, 1, {150, 165});
  // At even offsets the same siting passes through, another does not.
  expect_near(crop(kCentred, 2, 3, "Y42B", kCentred), 2, 1, {200, 60});
  expect_near(crop(kLeft, 2, 3, "Y42B", kLeft), 2, 1, {200, 60});
  expect_near(crop(kCentred, 2, 3, "Y42B", kLeft), 2, 1, {172.5, 112.5});
  expect_near(crop(kLeft, 2, 3, "Y42B", kCentred), 2, 1, {165, 60});
}

TEST(Crop, OddVerticallyWithAlternateLines) {
  const Bytes c{100, 200, 60};
  const Image image = yuv8("I420", 1, 6, limited(Matrix::Bt601, kDv), c, c);
  // On the luma grid U is 100 100 150 200 130 60 and V is 100 150 200 130 60 60.
  const Components odd =
      oracle::convert(image.picture, {0, 1, 1, 4}, "I420", limited(Matrix::Bt601, kDv));
  expect_near(odd.c[1], 1, 2, {150, 147.5});  // lines 0..2 and 2,3,3 of 100 150 200 130
  expect_near(odd.c[2], 1, 2, {162.5, 130});  // lines 0,0,1 and 1..3 of 150 200 130 60
  const Components even =
      oracle::convert(image.picture, {0, 2, 1, 3}, "I420", limited(Matrix::Bt601, kDv));
  expect_near(even.c[1], 1, 2, {200, 60});
  expect_near(even.c[2], 1, 2, {200, 60});
}

TEST(Crop, LumaRgbAndAlphaMoveWithTheCrop) {
  Bytes bytes;
  for (int i = 0; i < 3 * 3 * 4; ++i)
    bytes.push_back(static_cast<uint8_t>(i));
  const Image image("RGBA", 3, 3, kFullRgb, {bytes}, {12});
  const Components out = oracle::convert(image.picture, {1, 2, 2, 1}, "ARGB", kFullRgb);
  expect_near(out.c[0], 2, 1, {28, 32});
  expect_near(out.c[1], 2, 1, {29, 33});
  expect_near(out.c[2], 2, 1, {30, 34});
  expect_near(out.c[3], 2, 1, {31, 35});
  const Components luma =
      oracle::convert(image.picture, {1, 2, 2, 1}, "GRAY8", full(Matrix::Bt601));
  expect_near(luma.c[0], 2, 1,
              {0.299 * 28 + 0.587 * 29 + 0.114 * 30, 0.299 * 32 + 0.587 * 33 + 0.114 * 34});
}

// ---- Passing through ----------------------------------------------------------------------------

TEST(PassThrough, PerAxis) {
  const Bytes u{100, 200, 60, 20}, flat(4, 128);
  const Image image = yuv8("I420", 4, 4, limited(Matrix::Bt601, kCentred), u, flat);
  expect_near(convert(image, "NV21", limited(Matrix::Bt601, kCentred)).c[1], 2, 2,
              {100, 200, 60, 20});
  // Horizontally to the left, vertically as it was: (100 + 2 100 + 125)/4, (125 + 2 175 + 200)/4.
  expect_near(convert(image, "NV12", limited(Matrix::Bt601, kLeft)).c[1], 2, 2,
              {106.25, 168.75, 57.5, 32.5});
  // Vertically to the top, horizontally as it was: columns 100 90 70 60 and 200 155 65 20.
  expect_near(convert(image, "NV12", limited(Matrix::Bt601, kTop)).c[1], 2, 2,
              {97.5, 188.75, 72.5, 76.25});
  // To 4:2:2 with the same horizontal siting only the lines are interpolated.
  expect_near(convert(image, "Y42B", limited(Matrix::Bt601, kCentred)).c[1], 2, 4,
              {100, 200, 90, 155, 70, 65, 60, 20});
  expect_near(convert(image, "P010_10LE", limited(Matrix::Bt601, kCentred)).c[1], 2, 2,
              {400, 800, 240, 80});
}

TEST(PassThrough, FromHalfWidthToQuarter) {
  // 4:2:2 to 4:2:0: across as it was, down filtered.
  const Image image =
      yuv8("Y42B", 4, 2, limited(Matrix::Bt601, kLeft), {100, 200, 60, 20}, {128, 128, 128, 128});
  expect_near(convert(image, "I420", limited(Matrix::Bt601, kLeft)).c[1], 2, 1, {80, 110});
}

TEST(PassThrough, OneComponentOfAlternateLines) {
  const Bytes c{100, 200};
  const Image dv = yuv8("I420", 1, 4, limited(Matrix::Bt601, kDv), c, c);
  const Components same = convert(dv, "NV12", limited(Matrix::Bt601, kDv));
  expect_near(same.c[1], 1, 2, {100, 200});
  expect_near(same.c[2], 1, 2, {100, 200});
  // Cr is where top siting has it; Cb is a line lower: 100 100 150 200 filtered about 0 and 2.
  const Components top = convert(dv, "NV12", limited(Matrix::Bt601, kTopLeft));
  expect_near(top.c[1], 1, 2, {100, 150});
  expect_near(top.c[2], 1, 2, {100, 200});
  const Image top_left = yuv8("I420", 1, 4, limited(Matrix::Bt601, kTopLeft), c, c);
  const Components back = convert(top_left, "NV12", limited(Matrix::Bt601, kDv));
  expect_near(back.c[1], 1, 2, {150, 200});  // 100 150 200 200 filtered about 1 and 3
  expect_near(back.c[2], 1, 2, {100, 200});
}

TEST(PassThrough, AcrossMatrices) {
  const Bytes u{100, 200}, v{60, 150};
  const Image image = yuv8("Y42B", 4, 1, limited(Matrix::Bt601), u, v);
  const Components out = convert(image, "Y42B", limited(Matrix::Bt709));
  expect_near(out.c[1], 2, 1,
              {128 - 1.0186397 * 28 - 0.1146183 * 68, 128 + 1.0186397 * 72 + 0.1146183 * 22}, 1e-3);
  expect_near(out.c[2], 2, 1,
              {128 - 0.0750494 * 28 - 1.0253271 * 68, 128 + 0.0750494 * 72 + 1.0253271 * 22}, 1e-3);
  // Luma takes the chroma interpolated at its own place: U 125, V 82.5 at the second position.
  EXPECT_NEAR(out.c[0].value[1], 100 + 219.0 / 224 * (0.1181878 * 3 + 0.2126850 * 45.5), 1e-3);
}

TEST(PassThrough, AcrossMatricesOnAlternateLinesMixesAtTheSamePlace) {
  const Bytes u{100, 200}, v{60, 150};
  const Image image = yuv8("I420", 1, 4, limited(Matrix::Bt601, kDv), u, v);
  const Components out = convert(image, "I420", limited(Matrix::Bt709, kDv));
  // V on the grid: 60 105 150 150; about lines 1 and 3: 105, 150. U: 100 100 150 200; about lines
  // 0 and 2: 100, 150.
  expect_near(out.c[1], 1, 2,
              {128 - 1.0186397 * 28 - 0.1146183 * 23, 128 + 1.0186397 * 72 + 0.1146183 * 22}, 1e-3);
  expect_near(out.c[2], 1, 2,
              {128 - 0.0750494 * 28 - 1.0253271 * 68, 128 + 0.0750494 * 22 + 1.0253271 * 22}, 1e-3);
}

// ---- Grey and alpha -----------------------------------------------------------------------------

TEST(Grey, BothWays) {
  const Image grey("GRAY8", 3, 1, limited(Matrix::Bt601), {{16, 100, 235}}, {3});
  const Components yuv = convert(grey, "NV12", limited(Matrix::Bt709));
  expect_near(yuv.c[0], 3, 1, {16, 100, 235});
  expect_near(yuv.c[1], 2, 1, {128, 128});
  expect_near(yuv.c[2], 2, 1, {128, 128});
  const Components rgb = convert(grey, "BGRx", kFullRgb);
  for (int i = 0; i < 3; ++i)
    expect_near(rgb.c[i], 3, 1, {0, 84 * 255.0 / 219, 255});
  EXPECT_FALSE(rgb.has_alpha);
  EXPECT_TRUE(rgb.c[3].value.empty());

  const Image colour = yuv8("I420", 2, 1, limited(Matrix::Bt601), {148}, {98}, 126);
  const Components same = convert(colour, "GRAY8", limited(Matrix::Bt601));
  expect_near(same.c[0], 2, 1, {126, 126});
  EXPECT_TRUE(same.c[1].value.empty());
  EXPECT_TRUE(same.c[2].value.empty());
  const double other = 126 + 219.0 / 224 * (-0.1181878 * 20 + 0.2126850 * 30);
  expect_near(convert(colour, "GRAY8", limited(Matrix::Bt709)).c[0], 2, 1, {other, other}, 1e-3);

  const Image red("RGB", 1, 1, kFullRgb, {{255, 0, 0}}, {3});
  expect_near(convert(red, "GRAY8", full(Matrix::Bt709)).c[0], 1, 1, {0.2126 * 255});
}

TEST(Alpha, RescaledOpaqueOrDropped) {
  const Image rgba("RGBA", 2, 1, kLimitedRgb, {{16, 16, 16, 51, 235, 235, 235, 255}}, {8});
  const Components deep = convert(rgba, "RGB10A2_LE", kFullRgb);
  EXPECT_TRUE(deep.has_alpha);
  EXPECT_EQ(deep.bits[3], 2);
  expect_near(deep.c[3], 2, 1, {0.6, 3});
  expect_near(deep.c[0], 2, 1, {0, 1023});
  expect_near(convert(rgba, "VUYA", limited(Matrix::Bt601)).c[3], 2, 1, {51, 255});
  EXPECT_FALSE(convert(rgba, "RGBx", kFullRgb).has_alpha);

  // Alpha 1 of 3.
  const Image two_bits("BGR10A2_LE", 1, 1, kFullRgb, {{0, 0, 0, 0x40}}, {4});
  expect_near(convert(two_bits, "BGRA", kFullRgb).c[3], 1, 1, {85});
  const Image none("RGBx", 1, 1, kFullRgb, {{1, 2, 3, 77}}, {4});
  expect_near(convert(none, "ABGR", kFullRgb).c[3], 1, 1, {255});
  expect_near(convert(none, "BGR10A2_LE", kFullRgb).c[3], 1, 1, {3});
}

// ---- Memory layouts -----------------------------------------------------------------------------

// Components 0..3 as read must be these; every row ends in bytes that belong to no sample.
void expect_layout(const std::string& format, int width, int height, std::vector<Bytes> planes,
                   std::vector<ptrdiff_t> strides, const std::vector<Values>& want) {
  SCOPED_TRACE(format);
  ASSERT_TRUE(oracle::known(format));
  const size_t plane_count = planes.size();
  const Image image(format, width, height,
                    oracle::is_rgb(format) ? kFullRgb : limited(Matrix::Bt709), std::move(planes),
                    std::move(strides));
  EXPECT_EQ(static_cast<size_t>(oracle::planes(format)), plane_count);
  const oracle::Read got = oracle::read(image.picture);
  EXPECT_EQ(got.bad_padding, 0u);
  EXPECT_EQ(got.components.has_alpha, want.size() == 4);
  EXPECT_EQ(oracle::has_alpha(format), want.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    const Values expected = i < want.size() ? want[i] : Values{};
    EXPECT_EQ(got.components.c[i].value, expected);
    EXPECT_EQ(got.components.bits[i] != 0, !expected.empty());
    EXPECT_EQ(static_cast<size_t>(got.components.c[i].width) *
                  static_cast<size_t>(got.components.c[i].height),
              expected.size());
  }
  EXPECT_EQ(got.components.bits[0], oracle::bits(format));
  EXPECT_EQ(got.components.bits[3], oracle::alpha_bits(format));
}

constexpr uint8_t kX = 0xee;  // outside every row

TEST(Layout, SubsampledBytes) {
  const Bytes luma{1, 2, 3, kX, 4, 5, 6, kX, 7, 8, 9, kX};  // 3x3
  const Values y{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Bytes pairs{11, 21, 12, 22, kX, 13, 23, 14, 24, kX};
  const Values first{11, 12, 13, 14}, second{21, 22, 23, 24};
  expect_layout("NV12", 3, 3, {luma, pairs}, {4, 5}, {y, first, second});
  expect_layout("NV21", 3, 3, {luma, pairs}, {4, 5}, {y, second, first});
  const Bytes one{11, 12, kX, 13, 14, kX}, two{21, 22, kX, kX, 23, 24, kX, kX};
  expect_layout("I420", 3, 3, {luma, one, two}, {4, 3, 4}, {y, first, second});
  expect_layout("YV12", 3, 3, {luma, one, two}, {4, 3, 4}, {y, second, first});
  expect_layout("Y42B", 3, 3, {luma, {11, 12, 13, 14, 15, 16}, {21, 22, kX, 23, 24, kX, 25, 26}},
                {4, 2, 3}, {y, {11, 12, 13, 14, 15, 16}, {21, 22, 23, 24, 25, 26}});
}

TEST(Layout, SubsampledWords) {
  // Low byte first. High bits: 0x0040 is code 1 of 10 bits, 0xffc0 is 1023.
  expect_layout(
      "P010_10LE", 2, 2,
      {{0x40, 0x00, 0xc0, 0xff, kX, kX, 0x00, 0x80, 0x80, 0x12, kX, kX}, {0x40, 0x40, 0x00, 0xc0}},
      {6, 4}, {{1, 1023, 512, 74}, {257}, {768}});
  expect_layout("P012_LE", 2, 1, {{0x10, 0x00, 0xf0, 0xff}, {0x20, 0x10, 0x00, 0xc0}}, {4, 4},
                {{1, 4095}, {258}, {3072}});
  expect_layout("P016_LE", 2, 1, {{0x01, 0x00, 0xff, 0xff}, {0x34, 0x12, 0x00, 0xc0}}, {4, 4},
                {{1, 65535}, {0x1234}, {0xc000}});
  // Low bits.
  expect_layout(
      "I420_10LE", 2, 2,
      {{0x01, 0x00, 0xff, 0x03, kX, 0x00, 0x02, 0x34, 0x01, kX}, {0x11, 0x01}, {0x22, 0x02}},
      {5, 2, 2}, {{1, 1023, 512, 308}, {273}, {546}});
  expect_layout("I420_12LE", 1, 1, {{0xff, 0x0f}, {0x11, 0x01}, {0x22, 0x0a}}, {2, 2, 2},
                {{4095}, {273}, {2594}});
  expect_layout("I422_10LE", 2, 2,
                {{1, 0, 2, 0, 3, 0, 4, 0}, {0x11, 0x01, 0x12, 0x01}, {0x22, 0x02, 0x23, 0x02}},
                {4, 2, 2}, {{1, 2, 3, 4}, {273, 274}, {546, 547}});
}

TEST(Layout, Planar444) {
  expect_layout("Y444", 2, 1, {{1, 2}, {3, 4}, {5, 6}}, {2, 2, 2}, {{1, 2}, {3, 4}, {5, 6}});
  expect_layout("Y444_10LE", 1, 2, {{1, 0, 0xff, 3}, {2, 1, 3, 1}, {4, 2, 5, 2}}, {2, 2, 2},
                {{1, 1023}, {258, 259}, {516, 517}});
  expect_layout(
      "Y444_12LE", 2, 2,
      {{0xff, 0x0f, 1, 0, 2, 0, 3, 0}, {2, 9, 3, 9, 4, 9, 5, 9}, {4, 10, 5, 1, 6, 0, 7, 0}},
      {4, 4, 4}, {{4095, 1, 2, 3}, {2306, 2307, 2308, 2309}, {2564, 261, 6, 7}});
  expect_layout(
      "Y444_16LE", 2, 2,
      {{0xff, 0xff, 1, 0, 2, 0, 3, 0}, {2, 0x90, 3, 9, 4, 9, 5, 9}, {4, 0xa0, 5, 1, 6, 0, 7, 0}},
      {4, 4, 4}, {{65535, 1, 2, 3}, {0x9002, 2307, 2308, 2309}, {0xa004, 261, 6, 7}});
  expect_layout("RGBP", 2, 1, {{1, 2}, {3, 4}, {5, 6}}, {2, 2, 2}, {{1, 2}, {3, 4}, {5, 6}});
  expect_layout("BGRP", 2, 1, {{1, 2}, {3, 4}, {5, 6}}, {2, 2, 2}, {{5, 6}, {3, 4}, {1, 2}});
  expect_layout("GBR", 2, 1, {{1, 2}, {3, 4}, {5, 6}}, {2, 2, 2}, {{5, 6}, {1, 2}, {3, 4}});
  expect_layout("GBR_10LE", 1, 1, {{1, 3}, {2, 1}, {4, 2}}, {2, 2, 2}, {{516}, {769}, {258}});
  expect_layout("GBR_16LE", 1, 1, {{1, 0xf3}, {2, 0xe1}, {4, 0xd2}}, {2, 2, 2},
                {{0xd204}, {0xf301}, {0xe102}});
  expect_layout("GRAY8", 2, 2, {{1, 2, kX, 3, 4, kX}}, {3}, {{1, 2, 3, 4}});
}

TEST(Layout, Packed) {
  const Bytes four{1, 2, 3, 4, 5, 6, 7, 8, kX, 9, 10, 11, 12, 13, 14, 15, 16, kX};  // 2x2
  const Values a{1, 5, 9, 13}, b{2, 6, 10, 14}, c{3, 7, 11, 15}, d{4, 8, 12, 16};
  expect_layout("VUYA", 2, 2, {four}, {9}, {c, b, a, d});
  expect_layout("RGBA", 2, 2, {four}, {9}, {a, b, c, d});
  expect_layout("BGRA", 2, 2, {four}, {9}, {c, b, a, d});
  expect_layout("ARGB", 2, 2, {four}, {9}, {b, c, d, a});
  expect_layout("ABGR", 2, 2, {four}, {9}, {d, c, b, a});
  const Bytes padded{1, 2, 3, 255, 4, 5, 6, 255};
  expect_layout("RGBx", 2, 1, {padded}, {8}, {{1, 4}, {2, 5}, {3, 6}});
  expect_layout("BGRx", 2, 1, {padded}, {8}, {{3, 6}, {2, 5}, {1, 4}});
  const Bytes three{1, 2, 3, 4, 5, 6, kX, kX, 7, 8, 9, 10, 11, 12, kX, kX};
  const Values e{1, 4, 7, 10}, f{2, 5, 8, 11}, g{3, 6, 9, 12};
  expect_layout("RGB", 2, 2, {three}, {8}, {e, f, g});
  expect_layout("BGR", 2, 2, {three}, {8}, {g, f, e});
  // 1 | 2 << 10 | 3 << 20 | 2 << 30 and 1023 | 512 << 10 | 256 << 20 | 1 << 30.
  const Bytes deep{0x01, 0x08, 0x30, 0x80, 0xff, 0x03, 0x08, 0x50};
  expect_layout("RGB10A2_LE", 2, 1, {deep}, {8}, {{1, 1023}, {2, 512}, {3, 256}, {2, 1}});
  expect_layout("BGR10A2_LE", 2, 1, {deep}, {8}, {{3, 256}, {2, 512}, {1, 1023}, {2, 1}});
}

TEST(Layout, NegativeStrideReadsUpwards) {
  const Bytes bytes{1, 2, 3, 4};
  Picture picture{"GRAY8", 2, 2, full(Matrix::Bt601), {bytes.data() + 2}, {-2}};
  EXPECT_EQ(oracle::read(picture).components.c[0].value, (Values{3, 4, 1, 2}));
}

TEST(Padding, Seen) {
  const Image bytes("RGBx", 3, 1, kFullRgb, {{1, 2, 3, 255, 4, 5, 6, 254, 7, 8, 9, 0}}, {12});
  EXPECT_EQ(oracle::read(bytes.picture).bad_padding, 2u);
  const Image bgrx("BGRx", 1, 2, kFullRgb, {{1, 2, 3, 0xff, kX, 4, 5, 6, 0x7f}}, {5});
  EXPECT_EQ(oracle::read(bgrx.picture).bad_padding, 1u);
  // Two luma words and a V word with low bits.
  const Image p010("P010_10LE", 2, 2, limited(Matrix::Bt709),
                   {{0x41, 0x00, 0x40, 0x00, 0x60, 0x00, 0x40, 0x00}, {0x40, 0, 0x42, 0}}, {4, 4});
  const oracle::Read high = oracle::read(p010.picture);
  EXPECT_EQ(high.bad_padding, 3u);
  EXPECT_EQ(high.components.c[0].value, (Values{1, 1, 1, 1}));
  const Image p012("P012_LE", 1, 1, limited(Matrix::Bt709), {{0x18, 0}, {0x20, 0, 0x01, 0}},
                   {2, 4});
  EXPECT_EQ(oracle::read(p012.picture).bad_padding, 2u);
  const Image low("I420_10LE", 1, 1, limited(Matrix::Bt709), {{1, 4}, {1, 3}, {1, 0x80}},
                  {2, 2, 2});
  const oracle::Read masked = oracle::read(low.picture);
  EXPECT_EQ(masked.bad_padding, 2u);
  EXPECT_EQ(masked.components.c[0].value, (Values{1}));
  EXPECT_EQ(masked.components.c[1].value, (Values{769}));
  const Image twelve("Y444_12LE", 1, 1, limited(Matrix::Bt709), {{1, 0x0f}, {1, 0x10}, {1, 0}},
                     {2, 2, 2});
  EXPECT_EQ(oracle::read(twelve.picture).bad_padding, 1u);
}

// ---- All formats against each other -------------------------------------------------------------

TEST(Formats, EveryPairKeepsWhiteAndShapes) {
  EXPECT_EQ(oracle::formats().size(), 32u);
  EXPECT_EQ(oracle::h_subsampling("GRAY8") + oracle::v_subsampling("GRAY8"), 2);
  EXPECT_FALSE(oracle::known("NV16"));
  EXPECT_FALSE(oracle::known(""));
  for (const std::string& from : oracle::formats()) {
    // 0xff in every byte is white, or full chroma; read it as RGB or grey only.
    if (!oracle::is_rgb(from) && !oracle::is_gray(from))
      continue;
    std::vector<Bytes> planes(static_cast<size_t>(oracle::planes(from)), Bytes(8 * 5 * 3, 0xff));
    if (from == "GBR_10LE")
      for (Bytes& plane : planes)
        for (size_t i = 1; i < plane.size(); i += 2)
          plane[i] = 3;
    const Image image(from, 5, 3, oracle::is_rgb(from) ? kFullRgb : full(Matrix::Bt601), planes,
                      {40, 40, 40});
    for (const std::string& to : oracle::formats()) {
      SCOPED_TRACE(from + " to " + to);
      const bool rgb = oracle::is_rgb(to);
      const Components out = convert(image, to, rgb ? kLimitedRgb : limited(Matrix::Bt2020));
      const double scale = std::ldexp(1.0, oracle::bits(to) - 8);
      for (int i = 0; i < 3; ++i) {
        const bool chroma = i > 0 && !rgb;
        if (chroma && oracle::is_gray(to)) {
          EXPECT_TRUE(out.c[i].value.empty());
          continue;
        }
        const int width = chroma && oracle::h_subsampling(to) == 2 ? 3 : 5;
        const int height = chroma && oracle::v_subsampling(to) == 2 ? 2 : 3;
        expect_near(out.c[i], width, height,
                    Values(static_cast<size_t>(width * height), (chroma ? 128 : 235) * scale));
        EXPECT_EQ(out.bits[i], oracle::bits(to));
      }
      EXPECT_EQ(out.has_alpha, oracle::has_alpha(to));
    }
  }
}

// The picture path and the one-pixel path must be the same function on 4:4:4.
TEST(Formats, TripleAgreesWithPicture) {
  const Image image("Y444", 3, 1, limited(Matrix::Smpte240m),
                    {{10, 120, 240}, {20, 90, 200}, {250, 70, 130}}, {3, 3, 3});
  for (const Colour& to : {kFullRgb, kLimitedRgb, full(Matrix::Fcc), limited(Matrix::Smpte240m)}) {
    const bool rgb = to.matrix == Matrix::Rgb;
    const Components out = convert(image, rgb ? "GBR_10LE" : "Y444_10LE", to);
    for (size_t x = 0; x < 3; ++x) {
      const Triple one = triple(image.planes[0][x], image.planes[1][x], image.planes[2][x],
                                limited(Matrix::Smpte240m), 8, to, 10);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(out.c[i].value[x], one.v[i], 1e-9);
    }
  }
}

TEST(Formats, RefusesNonsense) {
  const Image image = yuv8("I420", 4, 2, limited(Matrix::Bt601), {1, 2}, {3, 4});
  const auto attempt = [&](Rect crop, const char* to, Colour colour) {
    oracle::convert(image.picture, crop, to, colour);
  };
  EXPECT_NO_THROW(attempt({0, 0, 4, 2}, "NV12", limited(Matrix::Bt601)));
  EXPECT_THROW(attempt({0, 0, 4, 2}, "NV13", limited(Matrix::Bt601)), std::invalid_argument);
  EXPECT_THROW(attempt({0, 0, 4, 2}, "RGB", limited(Matrix::Bt601)), std::invalid_argument);
  EXPECT_THROW(attempt({0, 0, 4, 2}, "NV12", kFullRgb), std::invalid_argument);
  EXPECT_THROW(attempt({1, 0, 4, 2}, "RGB", kFullRgb), std::invalid_argument);
  EXPECT_THROW(attempt({0, -1, 4, 2}, "RGB", kFullRgb), std::invalid_argument);
  EXPECT_THROW(attempt({0, 0, 4, 0}, "RGB", kFullRgb), std::invalid_argument);
  Picture holey = image.picture;
  holey.plane[2] = nullptr;
  EXPECT_THROW(oracle::read(holey), std::invalid_argument);
  EXPECT_THROW(oracle::bits("nope"), std::invalid_argument);
}

// ---- The verdict --------------------------------------------------------------------------------

TEST(Compare, FindsThePlantedError) {
  const Image image = yuv8("I420", 4, 3, limited(Matrix::Bt601), {1, 2, 3, 4}, {5, 6, 7, 8});
  const Components want = oracle::read(image.picture).components;
  const Verdict clean = oracle::compare(want, want);
  EXPECT_EQ(clean.max_error, 0);
  EXPECT_EQ(clean.mean_error, 0);
  EXPECT_EQ(clean.samples, 20u);
  EXPECT_EQ(clean.component, -1);

  Components got = want;
  got.c[0].value[5] += 0.5;
  got.c[2].value[3] -= 2.5;
  const Verdict found = oracle::compare(got, want);
  EXPECT_EQ(found.max_error, 2.5);
  EXPECT_EQ(found.mean_error, -0.1);
  EXPECT_EQ(found.component, 2);
  EXPECT_EQ(found.x, 1);
  EXPECT_EQ(found.y, 1);
  EXPECT_EQ(found.got, 5.5);
  EXPECT_EQ(found.want, 8);
  got.c[0].value[11] += 3;
  EXPECT_EQ(oracle::compare(got, want).component, 0);
  EXPECT_EQ(oracle::compare(got, want).x, 3);
  EXPECT_EQ(oracle::compare(got, want).y, 2);
}

TEST(Compare, AlphaCounts) {
  const Image image("RGBA", 2, 1, kFullRgb, {{1, 2, 3, 4, 5, 6, 7, 8}}, {8});
  const Components want = oracle::read(image.picture).components;
  Components got = want;
  got.c[3].value[1] = 9;
  EXPECT_EQ(oracle::compare(got, want).component, 3);
  EXPECT_EQ(oracle::compare(got, want).max_error, 1);
  EXPECT_EQ(oracle::compare(got, want).samples, 8u);
}

TEST(Compare, ShapesAndNotNumbers) {
  const Image image = yuv8("Y444", 2, 2, limited(Matrix::Bt601), {1, 2, 3, 4}, {5, 6, 7, 8});
  const Components want = oracle::read(image.picture).components;
  Components wrong = want;
  wrong.c[1].value[2] = std::nan("");
  EXPECT_TRUE(std::isinf(oracle::compare(wrong, want).max_error));
  EXPECT_EQ(oracle::compare(wrong, want).component, 1);
  wrong = want;
  std::swap(wrong.c[2].width, wrong.c[2].height);
  EXPECT_EQ(oracle::compare(wrong, want).max_error, 0);  // 2x2
  wrong.c[2].width = 4, wrong.c[2].height = 1;
  EXPECT_TRUE(std::isinf(oracle::compare(wrong, want).max_error));
  EXPECT_EQ(oracle::compare(wrong, want).samples, 0u);
  wrong = want;
  wrong.bits[0] = 10;
  EXPECT_TRUE(std::isinf(oracle::compare(wrong, want).max_error));
  wrong = want;
  wrong.has_alpha = true;
  EXPECT_TRUE(std::isinf(oracle::compare(wrong, want).max_error));
  wrong = want;
  wrong.c[0].value.pop_back();
  EXPECT_TRUE(std::isinf(oracle::compare(wrong, want).max_error));
}

}  // namespace
