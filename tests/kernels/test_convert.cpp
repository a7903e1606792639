// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The conversion kernels against the oracle, on the software device and, unchanged, on a GPU.
//
// CUDAIPC_EXHAUSTIVE=1: all 2^24 triples of 4:4:4 8-bit for every matrix, range and direction, and
// longer runs elsewhere; meant for a GPU.
#include <cmath>
#include <future>

#include "tests/kernels/rig.h"

namespace cudaipc::test {
namespace {

bool exhaustive() {
  static const bool all = getenv("CUDAIPC_EXHAUSTIVE") != nullptr;
  return all;
}

Rig& rig() {
  return Rig::get();
}

const Siting kCentred{}, kLeft{Phase::Even, {Phase::Centred, Phase::Centred}},
    kTopLeft{Phase::Even, {Phase::Even, Phase::Even}},
    kTop{Phase::Centred, {Phase::Even, Phase::Even}}, kDv{Phase::Even, {Phase::Odd, Phase::Even}};
const Matrix kMatrices[] = {Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020, Matrix::Smpte240m,
                            Matrix::Fcc};
const Range kRanges[] = {Range::Limited, Range::Full};

// Every pair of formats, through words and at odd addresses.
TEST(Formats, EveryPairInEveryLayout) {
  unsigned seed = 0;
  for (const Format& from : kernels::formats()) {
    for (const Format& to : kernels::formats()) {
      if (!to.target)
        continue;
      Job j;
      j.from = from.name, j.to = to.name;
      j.seed = ++seed;
      j.width = 72, j.height = 24;
      rig().run(j);
      j.width = 67, j.height = 35;
      j.from_siting = j.to_siting = kLeft;
      rig().run(j);
      j.from_lie = j.to_lie = kOdd;
      EXPECT_FALSE(rig().run(j).vectorised && from.container_bytes() > 1) << j;
    }
  }
}

TEST(Formats, StridesAndOffsets) {
  const Lie lies[] = {{"offset 2", -1, 2},
                      {"offset 4", -1, 4},
                      {"offset 64", 16, 64},
                      {"offset 256", 1, 0},
                      kTight,
                      {"negative", -1, 0, true}};
  for (const auto& [from, to] : {std::pair{"NV12", "RGBA"},
                                 {"RGBA", "NV12"},
                                 {"I420", "RGBP"},
                                 {"P010_10LE", "RGBA"},
                                 {"NV12", "I420"},
                                 {"NV12", "RGB"},
                                 {"RGB10A2_LE", "P010_10LE"},
                                 {"Y444_16LE", "GBR_16LE"}}) {
    for (const Lie& a : lies) {
      for (const Lie& b : lies) {
        Job j;
        j.from = from, j.to = to;
        j.from_lie = a, j.to_lie = b;
        j.width = 48, j.height = 16;
        rig().run(j);
      }
    }
  }
}

// The kernels of table.h are what runs where they can.
TEST(Formats, WordsAreMovedWhereTheyCanBe) {
  const auto vectorised = [](Job j, const char* from, const char* to) {
    j.from = from, j.to = to;
    return rig().run(j).vectorised;
  };
  for (const auto& [from, to] : {std::pair{"NV12", "RGBA"},
                                 {"NV21", "BGRA"},
                                 {"NV12", "ARGB"},
                                 {"NV12", "RGB"},
                                 {"I420", "RGBP"},
                                 {"YV12", "GBR"},
                                 {"P010_10LE", "RGBA"},
                                 {"P010_10LE", "RGB10A2_LE"},
                                 {"RGBA", "NV12"},
                                 {"BGRx", "I420"},
                                 {"RGBA", "P010_10LE"},
                                 {"RGB", "NV12"},
                                 {"RGBP", "NV12"},
                                 {"NV12", "I420"},
                                 {"P010_10LE", "I420_10LE"},
                                 {"NV12", "P010_10LE"},
                                 {"RGBA", "RGBP"},
                                 {"RGBA", "BGRA"}}) {
    EXPECT_TRUE(vectorised({}, from, to)) << from << " to " << to;
    Job odd;
    odd.from_lie = kOdd;
    EXPECT_FALSE(vectorised(odd, from, to)) << from << " to " << to;
    odd = {};
    odd.to_lie = kOdd;
    EXPECT_FALSE(vectorised(odd, from, to)) << from << " to " << to;
  }
}

TEST(Sizes, FromOnePixelOn) {
  std::vector<std::pair<int, int>> sizes = {{67, 35}, {1920, 2}, {2, 270}, {1921, 3}, {3, 271}};
  for (int w = 1; w <= 9; ++w) {
    for (int h = 1; h <= 9; ++h)
      sizes.emplace_back(w, h);
  }
  for (int w = 15; w <= 18; ++w) {
    for (int h = 1; h <= 6; ++h)
      sizes.emplace_back(w, h);
  }
  for (int w = 31; w <= 33; ++w)
    sizes.emplace_back(w, 33);
  for (const auto& [from, to] : {std::pair{"NV12", "RGBA"},
                                 {"RGBA", "NV12"},
                                 {"I420", "RGBP"},
                                 {"P010_10LE", "RGBA"},
                                 {"NV12", "I420"},
                                 {"Y42B", "RGBA"},
                                 {"RGB", "NV12"},
                                 {"GRAY8", "RGB"},
                                 {"NV12", "RGB"},
                                 {"P010_10LE", "NV12"},
                                 {"GBR", "I420"}}) {
    for (const auto& [w, h] : sizes) {
      Job j;
      j.from = from, j.to = to;
      j.width = w, j.height = h;
      j.from_siting = j.to_siting = w % 2 ? kLeft : kTopLeft;
      rig().run(j);
    }
  }
}

TEST(Siting, EachInBothDirectionsWithNoiseImpulsesAndSteps) {
  for (const Siting& s : {kCentred, kLeft, kTopLeft, kTop, kDv}) {
    for (const Fill fill : {Fill::Noise, Fill::Impulses, Fill::Steps}) {
      for (unsigned seed = 0; seed < 12; ++seed) {
        for (const auto& [from, to] : {std::pair{"NV12", "RGBA"},
                                       {"I420", "RGBP"},
                                       {"P010_10LE", "GBR_10LE"},
                                       {"I420_12LE", "BGRA"},
                                       {"RGBA", "NV12"},
                                       {"RGBP", "YV12"},
                                       {"Y444_16LE", "P016_LE"},
                                       {"RGBA", "P010_10LE"},
                                       {"Y42B", "RGB"},
                                       {"I422_10LE", "P010_10LE"}}) {
          Job j;
          j.from = from, j.to = to;
          j.width = seed % 2 ? 48 : 37;
          j.height = seed % 3 ? 16 : 11;
          j.from_siting = j.to_siting = s;
          j.fill = fill;
          j.seed = seed;
          rig().run(j);
        }
      }
    }
  }
}

TEST(Siting, FromEachToEach) {
  for (const Siting& a : {kCentred, kLeft, kTopLeft, kTop, kDv}) {
    for (const Siting& b : {kCentred, kLeft, kTopLeft, kTop, kDv}) {
      for (const auto& [from, to] : {std::pair{"NV12", "I420"},
                                     {"P010_10LE", "NV12"},
                                     {"I420_10LE", "P016_LE"},
                                     {"Y42B", "NV21"}}) {
        for (const auto& [w, h] : {std::pair{48, 16}, {33, 17}, {1, 1}, {2, 3}}) {
          Job j;
          j.from = from, j.to = to;
          j.width = w, j.height = h;
          j.from_siting = a, j.to_siting = b;
          rig().run(j);
        }
      }
    }
  }
}

TEST(Crops, AtEvenAndOddOffsets) {
  for (const auto& [from, to] : {std::pair{"NV12", "RGBA"},
                                 {"I420", "RGB"},
                                 {"P010_10LE", "RGB10A2_LE"},
                                 {"RGBA", "NV12"},
                                 {"NV12", "I420"},
                                 {"NV12", "NV12"},
                                 {"Y42B", "I420"},
                                 {"RGB", "BGRP"}}) {
    for (const auto& [x, y] : {std::pair{2, 2}, {1, 0}, {0, 1}, {3, 5}, {16, 4}, {32, 8}, {7, 2}}) {
      for (const Siting& s : {kCentred, kLeft, kTopLeft}) {
        Job j;
        j.from = from, j.to = to;
        j.width = 40, j.height = 12;
        j.crop_x = x, j.crop_y = y;
        j.more_x = 5, j.more_y = 3;
        j.from_siting = j.to_siting = s;
        rig().run(j);
      }
    }
  }
}

TEST(Colours, MatricesAndRangesInBothDirections) {
  for (const Matrix m : kMatrices) {
    for (const Range yuv : kRanges) {
      for (const Range rgb : kRanges) {
        for (const char* a : {"NV12", "P010_10LE", "I420_12LE", "Y444", "Y444_16LE", "VUYA"}) {
          for (const char* b : {"RGBA", "RGB10A2_LE", "GBR_16LE"}) {
            Job j;
            j.from = a, j.to = b;
            j.width = 56, j.height = 12;
            j.from_colour = Colour{m, yuv}, j.to_colour = Colour{Matrix::Rgb, rgb};
            rig().run(j);
            std::swap(j.from, j.to);
            std::swap(j.from_colour, j.to_colour);
            rig().run(j);
          }
        }
      }
    }
  }
}

TEST(Colours, BetweenYuvMatricesAndRanges) {
  for (const Matrix a : kMatrices) {
    for (const Matrix b : kMatrices) {
      for (const Range r : kRanges) {
        for (const Range s : kRanges) {
          for (const auto& [from, to] : {std::pair{"NV12", "NV12"},
                                         {"Y444", "P010_10LE"},
                                         {"I420_10LE", "VUYA"},
                                         {"NV12", "GRAY8"}}) {
            Job j;
            j.from = from, j.to = to;
            j.width = 40, j.height = 10;
            j.from_colour = Colour{a, r}, j.to_colour = Colour{b, s};
            rig().run(j);
          }
        }
      }
    }
  }
  for (const Range r : kRanges) {
    for (const Range s : kRanges) {
      for (const auto& [from, to] :
           {std::pair{"RGBA", "GBR_16LE"}, {"RGB10A2_LE", "RGB"}, {"GBR_10LE", "BGRA"}}) {
        Job j;
        j.from = from, j.to = to;
        j.from_colour = Colour{Matrix::Rgb, r}, j.to_colour = Colour{Matrix::Rgb, s};
        rig().run(j);
      }
    }
  }
}

// --- Bit-identical

// The picture bytes of one frame, converted along a chain of formats.
std::vector<double> chain(const std::vector<std::string>& formats,
                          const std::vector<Colour>& colours, unsigned seed,
                          std::vector<double>* first) {
  constexpr int kWidth = 67, kHeight = 35;
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < formats.size(); ++i) {
    const Format *a = kernels::find_format(formats[i]), *b = kernels::find_format(formats[i + 1]);
    const Place from(a, kWidth, kHeight, kAligned), to(b, kWidth, kHeight, kAligned);
    if (i == 0) {
      Job j;
      j.from = formats[0], j.to = formats[1];
      j.width = kWidth, j.height = kHeight;
      j.from_colour = colours[0], j.to_colour = colours[1];
      j.seed = seed;
      bytes = rig().run(j).in;
    }
    const auto flat = [](const oracle::Components& c) {
      std::vector<double> all;
      for (const auto& one : c.c)
        all.insert(all.end(), one.value.begin(), one.value.end());
      return all;
    };
    if (i == 0)
      *first = flat(oracle::read(oracle_picture(from, bytes.data(), colours[0], {})).components);
    kernels::Picture p, q;
    p.format = a, q.format = b;
    p.width = q.width = kWidth, p.height = q.height = kHeight;
    p.colour = colours[i], q.colour = colours[i + 1];
    auto converter = kernels::Converter::create(rig().module(), p, q);
    const CUdeviceptr src = rig().device(0, from.size), dst = rig().device(1, to.size);
    rig().copy(src, bytes.data(), from.size, true);
    EXPECT_TRUE(converter->convert(from.frame(src), to.frame(dst), nullptr));
    bytes.resize(to.size);
    rig().copy(dst, bytes.data(), to.size, false);
    if (i + 2 == formats.size())
      return flat(oracle::read(oracle_picture(to, bytes.data(), colours[i + 1], {})).components);
  }
  return {};
}

void expect_identical(std::vector<std::string> formats, std::vector<Colour> colours = {}) {
  for (size_t i = colours.size(); i < formats.size(); ++i)
    colours.push_back(default_colour(*kernels::find_format(formats[i])));
  std::vector<double> before;
  std::vector<double> after = chain(formats, colours, 5, &before);
  // Alpha that came or went on the way is no difference.
  const size_t n = std::min(before.size(), after.size());
  before.resize(n), after.resize(n);
  std::string text;
  for (const std::string& f : formats)
    text += f + " ";
  EXPECT_EQ(before, after) << text;
}

TEST(Exact, RepackingAndByteOrder) {
  for (const char* a : {"NV12", "NV21", "I420", "YV12"}) {
    for (const char* b : {"NV12", "NV21", "I420", "YV12"})
      expect_identical({a, b});
  }
  for (const char* a : {"P010_10LE", "I420_10LE"}) {
    for (const char* b : {"P010_10LE", "I420_10LE"})
      expect_identical({a, b});
  }
  expect_identical({"P012_LE", "I420_12LE", "P012_LE"});
  for (const char* a : {"RGBA", "BGRA", "ARGB", "ABGR"}) {
    for (const char* b :
         {"RGBA", "BGRA", "ARGB", "ABGR", "RGBx", "BGRx", "RGB", "BGR", "RGBP", "GBR", "BGRP"})
      expect_identical({a, b});
  }
  expect_identical({"RGB10A2_LE", "BGR10A2_LE"});
  expect_identical({"Y444", "VUYA", "Y444"});
  expect_identical({"GBR_16LE", "GBR_16LE"});
}

TEST(Exact, TenGenerations) {
  for (const auto& [a, b] : {std::pair{"NV12", "I420"}, {"P010_10LE", "I420_10LE"}}) {
    std::vector<std::string> formats;
    for (int i = 0; i < 10; ++i) {
      formats.emplace_back(a);
      formats.emplace_back(b);
    }
    formats.emplace_back(a);
    expect_identical(formats);
  }
}

TEST(Exact, LimitedDepthsUpAndBack) {
  for (const char* deep : {"P010_10LE", "P012_LE", "P016_LE", "I420_10LE", "I420_12LE"})
    expect_identical({"NV12", deep, "NV12"});
  expect_identical({"P010_10LE", "P016_LE", "P010_10LE"});
  expect_identical({"Y444", "Y444_16LE", "Y444_10LE", "Y444"});
}

TEST(Exact, GreysStayGreyAndEndsMeetEnds) {
  struct Grey {
    const char *from, *to;
    int bits;
  };
  for (const Grey& g : {Grey{"Y444", "GBR", 8}, Grey{"NV12", "RGBA", 8},
                        Grey{"Y444_10LE", "GBR_10LE", 10}, Grey{"P010_10LE", "GBR_16LE", 10},
                        Grey{"Y444_16LE", "GBR_16LE", 16}, Grey{"P016_LE", "RGBA", 16}}) {
    for (const Matrix m : kMatrices) {
      for (const Range r : kRanges) {
        const Format *in = kernels::find_format(g.from), *out = kernels::find_format(g.to);
        const int n = 1 << g.bits, width = std::min(n, 256), height = n / width;
        const Place from(in, width, height, kAligned), to(out, width, height, kAligned);
        std::vector<uint8_t> bytes(from.size);
        const auto put = [&](int plane, int64_t x, int y, unsigned code) {
          uint8_t* at = &bytes[static_cast<size_t>(from.offset[plane] + y * from.stride[plane] +
                                                   x * in->container_bytes())];
          code <<= in->shift;
          memcpy(at, &code, static_cast<size_t>(in->container_bytes()));
        };
        for (int k = 0; k < in->planes; ++k) {
          for (int y = 0; y < in->rows(k, height); ++y) {
            for (int64_t x = 0; x < in->row_bytes(k, width) / in->container_bytes(); ++x)
              put(k, x, y, k == 0 ? static_cast<unsigned>(y * width + x) : 1u << (g.bits - 1));
          }
        }
        kernels::Picture p, q;
        p.format = in, q.format = out;
        p.width = q.width = width, p.height = q.height = height;
        p.colour = {m, r};
        auto converter = kernels::Converter::create(rig().module(), p, q);
        const CUdeviceptr src = rig().device(0, from.size), dst = rig().device(1, to.size);
        rig().copy(src, bytes.data(), from.size, true);
        ASSERT_TRUE(converter->convert(from.frame(src), to.frame(dst), nullptr));
        bytes.resize(to.size);
        rig().copy(dst, bytes.data(), to.size, false);
        const auto got = oracle::read(oracle_picture(to, bytes.data(), q.colour, {})).components;
        double before = -1;
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          const double v = got.c[0].value[i];
          ASSERT_TRUE(v == got.c[1].value[i] && v == got.c[2].value[i])
              << g.from << " " << static_cast<int>(m) << ", luma " << i << ": " << v << " "
              << got.c[1].value[i] << " " << got.c[2].value[i];
          ASSERT_GE(v, before) << "not monotonic at " << i;
          before = v;
        }
        const size_t scale = static_cast<size_t>(n / 256);
        const bool full = r == Range::Full;
        EXPECT_EQ(got.c[0].value[full ? 0 : 16 * scale], 0);
        EXPECT_EQ(got.c[0].value[full ? static_cast<size_t>(n - 1) : 235 * scale],
                  (1 << out->bits) - 1);
      }
    }
  }
}

