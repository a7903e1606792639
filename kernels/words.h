// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Words of memory, codes and floats of the vector kernels. For nvcc, and for a CPU behind
// tests/softcuda/host_kernel.h.
//
// The kernels are bound by instructions before they are bound by memory, hence: integers become
// floats by putting them into the mantissa of 2^23 (one byte permute, one add, no conversion unit);
// results saturate in 0..1, which a multiply-add does for nothing, and become codes by a
// multiply-add that ends at 2^23, whose rounding is the one rounding there is; an address is one
// instruction.
#pragma once

#include <cstring>

#include "kernels/pixel.h"

namespace cudaipc::kernels {

#define KERNELS_D __device__ __forceinline__

// --- Words

KERNELS_D uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, selector);
#else
  const uint64_t both = a | static_cast<uint64_t>(b) << 32;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i)
    r |= static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return r;
#endif
}

// The same bits as another type.
template <typename To, typename From>
KERNELS_D To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

KERNELS_D float as_float(uint32_t bits) {
  return reinterpret<float>(bits);
}

// sum + the products of four bytes; of two 16-bit halves with the weights' lower or upper bytes.
KERNELS_D uint32_t dot_bytes(uint32_t a, uint32_t weights, uint32_t sum) {
#ifdef __CUDA_ARCH__
  return __dp4a(a, weights, sum);
#else
  for (int i = 0; i < 4; ++i)
    sum += (a >> (8 * i) & 0xff) * (weights >> (8 * i) & 0xff);
  return sum;
#endif
}

template <bool Upper>
KERNELS_D uint32_t dot_halves(uint32_t a, uint32_t weights, uint32_t sum) {
#ifdef __CUDA_ARCH__
  uint32_t r;
  if constexpr (Upper)
    asm("dp2a.hi.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(weights), "r"(sum));
  else
    asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(weights), "r"(sum));
  return r;
#else
  const uint32_t w = Upper ? weights >> 16 : weights;
  return sum + (a & 0xffff) * (w & 0xff) + (a >> 16) * (w >> 8 & 0xff);
#endif
}

// What is `bytes` into a plane's row. Strides of the vector kernels are positive (converter.cpp).
// One instruction an address: left to itself the compiler adds the plane last, in two more.
KERNELS_D unsigned char* word_at(const Surface& s, int plane, int y, int bytes) {
  unsigned char* const column = s.plane[plane] + bytes;
  const auto row = static_cast<uint32_t>(y), stride = static_cast<uint32_t>(s.stride[plane]);
#ifdef __CUDA_ARCH__
  unsigned char* r;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(row), "r"(stride), "l"(column));
  // Else loads and stores would be of the generic kind, which look for shared memory first.
  __builtin_assume(__isGlobal(r));
  return r;
#else
  return column + static_cast<uint64_t>(row) * stride;
#endif
}

// N consecutive 32-bit words at an address aligned to the largest power of two in them, up to 16
// bytes.
template <int N>
KERNELS_D void load_words(uint32_t (&w)[N], const unsigned char* p) {
#ifdef __CUDA_ARCH__
#pragma unroll
  for (int i = 0; i < N; i += N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1) {
    if constexpr (N % 4 == 0) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(p + 4 * i));
      w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
    } else if constexpr (N % 2 == 0) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(p + 4 * i));
      w[i] = v.x, w[i + 1] = v.y;
    } else {
      w[i] = __ldg(reinterpret_cast<const unsigned*>(p + 4 * i));
    }
  }
#else
  memcpy(w, p, sizeof(w));
#endif
}

template <int N>
KERNELS_D void store_words(unsigned char* p, const uint32_t (&w)[N]) {
#ifdef __CUDA_ARCH__
#pragma unroll
  for (int i = 0; i < N; i += N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1) {
    if constexpr (N % 4 == 0)
      *reinterpret_cast<uint4*>(p + 4 * i) = make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
    else if constexpr (N % 2 == 0)
      *reinterpret_cast<uint2*>(p + 4 * i) = make_uint2(w[i], w[i + 1]);
    else
      *reinterpret_cast<uint32_t*>(p + 4 * i) = w[i];
  }
#else
  memcpy(p, w, sizeof(w));
#endif
}

KERNELS_D uint32_t load_half(const unsigned char* p) {
  return *reinterpret_cast<const uint16_t*>(p);
}

// --- Codes and floats

// Byte or 16-bit half i of a row of words; `bias` holds kFloatIntegers' value, and what else is to
// be taken off.
template <int Bytes>
KERNELS_D float sample(const uint32_t* w, int i, float bias) {
  const uint32_t bits = Bytes == 1 ? permute(w[i / 4], kFloatIntegers, 0x7650u | (i % 4))
                                   : permute(w[i / 2], kFloatIntegers, i % 2 ? 0x7632 : 0x7610);
  return as_float(bits) - bias;
}

// a * b + c in 0..1.
KERNELS_D float saturated(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __saturatef(__fmaf_rn(a, b, c));
#else
  return std::min(std::max(a * b + c, 0.0f), 1.0f);
#endif
}

// kFloatIntegers and the code nearest to a value in 0..1.
KERNELS_D uint32_t code_bits(const Params& p, float v) {
  return reinterpret<uint32_t>(multiply_add(v, p.max_float, as_float(kFloatIntegers)));
}

// N values in 0..1 as words of codes.
template <int Bytes, int N>
KERNELS_D void pack(uint32_t (&w)[N * Bytes / 4], const float (&v)[N], const Params& p) {
  if constexpr (Bytes == 1) {
#pragma unroll
    for (int i = 0; i < N; i += 4)
      w[i / 4] = permute(permute(code_bits(p, v[i]), code_bits(p, v[i + 1]), 0x0040),
                         permute(code_bits(p, v[i + 2]), code_bits(p, v[i + 3]), 0x0040), 0x5410);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2)
      w[i / 2] = permute(code_bits(p, v[i]), code_bits(p, v[i + 1]), 0x5410) << p.target_shift;
  }
}

}  // namespace cudaipc::kernels
