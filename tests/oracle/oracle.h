// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What a perfect colour converter would write, in double precision: the judge of the GPU one.
//
// Sources: ITU-R BT.601-7, BT.709-6 and BT.2020-2 (constants, quantisation and 4:2:x grids),
// SMPTE 240M and FCC 73.682 (constants). Code values at a depth of b bits are those of the
// Recommendations' 8-bit tables times 2^(b-8); "full" stretches black to white over [0, 2^b-1].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace oracle {

enum class Matrix { Rgb, Bt601, Bt709, Bt2020, Smpte240m, Fcc };  // Rgb: components are R,G,B

// Where chroma samples sit relative to the luma grid (4:2:0, 4:2:2).
struct Site {
  bool h_cosited = false;
  bool v_cosited = false;
  // DV 4:2:0: Cr on the even luma lines, Cb on the odd ones. v_cosited is then ignored.
  bool alternate_lines = false;
};

struct Colour {
  Matrix matrix = Matrix::Rgb;
  bool full = true;
  Site site;
};

// One picture in memory, by GStreamer's format name and plane order. (YV12: plane[1] is V.)
struct Picture {
  std::string format;
  int width = 0, height = 0;
  Colour colour;
  const uint8_t* plane[4] = {};
  ptrdiff_t stride[4] = {};
};

struct Rect {
  int x = 0, y = 0, width = 0, height = 0;
};

// One component of a picture at its own resolution, row by row without gaps.
struct Component {
  int width = 0, height = 0;
  std::vector<double> value;  // codes; from convert() unrounded, clipped to [0, 2^bits-1]
};

// Y,U,V,A or R,G,B,A, whatever the order in memory. A component the format has not (alpha, the
// chroma of GRAY8) is empty and has 0 bits.
struct Components {
  Component c[4];
  bool has_alpha = false;
  int bits[4] = {};
};

// What is known of a format. All but known() throw std::invalid_argument for an unknown name.
bool known(std::string_view format);
bool is_rgb(std::string_view format);
bool is_gray(std::string_view format);
bool has_alpha(std::string_view format);
int bits(std::string_view format);           // of Y,U,V or R,G,B
int alpha_bits(std::string_view format);     // 0 without alpha
int h_subsampling(std::string_view format);  // 1, or 2 when chroma has half the width
int v_subsampling(std::string_view format);
int planes(std::string_view format);
const std::vector<std::string>& formats();  // every known name

// What a perfect converter would write: the real-valued codes of `dst_format` in `dst_colour`, of
// the given crop of `src`. Throws std::invalid_argument for an unknown format, a matrix that does
// not go with its format (Matrix::Rgb is for the RGB formats, and for them alone), an empty crop or
// one that leaves the picture, a missing plane.
Components convert(const Picture& src, const Rect& crop, std::string_view dst_format,
                   const Colour& dst_colour);

// The codes that stand in a picture. bad_padding counts the samples whose padding is wrong: pad
// bytes of RGBx and BGRx that are not 0xff, and 16-bit words with bits set outside the code (the
// low bits of P010 and P012, the high bits of I420_10LE and its like). The codes leave those out.
struct Read {
  Components components;
  size_t bad_padding = 0;
};
Read read(const Picture& picture);

// How far `got` is from `want`, over all samples of all components. max_error is the largest
// |got - want| and the rest of the fields say where the first such sample is; component stays -1
// when nothing differs. Pictures of different shape (sizes, depths, alpha) and values that are not
// numbers have an infinite max_error; for different shapes x and y are -1 and nothing is counted.
struct Verdict {
  double max_error = 0, mean_error = 0;  // mean_error is signed: got - want
  uint64_t samples = 0;
  int component = -1, x = -1, y = -1;
  double got = 0, want = 0;
};
Verdict compare(const Components& got, const Components& want);

// One pixel without subsampling or alpha, for exhaustive runs; clipped to the range of codes.
struct Triple {
  double v[3];
};
Triple convert_triple(const double code[3], Colour from, int from_bits, Colour to, int to_bits);

}  // namespace oracle