// --- Every code

struct Totals {
  double worst = 0, sum = 0;
  uint64_t samples = 0;
  double code[3] = {};
};

// All triples of `values`, converted between 4:4:4 formats in three planes.
void all_triples(const char* from_name, const char* to_name, const Colour& from_colour,
                 const Colour& to_colour, const std::vector<unsigned>& values, bool whole) {
  const Format *in = kernels::find_format(from_name), *out = kernels::find_format(to_name);
  const int n = static_cast<int>(values.size());
  const Place from(in, n, n, kAligned), to(out, n, n, kAligned);
  kernels::Picture p, q;
  p.format = in, q.format = out;
  p.width = q.width = p.height = q.height = n;
  p.colour = from_colour, q.colour = to_colour;
  auto converter = kernels::Converter::create(rig().module(), p, q);
  ASSERT_TRUE(converter);
  const oracle::Colour a = oracle_colour(from_colour, {}), b = oracle_colour(to_colour, {});
  const CUdeviceptr src = rig().device(0, from.size), dst = rig().device(1, to.size);
  // The plane of a logical component.
  const auto at = [](const Place& place, int c, int x, int y) {
    const int k = place.format->position[c];
    return static_cast<size_t>(place.offset[k] + y * place.stride[k] + x);
  };
  std::vector<std::future<Totals>> judging;
  Totals all;
  const auto collect = [&] {
    for (auto& one : judging) {
      const Totals t = one.get();
      if (t.worst > all.worst)
        all.worst = t.worst, std::copy_n(t.code, 3, all.code);
      all.sum += t.sum, all.samples += t.samples;
    }
    judging.clear();
  };
  std::vector<uint8_t> bytes(from.size);
  for (const unsigned first : values) {
    for (int y = 0; y < n; ++y) {
      for (int x = 0; x < n; ++x) {
        bytes[at(from, 0, x, y)] = static_cast<uint8_t>(first);
        bytes[at(from, 1, x, y)] = static_cast<uint8_t>(values[static_cast<size_t>(y)]);
        bytes[at(from, 2, x, y)] = static_cast<uint8_t>(values[static_cast<size_t>(x)]);
      }
    }
    rig().copy(src, bytes.data(), from.size, true);
    ASSERT_TRUE(converter->convert(from.frame(src), to.frame(dst), nullptr));
    std::vector<uint8_t> got(to.size);
    rig().copy(dst, got.data(), to.size, false);
    judging.push_back(
        std::async(std::launch::async, [&values, &at, &to, a, b, n, first, got = std::move(got)] {
          Totals t;
          for (int y = 0; y < n; ++y) {
            for (int x = 0; x < n; ++x) {
              const double code[3] = {static_cast<double>(first),
                                      static_cast<double>(values[static_cast<size_t>(y)]),
                                      static_cast<double>(values[static_cast<size_t>(x)])};
              const oracle::Triple want = oracle::convert_triple(code, a, 8, b, 8);
              for (int c = 0; c < 3; ++c) {
                const double error = got[at(to, c, x, y)] - want.v[c];
                t.sum += error;
                if (std::abs(error) > t.worst)
                  t.worst = std::abs(error), std::copy_n(code, 3, t.code);
              }
            }
          }
          t.samples = 3ull * static_cast<uint64_t>(n) * static_cast<uint64_t>(n);
          return t;
        }));
    if (judging.size() == 16)
      collect();
  }
  collect();
  EXPECT_LE(all.worst, 0.501) << from_name << " to " << to_name << ", matrices "
                              << static_cast<int>(from_colour.matrix) << " "
                              << static_cast<int>(to_colour.matrix) << ", at " << all.code[0] << ","
                              << all.code[1] << "," << all.code[2];
  if (whole) {
    EXPECT_LE(std::abs(all.sum / static_cast<double>(all.samples)), 0.01);
  }
}

