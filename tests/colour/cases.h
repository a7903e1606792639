// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Pictures laid out in guarded memory, conversions of them, and the judgement by the oracle.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "kernels/converter.h"
#include "tests/colour/device.h"
#include "tests/oracle/oracle.h"

namespace cudaipc::test {

// How a picture lies in memory.
struct Look {
  int extra = kAligned;      // bytes between the rows; kAligned: rows begin on multiples of 256
  int offset = 0;            // of each plane from a multiple of 256
  bool upside_down = false;  // negative strides
  static constexpr int kAligned = -1;
};
constexpr Look kAlignedLook{};
constexpr Look kMisalignedLook{1, 1, false};
std::string describe(const Look& look);

// Planes with guard bytes around each. Strides of the planes differ from each other.
struct Layout {
  Layout(const kernels::Format& format, int width, int height, const Look& look);
  // Rows and planes without gaps: the form in which tests handle pictures.
  static Layout tight(const kernels::Format& format, int width, int height);

  kernels::Frame frame(CUdeviceptr base) const;
  // Picture bytes from one layout of the same picture to another one.
  void copy_to(const Layout& to, const Bytes& from_bytes, Bytes& to_bytes) const;
  // Offset of the first byte outside the picture that is not `poison`; -1: none.
  int64_t first_touched(const Bytes& bytes, uint8_t poison) const;

  int planes = 0;
  int64_t begin[3] = {};   // of the first row in the picture's order
  int64_t stride[3] = {};  // may be negative
  int64_t row_bytes[3] = {};
  int rows[3] = {};
  size_t size = 0;

 private:
  Layout() = default;
};

struct Case {
  kernels::Picture from, to;  // `from`: the whole picture
  int x = 0, y = 0;           // of the destination in it
};
std::string describe(const kernels::Picture& picture);
std::string describe(const Case& c);

struct Looks {
  Look from, to;
};
const std::vector<Looks>& both_looks();  // aligned, misaligned

// --- Colours, sitings

constexpr kernels::Matrix kMatrices[] = {kernels::Matrix::Bt601, kernels::Matrix::Bt709,
                                         kernels::Matrix::Bt2020, kernels::Matrix::Smpte240m,
                                         kernels::Matrix::Fcc};
constexpr kernels::Range kRanges[] = {kernels::Range::Limited, kernels::Range::Full};
constexpr kernels::Colour kRgbFull{kernels::Matrix::Rgb, kernels::Range::Full};
constexpr kernels::Colour kRgbLimited{kernels::Matrix::Rgb, kernels::Range::Limited};
constexpr kernels::Colour kBt709{kernels::Matrix::Bt709, kernels::Range::Limited};

using kernels::Phase;
constexpr kernels::Siting kCentred{};
constexpr kernels::Siting kLeft{Phase::Even, {Phase::Centred, Phase::Centred}};
constexpr kernels::Siting kTopLeft{Phase::Even, {Phase::Even, Phase::Even}};
constexpr kernels::Siting kDv{Phase::Even, {Phase::Odd, Phase::Even}};
constexpr kernels::Siting kSitings[] = {kCentred, kLeft, kTopLeft, kDv};

// Of a format by name; `yuv` is for the formats that are no RGB, full-range RGB for those.
kernels::Picture picture(std::string_view format, int width, int height,
                         const kernels::Colour& yuv = kBt709,
                         const kernels::Siting& siting = kCentred);

// --- Pictures, tight

// Every bit at random, but for those above a code at the bottom of its word: they must be 0. (Those
// below a code at the top of its word may be anything.)
Bytes noise(const kernels::Picture& picture, uint32_t seed);
// A component, in the order Y, Cb, Cr or R, G, B, alpha, at one of its own samples.
void put(Bytes& bytes, const kernels::Picture& picture, int component, int x, int y, uint32_t code);
// All samples of each component.
Bytes plain(const kernels::Picture& picture, const uint32_t (&code)[4]);
int component_width(const kernels::Picture& picture, int component);
int component_height(const kernels::Picture& picture, int component);
oracle::Picture oracle_picture(const kernels::Picture& picture, const Bytes& tight);
oracle::Components codes(const kernels::Picture& picture, const Bytes& tight);

// --- Judging

// Sum and number of signed errors, over several checks.
struct Tally {
  std::mutex mutex;
  double sum = 0;
  uint64_t samples = 0;
};

// Converts twice with different bytes in the destination and between the rows of the source. Fails
// the test where a byte outside the picture changed, or the picture depends on what was there.
// Returns the picture of the destination; empty after an error of the converter.
Bytes convert(Lane& lane, const kernels::Converter& converter, const Case& c, const Looks& looks,
              const Bytes& source);
Bytes convert(Lane& lane, const Case& c, const Looks& looks, const Bytes& source);

// Converts and compares with the oracle: 8 bits within 0.501 codes, 10 and 12 bits within 0.505, 16
// bits within 0.55; padding bits right.
void check(Lane& lane, const Case& c, const std::vector<Looks>& looks, const Bytes& source,
           Tally* tally = nullptr);

kernels::Converter converter(const Case& c);

}  // namespace cudaipc::test
