// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Where chroma sits: every siting against every other, with noise, impulses and steps.
#include <vector>

#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;
using kernels::Siting;

constexpr int kWidth = 20, kHeight = 12;

// Pictures that are one code everywhere but at one sample of one component, or from it on.
std::vector<Bytes> impulses_and_steps(const Picture& p) {
  std::vector<Bytes> all = {noise(p, 11)};
  const uint32_t top = (1u << p.format->bits) - 1;
  const uint32_t low = top / 16, high = top / 16 * 15, middle = (top + 1) / 2;
  const uint32_t base[4] = {p.format->rgb ? low : middle, p.format->rgb ? low : middle,
                            p.format->rgb ? low : middle, top};
  const Bytes flat = plain(p, base);
  for (int component = 0; component < 3; ++component) {
    const int width = component_width(p, component), height = component_height(p, component);
    // The corners, and a square in the middle with each parity of both axes.
    std::vector<std::pair<int, int>> places = {
        {0, 0}, {width - 1, 0}, {0, height - 1}, {width - 1, height - 1}};
    for (int y = height / 2; y < height / 2 + 2; ++y) {
      for (int x = width / 2; x < width / 2 + 2; ++x)
        places.push_back({x, y});
    }
    for (const auto& [x, y] : places) {
      all.push_back(flat);
      put(all.back(), p, component, x, y, high);
    }
    for (int parity = 0; parity < 2; ++parity) {
      for (bool vertical : {false, true}) {
        all.push_back(flat);
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            if (vertical ? y >= height / 2 + parity : x >= width / 2 + parity)
              put(all.back(), p, component, x, y, high);
          }
        }
      }
    }
  }
  return all;
}

void check_all(const std::vector<Case>& cases) {
  for_each(cases.size(), [&](Lane& lane, size_t n) {
    for (const Bytes& source : impulses_and_steps(cases[n].from))
      check(lane, cases[n], both_looks(), source);
  });
}

TEST(Siting, ToFullResolution) {
  std::vector<Case> cases;
  constexpr const char* kPairs[][2] = {{"NV12", "RGBA"},        {"I420", "RGBP"},
                                       {"P010_10LE", "RGBA"},   {"P010_10LE", "RGB10A2_LE"},
                                       {"P016_LE", "GBR_16LE"}, {"YV12", "BGR"},
                                       {"I420_10LE", "RGBA"},   {"NV21", "Y444"},
                                       {"Y42B", "RGBA"},        {"I422_10LE", "VUYA"}};
  for (const auto& pair : kPairs) {
    for (const Siting& siting : kSitings)
      cases.push_back({picture(pair[0], kWidth, kHeight, kBt709, siting),
                       picture(pair[1], kWidth, kHeight, kBt709)});
  }
  check_all(cases);
}

TEST(Siting, FromFullResolution) {
  std::vector<Case> cases;
  constexpr const char* kPairs[][2] = {
      {"RGBA", "NV12"}, {"RGBP", "I420"},          {"RGBA", "P010_10LE"},
      {"RGB", "NV21"},  {"RGB10A2_LE", "P016_LE"}, {"GBR_10LE", "P010_10LE"},
      {"VUYA", "I420"}, {"BGR", "YV12"},           {"Y444", "NV12"}};
  for (const auto& pair : kPairs) {
    for (const Siting& siting : kSitings)
      cases.push_back({picture(pair[0], kWidth, kHeight, kBt709),
                       picture(pair[1], kWidth, kHeight, kBt709, siting)});
  }
  check_all(cases);
}

std::vector<Case> between(const char* from, const char* to, const Colour& from_colour,
                          const Colour& to_colour, bool dv_with_others) {
  std::vector<Case> cases;
  for (const Siting& a : kSitings) {
    for (const Siting& b : kSitings) {
      if (dv_with_others || (a == kDv) == (b == kDv))
        cases.push_back({picture(from, kWidth, kHeight, from_colour, a),
                         picture(to, kWidth, kHeight, to_colour, b)});
    }
  }
  return cases;
}

TEST(Siting, Between420OfOneMatrix) {
  for (const auto& pair : {std::pair{"NV12", "I420"},
                           {"I420", "NV12"},
                           {"P010_10LE", "NV21"},
                           {"YV12", "P016_LE"},
                           {"NV12", "NV12"},
                           {"Y42B", "NV12"},
                           {"I422_10LE", "I420_12LE"}}) {
    check_all(between(pair.first, pair.second, kBt709, kBt709, true));
    check_all(between(pair.first, pair.second, kBt709, {Matrix::Bt709, Range::Full}, true));
  }
}

TEST(Siting, Between420OfTwoMatrices) {
  for (const auto& pair : {std::pair{"NV12", "I420"}, {"I420", "P010_10LE"}})
    check_all(between(pair.first, pair.second, {Matrix::Bt601, Range::Full}, kBt709, false));
}

// A crop moves the places of chroma against the grid of the destination.
TEST(Siting, CropsBetween420) {
  std::vector<Case> cases;
  for (const Siting& a : kSitings) {
    for (const Siting& b : kSitings) {
      for (int at = 0; at < 4; ++at)
        cases.push_back({picture("NV12", kWidth + 5, kHeight + 3, kBt709, a),
                         picture("I420", kWidth, kHeight, kBt709, b), 2 + at % 2, 1 + at / 2});
    }
  }
  for_each(cases.size(), [&](Lane& lane, size_t n) {
    check(lane, cases[n], both_looks(), noise(cases[n].from, static_cast<uint32_t>(n) + 1));
  });
}

}  // namespace
}  // namespace cudaipc::test