TEST(Triples, EveryMatrixRangeAndDirection) {
  std::vector<unsigned> values;
  if (exhaustive()) {
    for (unsigned v = 0; v < 256; ++v)
      values.push_back(v);
  } else {
    for (const unsigned v :
         {0,   1,   2,   7,   15,  16,  17,  18,  31,  32,  33,  40,  57,  63,  64,  81,
          90,  98,  111, 119, 126, 127, 128, 129, 130, 145, 159, 160, 173, 191, 192, 201,
          213, 222, 223, 229, 233, 234, 235, 236, 238, 239, 240, 241, 250, 253, 254, 255})
      values.push_back(v);
  }
  for (const Matrix m : kMatrices) {
    for (const Range yuv : kRanges) {
      for (const Range rgb : kRanges) {
        const Colour a{m, yuv}, b{Matrix::Rgb, rgb};
        all_triples("Y444", "GBR", a, b, values, exhaustive());
        all_triples("GBR", "Y444", b, a, values, exhaustive());
      }
    }
  }
}

// --- Together and in trouble

TEST(Streams, TwoMatricesAtOnceDoNotMix) {
  const int frames = exhaustive() ? 10000 : 200;
  constexpr int kWidth = 64, kHeight = 32;
  const Format *in = kernels::find_format("NV12"), *out = kernels::find_format("RGBA");
  const Place from(in, kWidth, kHeight, kAligned), to(out, kWidth, kHeight, kAligned);
  Job j;
  j.width = kWidth, j.height = kHeight;
  std::vector<uint8_t> want[2], bytes;
  const Matrix matrices[2] = {Matrix::Bt601, Matrix::Bt2020};
  for (int i = 0; i < 2; ++i) {
    j.from_colour = Colour{matrices[i], Range::Limited};
    Outcome o = rig().run(j);
    want[i] = o.out;
    bytes = o.in;
  }
  const ScopedContext scoped(*rig().context());
  CUdeviceptr memory = 0;
  ASSERT_EQ(cu().mem_alloc(&memory, from.size + 256 + 2 * (to.size + 256)), CUDA_SUCCESS);
  const auto round = [](size_t n) { return (n + 255) / 256 * 256; };
  rig().copy(memory, bytes.data(), from.size, true);
  CUstream streams[2];
  std::vector<kernels::Converter> converters;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cu().stream_create(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    kernels::Picture p, q;
    p.format = in, q.format = out;
    p.width = q.width = kWidth, p.height = q.height = kHeight;
    p.colour = {matrices[i], Range::Limited};
    converters.push_back(std::move(*kernels::Converter::create(rig().module(), p, q)));
  }
  const CUdeviceptr outs[2] = {memory + round(from.size),
                               memory + round(from.size) + round(to.size)};
  for (int n = 0; n < frames; ++n) {
    for (size_t i = 0; i < 2; ++i)
      ASSERT_TRUE(converters[i].convert(from.frame(memory), to.frame(outs[i]), streams[i]));
  }
  for (size_t i = 0; i < 2; ++i) {
    std::vector<uint8_t> got(to.size);
    rig().copy(outs[i], got.data(), to.size, false, streams[i]);
    const std::vector<uint8_t> mask = to.mask();
    for (size_t k = 0; k < to.size; ++k)
      ASSERT_TRUE(!mask[k] || got[k] == want[i][k]) << "stream " << i << ", byte " << k;
    cu().stream_destroy(streams[i]);
  }
  cu().mem_free(memory);
}

