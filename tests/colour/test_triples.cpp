// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Three codes to three codes without subsampling: all of them where that is wanted
// (CUDAIPC_EXHAUSTIVE=1, for a GPU), else a grid of them that has the edges.
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;

// Codes; rounding is as often up as down over a whole set, not quite over a grid.
double largest_mean() {
  return exhaustive() ? 0.01 : 0.02;
}

// A set of triples, made piece by piece so that no piece is large.
struct Set {
  size_t pieces;
  int width, height;  // of a piece, a sample a triple
  std::function<uint32_t(size_t piece, size_t i, int component)> code;
};

std::vector<uint32_t> eight_bit_grid() {
  std::vector<uint32_t> all = {0,   1,   2,   15,  16,  17,  127, 128, 129,
                               234, 235, 236, 239, 240, 241, 253, 254, 255};
  for (uint32_t v = 6; all.size() < 48; v += 8)
    all.push_back(v);
  return all;
}

Set eight_bit_set() {
  if (exhaustive())
    return {64, 4096, 64, [](size_t piece, size_t i, int component) {
              return static_cast<uint32_t>((piece << 18 | i) >> (8 * component) & 255);
            }};
  return {1, 48 * 48, 48, [grid = eight_bit_grid()](size_t, size_t i, int component) {
            constexpr size_t kDivide[] = {1, 48, 48 * 48};
            return grid[i / kDivide[component] % 48];
          }};
}

// splitmix64
uint64_t random_of(uint64_t n) {
  n += 0x9e3779b97f4a7c15u;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
  n = (n ^ n >> 27) * 0x94d049bb133111ebu;
  return n ^ n >> 31;
}

// A random code out of each of 16 parts of the range, in all combinations, again and again; all
// greys first, and the edges of both ranges.
Set ten_bit_set() {
  static constexpr uint32_t kEdges[] = {0,   1,   63,  64,  65,  511, 512,  513,
                                        939, 940, 941, 959, 960, 961, 1022, 1023};
  return {
      exhaustive() ? size_t{64} : size_t{4}, 4096, 64, [](size_t piece, size_t i, int component) {
        const size_t n = piece << 18 | i;
        const int at = 4 * component;
        if (n < 1024)
          return static_cast<uint32_t>(n);
        if (n < 1024 + 4096)
          return kEdges[(n - 1024) >> at & 15];
        return static_cast<uint32_t>((n >> at & 15) << 6 | (random_of(n) >> (10 * component) & 63));
      }};
}

struct Pair {
  const char *from, *to;
  Colour from_colour, to_colour;
};

std::vector<Pair> pairs_of(const char* yuv, const char* rgb) {
  std::vector<Pair> all;
  for (Matrix matrix : kMatrices) {
    for (Range range : kRanges) {
      all.push_back({yuv, rgb, {matrix, range}, kRgbFull});
      all.push_back({rgb, yuv, kRgbFull, {matrix, range}});
    }
  }
  return all;
}

void check_set(const Set& set, const std::vector<Pair>& pairs) {
  std::vector<std::unique_ptr<Tally>> tallies;
  for (size_t n = 0; n < pairs.size(); ++n)
    tallies.push_back(std::make_unique<Tally>());
  // Pieces of one pair at the same time would need as much memory, and make the source as often.
  for_each(set.pieces * pairs.size(), [&](Lane& lane, size_t n) {
    const Pair& pair = pairs[n % pairs.size()];
    const size_t piece = n / pairs.size();
    const Case c{picture(pair.from, set.width, set.height, pair.from_colour),
                 picture(pair.to, set.width, set.height, pair.to_colour)};
    Bytes source = noise(c.from, 1);
    const size_t width = static_cast<size_t>(set.width);
    for (size_t i = 0; i < width * static_cast<size_t>(set.height); ++i) {
      for (int k = 0; k < 3; ++k)
        put(source, c.from, k, static_cast<int>(i % width), static_cast<int>(i / width),
            set.code(piece, i, k));
    }
    check(lane, c, {both_looks()[0]}, source, tallies[n % pairs.size()].get());
  });
  for (size_t n = 0; n < pairs.size(); ++n) {
    const Tally& t = *tallies[n];
    const double mean = t.samples ? t.sum / static_cast<double>(t.samples) : INFINITY;
    const Pair& pair = pairs[n];
    if (!(std::fabs(mean) <= largest_mean()))
      fail(describe(Case{picture(pair.from, 1, 1, pair.from_colour),
                         picture(pair.to, 1, 1, pair.to_colour)}) +
           ": mean error " + std::to_string(mean) + " codes over all triples");
  }
}

TEST(Triples, EightBit) {
  check_set(eight_bit_set(), pairs_of("Y444", "GBR"));
}

TEST(Triples, EightBitPacked) {
  check_set(eight_bit_set(),
            {{"VUYA", "RGBA", kBt709, kRgbFull}, {"RGBA", "VUYA", kRgbFull, kBt709}});
}

TEST(Triples, EightBitBetweenMatrices) {
  check_set(eight_bit_set(), {{"Y444", "VUYA", {Matrix::Bt601, Range::Full}, kBt709},
                              {"VUYA", "Y444", kBt709, {Matrix::Bt2020, Range::Limited}}});
}

TEST(Triples, TenBit) {
  check_set(ten_bit_set(), pairs_of("Y444_10LE", "GBR_10LE"));
}

TEST(Triples, TenBitPacked) {
  check_set(ten_bit_set(), {{"RGB10A2_LE", "Y444_10LE", kRgbFull, kBt709},
                            {"Y444_10LE", "BGR10A2_LE", kBt709, kRgbFull},
                            {"GBR_10LE", "RGBA", kRgbFull, kRgbFull}});
}

}  // namespace
}  // namespace cudaipc::test
