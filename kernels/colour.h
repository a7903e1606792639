// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Colour maths in double: what a code value means, and the affine map from one meaning to another.
//
// Sources: ITU-R BT.601-7, BT.709-6, BT.2020-2 (non-constant luminance), SMPTE ST 240, FCC
// 73.682(a)(20) for the luma weights; ITU-R BT.601/709/2020/2100 for the ranges.
#pragma once

namespace cudaipc::kernels {

// How red, green and blue were mixed into luma and chroma; Rgb: they were not.
enum class Matrix { Rgb, Bt601, Bt709, Bt2020, Smpte240m, Fcc };
enum class Range { Limited, Full };

struct Colour {
  Matrix matrix = Matrix::Rgb;
  Range range = Range::Full;
  friend constexpr bool operator==(const Colour&, const Colour&) = default;
};

// out[i] = sum over j of m[i][j] * (in[j] - centre[j]), + offset[i]. Chroma is taken from its
// centre, so that greys have no chroma terms at all and stay grey whatever the rounding.
struct Affine {
  double m[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  double centre[3] = {0, 0, 0};
  double offset[3] = {0, 0, 0};
};

// `second`, which has no centre, after `first`.
constexpr Affine compose(const Affine& second, const Affine& first) {
  Affine r;
  for (int i = 0; i < 3; ++i) {
    r.centre[i] = first.centre[i];
    r.offset[i] = second.offset[i];
    for (int j = 0; j < 3; ++j) {
      r.offset[i] += second.m[i][j] * first.offset[j];
      r.m[i][j] = 0;
      for (int k = 0; k < 3; ++k)
        r.m[i][j] += second.m[i][k] * first.m[k][j];
    }
  }
  return r;
}

struct LumaWeights {
  double kr, kb;
};

constexpr LumaWeights luma_weights(Matrix matrix) {
  switch (matrix) {
    case Matrix::Bt601:
      return {0.299, 0.114};
    case Matrix::Bt709:
      return {0.2126, 0.0722};
    case Matrix::Bt2020:
      return {0.2627, 0.0593};
    case Matrix::Smpte240m:
      return {0.212, 0.087};
    case Matrix::Fcc:
      return {0.30, 0.11};
    case Matrix::Rgb:
      break;
  }
  return {0, 0};
}

// Y in 0..1, Cb and Cr in -0.5..0.5, to R, G and B in 0..1; and back. Both exact inverses on paper.
constexpr Affine rgb_from_yuv(Matrix matrix) {
  if (matrix == Matrix::Rgb)
    return {};
  const auto [kr, kb] = luma_weights(matrix);
  const double kg = 1 - kr - kb;
  return {{{1, 0, 2 * (1 - kr)},
           {1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg},
           {1, 2 * (1 - kb), 0}},
          {},
          {}};
}

constexpr Affine yuv_from_rgb(Matrix matrix) {
  if (matrix == Matrix::Rgb)
    return {};
  const auto [kr, kb] = luma_weights(matrix);
  const double kg = 1 - kr - kb;
  const double u = 2 * (1 - kb), v = 2 * (1 - kr);
  return {
      {{kr, kg, kb}, {-kr / u, -kg / u, (1 - kb) / u}, {(1 - kr) / v, -kg / v, -kb / v}}, {}, {}};
}

// Where a component's zero is among the codes of `bits` bits, and how many codes its unit is.
struct Scale {
  double zero, span;
};

constexpr double max_code(int bits) {
  return static_cast<double>((1u << bits) - 1);
}

// Full-range chroma is centred on 2^(bits-1), not on half the largest code.
constexpr Scale scale_of(const Colour& colour, int bits, bool chroma) {
  const double step = static_cast<double>(1u << bits) / 256;
  if (chroma)
    return {128 * step, colour.range == Range::Limited ? 224 * step : max_code(bits)};
  if (colour.range == Range::Limited)
    return {16 * step, 219 * step};
  return {0, max_code(bits)};
}

constexpr bool is_chroma(const Colour& colour, int component) {
  return component > 0 && colour.matrix != Matrix::Rgb;
}

// From codes to reals.
constexpr Affine real_from_codes(const Colour& colour, int bits) {
  Affine r;
  for (int i = 0; i < 3; ++i) {
    const bool chroma = is_chroma(colour, i);
    const Scale s = scale_of(colour, bits, chroma);
    r.m[i][i] = 1 / s.span;
    r.centre[i] = chroma ? s.zero : 0;
    r.offset[i] = chroma ? 0 : -s.zero / s.span;
  }
  return r;
}

constexpr Affine codes_from_real(const Colour& colour, int bits) {
  Affine r;
  for (int i = 0; i < 3; ++i) {
    const Scale s = scale_of(colour, bits, is_chroma(colour, i));
    r.m[i][i] = s.span;
    r.offset[i] = s.zero;
  }
  return r;
}

// Codes to codes. Where nothing mixes the components they are scaled one by one, so that what is
// exact on paper (8 to 10 bits in limited range: times 4) is exact here.
constexpr Affine conversion(const Colour& from, int from_bits, const Colour& to, int to_bits) {
  if (from.matrix == to.matrix) {
    Affine r;
    for (int i = 0; i < 3; ++i) {
      const bool chroma = is_chroma(from, i);
      const Scale a = scale_of(from, from_bits, chroma), b = scale_of(to, to_bits, chroma);
      r.m[i][i] = b.span / a.span;
      r.centre[i] = chroma ? a.zero : 0;
      r.offset[i] = b.zero - (chroma ? 0 : a.zero * r.m[i][i]);
    }
    return r;
  }
  Affine r = compose(codes_from_real(to, to_bits),
                     compose(yuv_from_rgb(to.matrix),
                             compose(rgb_from_yuv(from.matrix), real_from_codes(from, from_bits))));
  // Greys stay grey: between two YUV matrices no luma leaks into chroma.
  if (from.matrix != Matrix::Rgb && to.matrix != Matrix::Rgb) {
    for (int i = 1; i < 3; ++i)
      r.m[i][0] = 0;
  }
  return r;
}

}  // namespace cudaipc::kernels
