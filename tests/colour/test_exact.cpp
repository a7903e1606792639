// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What must be exact to the bit: other orders of the same samples, depths, greys.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/colour/cases.h"

namespace cudaipc::test {
namespace {

using kernels::Colour;
using kernels::Matrix;
using kernels::Picture;
using kernels::Range;

// Leaves a tail of every kernel.
constexpr int kWidth = 67, kHeight = 19;

void fail_exact(const Case& c, const Looks& looks, const std::string& what) {
  fail(describe(c) + " [" + describe(looks.from) + " -> " + describe(looks.to) + "]: " + what);
}

// The first sample of components 0..2 that is not scale times the source's, in words; empty: none.
std::string first_difference(const oracle::Components& got, const oracle::Components& want,
                             double scale = 1) {
  for (int k = 0; k < 3; ++k) {
    const auto &g = got.c[k].value, &w = want.c[k].value;
    if (g.size() != w.size())
      return "component " + std::to_string(k) + " has another size";
    for (size_t i = 0; i < g.size(); ++i) {
      if (g[i] != w[i] * scale) {
        const size_t width = static_cast<size_t>(want.c[k].width);
        return "component " + std::to_string(k) + " at (" + std::to_string(i % width) + "," +
               std::to_string(i / width) + "): got " + std::to_string(g[i]) + ", want " +
               std::to_string(w[i] * scale);
      }
    }
  }
  return {};
}

TEST(Exact, OtherOrdersOfTheSameSamples) {
  const std::vector<std::vector<const char*>> groups = {
      {"NV12", "NV21", "I420", "YV12"},
      {"P010_10LE", "I420_10LE"},
      {"P012_LE", "I420_12LE"},
      {"P016_LE"},
      {"Y444", "VUYA"},
      {"RGBA", "BGRA", "ARGB", "ABGR", "RGBx", "BGRx", "RGB", "BGR", "RGBP", "BGRP", "GBR"},
      {"RGB10A2_LE", "BGR10A2_LE", "GBR_10LE"},
      {"GBR_16LE"},
      {"Y444_10LE"},
      {"Y444_12LE"},
      {"Y444_16LE"}};
  struct Job {
    const char *from, *to;
    Colour colour;
    kernels::Siting siting;
  };
  std::vector<Job> jobs;
  for (const auto& group : groups) {
    for (const char* from : group) {
      for (const char* to : group) {
        const bool rgb = oracle::is_rgb(from);
        for (Range range : kRanges) {
          for (const auto& siting : kSitings)
            jobs.push_back({from, to, {rgb ? Matrix::Rgb : Matrix::Bt2020, range}, siting});
        }
      }
    }
  }
  for_each(jobs.size(), [&](Lane& lane, size_t n) {
    const Job& job = jobs[n];
    const Case c{picture(job.from, kWidth, kHeight, job.colour, job.siting),
                 picture(job.to, kWidth, kHeight, job.colour, job.siting)};
    const Bytes source = noise(c.from, static_cast<uint32_t>(n) + 1);
    for (const Looks& looks : both_looks()) {
      const std::string found =
          first_difference(codes(c.to, convert(lane, c, looks, source)), codes(c.from, source));
      if (!found.empty())
        fail_exact(c, looks, found);
    }
  });
}

TEST(Exact, TenGenerations) {
  constexpr const char* kPairs[][2] = {{"NV12", "I420"}, {"P010_10LE", "I420_10LE"}};
  for_each(std::size(kPairs) * std::size(kSitings), [&](Lane& lane, size_t n) {
    const auto& siting = kSitings[n / std::size(kPairs)];
    const Picture a = picture(kPairs[n % std::size(kPairs)][0], kWidth, kHeight, kBt709, siting);
    const Picture b = picture(kPairs[n % std::size(kPairs)][1], kWidth, kHeight, kBt709, siting);
    for (const Looks& looks : both_looks()) {
      Bytes first = noise(b, 9);
      // From there on, so that the low bits of P010 are 0.
      first = convert(lane, {b, a}, looks, first);
      Bytes last = first;
      for (int generation = 0; generation < 10; ++generation)
        last = convert(lane, {b, a}, looks, convert(lane, {a, b}, looks, last));
      if (last != first)
        fail_exact({a, b}, looks, "another picture after ten generations");
    }
  });
}

// In limited range a code of more bits is the 8-bit code with zeros behind it.
TEST(Exact, LimitedRangeDepthsAndBack) {
  constexpr const char* kPairs[][2] = {
      {"NV12", "P010_10LE"}, {"NV12", "P012_LE"},   {"NV12", "P016_LE"},   {"I420", "I420_10LE"},
      {"I420", "I420_12LE"}, {"Y444", "Y444_10LE"}, {"Y444", "Y444_12LE"}, {"Y444", "Y444_16LE"},
      {"VUYA", "Y444_10LE"}, {"I420", "P010_10LE"}, {"YV12", "P016_LE"},   {"NV21", "I420_10LE"},
      {"RGBA", "GBR_16LE"},  {"RGB", "RGB10A2_LE"}};
  for_each(std::size(kPairs), [&](Lane& lane, size_t n) {
    const bool rgb = oracle::is_rgb(kPairs[n][0]);
    const Colour colour{rgb ? Matrix::Rgb : Matrix::Bt709, Range::Limited};
    const Case there{picture(kPairs[n][0], kWidth, kHeight, colour),
                     picture(kPairs[n][1], kWidth, kHeight, colour)};
    const Case back{there.to, there.from};
    const Bytes source = noise(there.from, 4);
    const oracle::Components before = codes(there.from, source);
    for (const Looks& looks : both_looks()) {
      const Bytes deep = convert(lane, there, looks, source);
      std::string found = first_difference(codes(there.to, deep), before,
                                           1 << (there.to.format->bits - there.from.format->bits));
      if (!found.empty())
        fail_exact(there, looks, found);
      found = first_difference(codes(back.to, convert(lane, back, looks, deep)), before);
      if (!found.empty())
        fail_exact(back, looks, found);
    }
  });
}

// Every code of luma with neutral chroma.
void check_greys(const std::vector<const char*>& sources) {
  constexpr const char* kTo[] = {"RGBA", "RGB", "RGBP", "RGB10A2_LE", "GBR_10LE", "GBR_16LE"};
  struct Job {
    const char *from, *to;
    Colour colour;
    Range rgb;
  };
  std::vector<Job> jobs;
  for (const char* from : sources) {
    for (const char* to : kTo) {
      for (Matrix matrix : kMatrices) {
        for (Range range : kRanges) {
          for (Range rgb : kRanges) {
            // The many codes of 16 bits: one matrix, but for the way that has all of them.
            if (oracle::bits(from) < 16 || matrix == Matrix::Bt709 ||
                (to == std::string("GBR_16LE") && rgb == Range::Full))
              jobs.push_back({from, to, {matrix, range}, rgb});
          }
        }
      }
    }
  }
  for_each(jobs.size(), [&](Lane& lane, size_t n) {
    const Job& job = jobs[n];
    const int bits = oracle::bits(job.from), out_bits = oracle::bits(job.to);
    // As many pixels as codes.
    const int width = bits > 8 ? 256 : 64, height = (1 << bits) / width;
    const Case c{picture(job.from, width, height, job.colour),
                 picture(job.to, width, height, {Matrix::Rgb, job.rgb})};
    const uint32_t neutral[4] = {0, 1u << (bits - 1), 1u << (bits - 1), 0};
    Bytes source = plain(c.from, neutral);
    for (int i = 0; i < 1 << bits; ++i)
      put(source, c.from, 0, i % width, i / width, static_cast<uint32_t>(i));
    const int step = 1 << (bits - 8), out_step = 1 << (out_bits - 8);
    const bool limited = job.colour.range == Range::Limited, full = job.rgb == Range::Full;
    const size_t black = limited ? static_cast<size_t>(16 * step) : 0;
    const size_t white = static_cast<size_t>(limited ? 235 * step : (1 << bits) - 1);
    const double want_black = full ? 0 : 16 * out_step;
    const double want_white = full ? (1 << out_bits) - 1 : 235 * out_step;
    for (const Looks& looks : both_looks()) {
      const oracle::Components got = codes(c.to, convert(lane, c, looks, source));
      const auto &r = got.c[0].value, &g = got.c[1].value, &b = got.c[2].value;
      const auto expect = [&](bool right, const char* what, size_t y) {
        if (!right)
          fail_exact(c, looks,
                     std::string(what) + " at Y=" + std::to_string(y) + ": got " +
                         std::to_string(r[y]) + " " + std::to_string(g[y]) + " " +
                         std::to_string(b[y]));
        return right;
      };
      for (size_t y = 0; y < r.size(); ++y) {
        if (!expect(r[y] == g[y] && g[y] == b[y], "no grey", y) ||
            !expect(y == 0 || g[y] >= g[y - 1], "less than before", y))
          break;
      }
      expect(g[black] == want_black, "black is another code", black);
      expect(g[white] == want_white, "white is another code", white);
    }
  });
}

TEST(Exact, NeutralChromaIsGrey) {
  check_greys(
      {"NV12", "I420", "Y42B", "P010_10LE", "I420_10LE", "I422_10LE", "P012_LE", "P016_LE"});
}

TEST(Exact, NeutralChromaOf444IsGrey) {
  check_greys({"Y444", "VUYA", "Y444_10LE", "Y444_12LE", "Y444_16LE"});
}

// And from RGB: greys have neutral chroma, luma grows with them.
TEST(Exact, GreyHasNeutralChroma) {
  constexpr const char* kFrom[] = {"RGBA", "RGB", "RGBP", "RGB10A2_LE", "GBR_16LE"};
  constexpr const char* kTo[] = {"NV12", "I420", "Y444", "VUYA", "P010_10LE", "P012_LE"};
  constexpr size_t kPerPair = std::size(kMatrices) * std::size(kRanges);
  for_each(std::size(kFrom) * std::size(kTo) * kPerPair, [&](Lane& lane, size_t n) {
    const size_t pair = n / kPerPair;
    const Colour colour{kMatrices[n % kPerPair / 2], kRanges[n % 2]};
    const char* from = kFrom[pair / std::size(kTo)];
    const int bits = oracle::bits(from), width = bits > 8 ? 256 : 64, height = (1 << bits) / width;
    const Case c{picture(from, width, height),
                 picture(kTo[pair % std::size(kTo)], width, height, colour)};
    Bytes source = noise(c.from, 1);
    for (int i = 0; i < 1 << bits; ++i) {
      for (int k = 0; k < 3; ++k)
        put(source, c.from, k, i % width, i / width, static_cast<uint32_t>(i));
    }
    const double neutral = 1 << (c.to.format->bits - 1);
    for (const Looks& looks : both_looks()) {
      const oracle::Components got = codes(c.to, convert(lane, c, looks, source));
      const auto& luma = got.c[0].value;
      if (!std::is_sorted(luma.begin(), luma.end()))
        fail_exact(c, looks, "luma does not grow with grey");
      for (int k = 1; k < 3; ++k) {
        for (double v : got.c[k].value) {
          if (v != neutral) {
            fail_exact(c, looks,
                       "component " + std::to_string(k) + " of a grey: got " + std::to_string(v) +
                           ", want " + std::to_string(neutral));
            break;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace cudaipc::test
