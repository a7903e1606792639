// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What one launch of a conversion kernel is told, by value: two streams that convert by two
// matrices share nothing. Plain data for the host compiler and nvcc alike.
#pragma once

#include <cstdint>

namespace cudaipc::kernels {

// How samples lie in memory; the number after the name is bits of a sample's container.
enum class Storage : uint32_t {
  SemiPlanar8,    // luma, then chroma pairs
  SemiPlanar16,   // the same in 16-bit words
  Planar8,        // one to three planes
  Planar16,       //
  Packed4x8,      // four bytes a pixel
  Packed3x8,      // three bytes a pixel
  Packed1010102,  // a 32-bit word a pixel, alpha in the two top bits
};

// Planes in the order luma, chroma (one or two planes), or that of the matrix for planar RGB.
// Strides in bytes. No alignment is assumed but by the kernels that say so.
struct Surface {
  unsigned char* plane[3];
  int64_t stride[3];
};
constexpr uint32_t kFloatIntegers = 0x4b000000;  // bits of 2^23f: adding n < 2^23 to them adds n

// Where chroma sits on one axis of a 2:1 subsampled picture: between two luma samples, on the even
// one, or on the odd one (the Cb lines of DV).
enum class Phase : uint8_t { Centred, Even, Odd };

// One axis of the picture. Components are those of the matrix: 0 is never subsampled, [0] and [1]
// of the arrays are for 1 and 2.
struct Axis {
  int32_t size;          // of the destination, in luma samples
  int32_t source_size;   // of the whole source picture
  int32_t offset;        // of the destination's first sample in the source: a crop
  uint8_t source_sub;    // 1: source chroma is subsampled 2:1 on this axis
  uint8_t target_sub;    // the same of the destination
  uint8_t up[2][2][2];   // [component][parity of the luma sample][nearer start, nearer end]; /4
  uint8_t down[2][4];    // [component][luma samples 2i-1 .. 2i+2]; /4
  uint8_t direct[2][2];  // [source][destination component]: same place, no resampling
};

struct Params {
  Surface source, target;
  Axis x, y;
  Storage source_storage, target_storage;
  uint32_t source_planes, target_planes;  // 1: no chroma (GRAY8)
  uint32_t source_shift, target_shift;    // of a code in its 16-bit container
  uint32_t mask;                          // the code's bits in a container, in both halves
  uint32_t source_rotate, target_rotate;  // bits: 8 where alpha is the first of four bytes
  // Codes to codes, in the order of the memory: row i makes the i-th stored component, column j
  // takes the j-th (minus centre[j]); column 3 is added.
  float m[3][4];
  float centre[3];
  float alpha_scale, alpha_offset;
  uint32_t max, alpha_max;  // largest codes of the destination

  // For the vector kernels. They read whole containers: codes times 2^shift. Their results are made
  // in 0..1 first: `unit` is the matrix divided by `max`.
  float scale;         // 2^-shift
  float chroma_scale;  // 2^-shift / 16: weights sum to 16
  float chroma_bias;   // -centre, less what the conversion to float adds
  float unit[3][4];
  float bias[3];           // 4:4:4: centre, and what the conversion to float adds
  uint32_t weights[2][2];  // [row parity][column parity]: bytes top left, top right, bottom ones
  // YUV to RGB has zeros in its matrix: the first and the last stored component take one chroma
  // component each, named here 0 and 1, the middle one both.
  float luma, constant, first0, middle0, middle1, last1;
  uint32_t swap;      // chroma component 0 is the second stored one
  uint32_t selector;  // bytes of a packed pixel, of (first, middle), (last, alpha)
  // Chroma filter of two or three samples, in units of its last weight; unit[1] and [2] undo the
  // sum.
  float left, centre_x;
  float max_float, last_float;  // `max`; 2^23 and alpha behind the last component's code
};

}  // namespace cudaipc::kernels
