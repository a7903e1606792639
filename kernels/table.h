// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The vector kernels there are: what convert.cu makes and converter.cpp chooses from.
#pragma once

namespace cudaipc::kernels {

constexpr int kBlockThreads = 128;  // 32 x 4

// X(kind, source class, destination class, tile width, tile height, least blocks a multiprocessor)
//   Expand  4:2:0 YUV to RGB            Reduce  4:4:4 or RGB to 4:2:0
//   Map     4:4:4 or RGB to the same    Repack  4:2:0 to 4:2:0 of the same matrix and siting
//   sp8 sp16   4:2:0, luma and chroma pairs, 8 and 16 bits (NV12, P010)
//   p8 p16     4:2:0 in three planes (I420, I420_10LE)
//   f8 f16     4:4:4 in three planes (Y444, RGBP, GBR_10LE)
//   x4 x3 x10  packed: four bytes, three bytes, 10-10-10-2
// What is not here, convert_any does.
#define CUDAIPC_VECTOR_KERNELS(X) \
  X(Expand, sp8, x4, 4, 4, 10)    \
  X(Expand, sp8, x3, 8, 2, 9)     \
  X(Expand, sp8, f8, 16, 2, 7)    \
  X(Expand, p8, x4, 4, 4, 10)     \
  X(Expand, p8, x3, 8, 2, 9)      \
  X(Expand, p8, f8, 16, 2, 7)     \
  X(Expand, sp16, x4, 4, 4, 1)    \
  X(Expand, sp16, x3, 4, 4, 9)    \
  X(Expand, sp16, x10, 4, 4, 8)   \
  X(Expand, sp16, f8, 8, 4, 1)    \
  X(Expand, sp16, f16, 4, 4, 1)   \
  X(Expand, p16, x4, 4, 4, 1)     \
  X(Repack, sp8, p8, 16, 2, 1)    \
  X(Repack, sp8, sp8, 16, 2, 1)   \
  X(Repack, sp8, sp16, 16, 2, 1)  \
  X(Repack, p8, sp8, 16, 2, 1)    \
  X(Repack, p8, p8, 16, 2, 1)     \
  X(Repack, sp16, sp8, 16, 2, 1)  \
  X(Repack, sp16, sp16, 16, 2, 1) \
  X(Repack, sp16, p16, 16, 2, 1)  \
  X(Repack, p16, sp16, 16, 2, 1)  \
  X(Reduce, x4, sp8, 4, 4, 8)     \
  X(Reduce, x4, sp16, 4, 4, 7)    \
  X(Reduce, x4, p8, 4, 4, 8)      \
  X(Reduce, x3, sp8, 4, 2, 1)     \
  X(Reduce, x3, p8, 4, 2, 1)      \
  X(Reduce, f8, sp8, 8, 2, 1)     \
  X(Reduce, f8, p8, 8, 2, 1)      \
  X(Reduce, f16, sp16, 4, 2, 1)   \
  X(Reduce, x10, sp16, 4, 4, 7)   \
  X(Map, x4, f8, 4, 2, 1)         \
  X(Map, x4, x4, 4, 2, 1)         \
  X(Map, x4, x3, 4, 2, 1)         \
  X(Map, x3, x4, 4, 2, 1)         \
  X(Map, x3, f8, 4, 2, 1)         \
  X(Map, f8, x4, 4, 2, 1)         \
  X(Map, f8, x3, 4, 2, 1)         \
  X(Map, f16, x4, 4, 2, 1)        \
  X(Map, x10, x4, 4, 2, 1)

}  // namespace cudaipc::kernels
