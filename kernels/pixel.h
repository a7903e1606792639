// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Loading, converting and storing one 2x2 block of any storage, at any alignment, size and siting.
//
// The reference of the kernels: the vector kernels of convert.cu use it at the edges of the
// picture, and `convert_any` for everything. Compiles for the GPU and for the CPU.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/params.h"

#if defined(__CUDACC__) || defined(SOFTCUDA_HOST)
#define KERNELS_HD __host__ __device__ __forceinline__
#else
#define KERNELS_HD inline
#endif

namespace cudaipc::kernels {

KERNELS_HD int clamp_index(int i, int n) {
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

// One rounding per product and sum on the GPU; a CPU without the instruction may round twice, which
// the error bounds allow for.
KERNELS_HD float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

// To the nearest code, ties to even, saturating.
KERNELS_HD uint32_t quantise(float value, uint32_t max) {
#ifdef __CUDA_ARCH__
  return min(__float2uint_rn(value), max);
#else
  if (!(value > 0))
    return 0;
  if (value >= static_cast<float>(max))
    return max;
  return static_cast<uint32_t>(lrintf(value));
#endif
}

// --- Memory. Samples of 16 and 32 bits may lie at any byte.

KERNELS_HD uint32_t load16(const unsigned char* p) {
  if (reinterpret_cast<uintptr_t>(p) & 1)
    return p[0] | static_cast<uint32_t>(p[1]) << 8;
  return *reinterpret_cast<const uint16_t*>(p);
}

KERNELS_HD uint32_t load32(const unsigned char* p) {
  if (reinterpret_cast<uintptr_t>(p) & 3)
    return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
           static_cast<uint32_t>(p[3]) << 24;
  return *reinterpret_cast<const uint32_t*>(p);
}

KERNELS_HD void store8(unsigned char* p, uint32_t v) {
  *p = static_cast<unsigned char>(v);
}

KERNELS_HD void store16(unsigned char* p, uint32_t v) {
  if (reinterpret_cast<uintptr_t>(p) & 1) {
    store8(p, v & 0xff);
    store8(p + 1, v >> 8);
  } else {
    *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(v);
  }
}

KERNELS_HD void store32(unsigned char* p, uint32_t v) {
  if (reinterpret_cast<uintptr_t>(p) & 3) {
    for (int i = 0; i < 4; ++i)
      store8(p + i, v >> (8 * i) & 0xff);
  } else {
    *reinterpret_cast<uint32_t*>(p) = v;
  }
}

KERNELS_HD uint32_t rotate_right(uint32_t v, uint32_t bits) {
  return bits ? v >> bits | v << (32 - bits) : v;
}

KERNELS_HD unsigned char* at(const Surface& s, int plane, int y, ptrdiff_t bytes) {
  return s.plane[plane] + y * s.stride[plane] + bytes;
}

// The code of one component at one of its own samples.
KERNELS_HD float load_code(const Params& p, Storage storage, int component, int x, int y) {
  const Surface& s = p.source;
  uint32_t v = 0;
  switch (storage) {
    case Storage::SemiPlanar8:
      v = component == 0 ? *at(s, 0, y, x) : *at(s, 1, y, 2 * x + component - 1);
      break;
    case Storage::SemiPlanar16:
      v = load16(component == 0 ? at(s, 0, y, 2 * x) : at(s, 1, y, 4 * x + 2 * (component - 1)));
      v = (v & p.mask & 0xffff) >> p.source_shift;
      break;
    case Storage::Planar8:
      v = component == 0 || p.source_planes > 1 ? *at(s, component, y, x) : 0;
      break;
    case Storage::Planar16:
      v = (load16(at(s, component, y, 2 * x)) & p.mask & 0xffff) >> p.source_shift;
      break;
    case Storage::Packed4x8:
      v = *at(s, 0, y, 4 * x + component + static_cast<int>(p.source_rotate >> 3));
      break;
    case Storage::Packed3x8:
      v = *at(s, 0, y, 3 * x + component);
      break;
    case Storage::Packed1010102:
      v = load32(at(s, 0, y, 4 * x)) >> (10 * component) & 1023;
      break;
  }
  return static_cast<float>(v);
}

KERNELS_HD float load_alpha(const Params& p, Storage storage, int x, int y) {
  if (storage == Storage::Packed4x8)
    return static_cast<float>(*at(p.source, 0, y, 4 * x + (p.source_rotate ? 0 : 3)));
  if (storage == Storage::Packed1010102)
    return static_cast<float>(load32(at(p.source, 0, y, 4 * x)) >> 30);
  return 0;
}

// --- Siting. Weights are of 4 on each axis; sums of codes times weights are exact in float.

// The two samples along one axis whose mix is wanted, and their weights.
struct Mix {
  int a, b;
  int wa, wb;
};

// A component of the source at luma position `at` of the source.
KERNELS_HD Mix mix_at(const Axis& axis, int component, int at) {
  if (component == 0 || !axis.source_sub)
    return {at, at, 4, 0};
  const int n = (axis.source_size + 1) / 2;
  const int odd = at & 1;
  const int a = odd ? at / 2 : at / 2 - 1;
  const uint8_t* w = axis.up[component - 1][odd];
  return {clamp_index(a, n), clamp_index(a + 1, n), w[0], w[1]};
}

// Weights of the samples sum to 16.
KERNELS_HD float load_mixed(const Params& p, Storage storage, int component, Mix x, Mix y) {
  float sum = 0;
  for (int j = 0; j < 2; ++j) {
    const int wy = j ? y.wb : y.wa;
    for (int i = 0; i < 2; ++i) {
      const int w = wy * (i ? x.wb : x.wa);
      if (w)
        sum = multiply_add(static_cast<float>(w),
                           load_code(p, storage, component, i ? x.b : x.a, j ? y.b : y.a), sum);
    }
  }
  return sum;
}

// A component at a luma position of the destination, less its centre.
KERNELS_HD float load_at(const Params& p, Storage storage, int component, int x, int y) {
  const int sx = x + p.x.offset, sy = y + p.y.offset;
  const float sum =
      load_mixed(p, storage, component, mix_at(p.x, component, sx), mix_at(p.y, component, sy));
  return multiply_add(sum, 1.0f / 16, -p.centre[component]);
}

// The samples along one axis of which the chroma at sample `i` of the destination is made: the n-th
// of four, which is luma sample 2i-1+n, or the one source sample at the same place.
struct Filter {
  const Axis& axis;
  int source, target;  // components

  KERNELS_HD bool direct() const {
    return source > 0 && axis.source_sub && axis.direct[source - 1][target - 1];
  }
  KERNELS_HD int weight(int n) const {
    return direct() ? (n == 1 ? 4 : 0) : axis.down[target - 1][n];
  }
  KERNELS_HD Mix mix(int i, int n) const {
    if (direct()) {
      const int at = i + axis.offset / 2;
      return {at, at, 4, 0};
    }
    return mix_at(axis, source, clamp_index(2 * i - 1 + n, axis.size) + axis.offset);
  }
};

// A source component filtered to chroma sample (i, j) of the destination, less its centre.
KERNELS_HD float load_filtered(const Params& p, Storage storage, int source, int target, int i,
                               int j) {
  const Filter fx{p.x, source, target}, fy{p.y, source, target};
  float sum = 0;
  for (int n = 0; n < 4; ++n) {
    for (int m = 0; m < 4; ++m) {
      const int w = fy.weight(n) * fx.weight(m);
      if (w)
        sum = multiply_add(static_cast<float>(w),
                           load_mixed(p, storage, source, fx.mix(i, m), fy.mix(j, n)), sum);
    }
  }
  return multiply_add(sum, 1.0f / 256, -p.centre[source]);
}

// --- Conversion

KERNELS_HD float row(const float (&m)[4], float a, float b, float c) {
  return multiply_add(m[2], c, multiply_add(m[1], b, multiply_add(m[0], a, m[3])));
}

KERNELS_HD void store_pixel(const Params& p, Storage from, Storage to, int x, int y) {
  // Chroma of its own resolution is store_chroma()'s.
  const int n = p.x.target_sub || p.target_planes == 1 ? 1 : 3;
  float c[3];
  for (int k = 0; k < 3; ++k)
    c[k] = n == 3 || p.m[0][k] != 0 ? load_at(p, from, k, x, y) : 0;
  uint32_t v[3] = {};
  for (int k = 0; k < n; ++k)
    v[k] = quantise(row(p.m[k], c[0], c[1], c[2]), p.max);
  const Surface& t = p.target;
  switch (to) {
    case Storage::SemiPlanar8:
      store8(at(t, 0, y, x), v[0]);
      break;
    case Storage::SemiPlanar16:
      store16(at(t, 0, y, 2 * x), v[0] << p.target_shift);
      break;
    case Storage::Planar8:
      for (int k = 0; k < n; ++k)
        store8(at(t, k, y, x), v[k]);
      break;
    case Storage::Planar16:
      for (int k = 0; k < n; ++k)
        store16(at(t, k, y, 2 * x), v[k] << p.target_shift);
      break;
    case Storage::Packed4x8: {
      const uint32_t a = quantise(multiply_add(load_alpha(p, from, x + p.x.offset, y + p.y.offset),
                                               p.alpha_scale, p.alpha_offset),
                                  p.alpha_max);
      const uint32_t word = v[0] | v[1] << 8 | v[2] << 16 | a << 24;
      store32(at(t, 0, y, 4 * x), rotate_right(word, (32 - p.target_rotate) & 31));
      break;
    }
    case Storage::Packed3x8:
      for (int k = 0; k < 3; ++k)
        store8(at(t, 0, y, 3 * x + k), v[k]);
      break;
    case Storage::Packed1010102: {
      const uint32_t a = quantise(multiply_add(load_alpha(p, from, x + p.x.offset, y + p.y.offset),
                                               p.alpha_scale, p.alpha_offset),
                                  p.alpha_max);
      store32(at(t, 0, y, 4 * x), v[0] | v[1] << 10 | v[2] << 20 | a << 30);
      break;
    }
  }
}

KERNELS_HD void store_chroma(const Params& p, Storage from, Storage to, int i, int j) {
  for (int target = 1; target < 3; ++target) {
    float c[3];
    for (int k = 0; k < 3; ++k)
      c[k] = p.m[target][k] != 0 ? load_filtered(p, from, k, target, i, j) : 0;
    const uint32_t v = quantise(row(p.m[target], c[0], c[1], c[2]), p.max) << p.target_shift;
    switch (to) {
      case Storage::SemiPlanar8:
        store8(at(p.target, 1, j, 2 * i + target - 1), v);
        break;
      case Storage::SemiPlanar16:
        store16(at(p.target, 1, j, 4 * i + 2 * (target - 1)), v);
        break;
      case Storage::Planar8:
        store8(at(p.target, target, j, i), v);
        break;
      default:
        store16(at(p.target, target, j, 2 * i), v);
        break;
    }
  }
}

// The 2x2 pixels at even (x, y) of the destination, as far as they are inside, and their chroma.
KERNELS_HD void convert_block(const Params& p, Storage from, Storage to, int x, int y) {
  for (int j = y; j < y + 2 && j < p.y.size; ++j) {
    for (int i = x; i < x + 2 && i < p.x.size; ++i)
      store_pixel(p, from, to, i, j);
  }
  if (p.x.target_sub)
    store_chroma(p, from, to, x / 2, y / 2);
}

}  // namespace cudaipc::kernels