TEST(Errors, AreInWords) {
  kernels::Picture p, q;
  p.format = kernels::find_format("NV12");
  q.format = kernels::find_format("Y42B");
  p.width = p.height = q.width = q.height = 16;
  auto refused = kernels::Converter::create(rig().module(), p, q);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("Y42B cannot be written"), std::string::npos);
  q.format = kernels::find_format("RGBA");
  auto converter = kernels::Converter::create(rig().module(), p, q);
  ASSERT_TRUE(converter);
  for (const auto& [w, h, x, y] : {std::tuple{16, 16, 1, 0},
                                   {16, 16, 0, 1},
                                   {8, 16, 0, 0},
                                   {64, 64, -1, 0},
                                   {64, 64, 0, 49},
                                   {64, 64, INT32_MAX, 0}}) {
    auto done = converter->convert({}, w, h, x, y, {}, nullptr);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("is not inside the picture"), std::string::npos);
  }
  EXPECT_EQ(kernels::find_format("UYVY"), nullptr);
}

// Last, because it tells what the others saw.
TEST(Worst, Errors) {
  for (const int bits : {8, 10, 12, 16})
    printf("largest error of %2d-bit outputs: %.4f codes, allowed %.3f\n", bits, rig().worst(bits),
           bound(bits));
}

}  // namespace
}  // namespace cudaipc::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  cudaipc::test::Rig::end();
  return result;
}
