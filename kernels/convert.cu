// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The conversion kernels: one launch a frame, a tile of pixels a thread.
//
// A tile wholly inside the picture is loaded in words, converted in registers and stored in words
// that lie side by side across the warp. The tiles that stick out take pixel.h's way. Nothing is
// shared between threads, so the same source runs on a CPU.
#include "kernels/sources.h"
#include "kernels/table.h"

namespace cudaipc::kernels {

// --- Three converted components of a pixel, in 0..1

struct Converted {
  float v[3];
  float a;
};

KERNELS_D float saturated_row(const float (&m)[4], float a, float b, float c) {
  return saturated(m[2], c, multiply_add(m[1], b, multiply_add(m[0], a, m[3])));
}

template <typename Source>
KERNELS_D Converted convert_pixel(const Params& p, const Source& source, int r, int c) {
  if constexpr (Source::kSubsampled) {
    const Yuv v = source.pixel(p, r, c);
    const float luma = multiply_add(v.luma, p.luma, p.constant);
    return {{saturated(v.c[0], p.first0, luma),
             saturated(v.c[1], p.middle1, multiply_add(v.c[0], p.middle0, luma)),
             saturated(v.c[1], p.last1, luma)},
            0};
  } else {
    const Codes v = source.template pixel<true>(p, r, c);
    Converted out;
#pragma unroll
    for (int i = 0; i < 3; ++i)
      out.v[i] = saturated_row(p.unit[i], v.c[0], v.c[1], v.c[2]);
    out.a = Source::kAlpha ? multiply_add(v.a, p.alpha_scale, p.alpha_offset) : p.alpha_offset;
    return out;
  }
}

// --- Destinations with all components at each pixel

template <Storage S, int TW, int TH>
struct TargetPacked {
  static constexpr Storage kStorage = S;
  static constexpr int kBytes = S == Storage::Packed3x8 ? 3 : 4;

  template <typename Source>
  static KERNELS_D void store_row(const Params& p, const Source& source, int r, int x, int y) {
    uint32_t w[TW * kBytes / 4];
    if constexpr (S == Storage::Packed3x8) {
      float v[3 * TW];
#pragma unroll
      for (int c = 0; c < TW; ++c) {
        const Converted px = convert_pixel(p, source, r, c);
#pragma unroll
        for (int k = 0; k < 3; ++k)
          v[3 * c + k] = px.v[k];
      }
      pack<1, 3 * TW>(w, v, p);
    } else {
#pragma unroll
      for (int c = 0; c < TW; ++c) {
        const Converted px = convert_pixel(p, source, r, c);
        const uint32_t first = code_bits(p, px.v[0]), middle = code_bits(p, px.v[1]);
        if constexpr (S == Storage::Packed4x8) {
          // Constant alpha comes with the last component: as the next byte of its float.
          const uint32_t last =
              reinterpret<uint32_t>(multiply_add(px.v[2], p.max_float, p.last_float));
          if constexpr (Source::kSubsampled || !Source::kAlpha)
            w[c] = permute(permute(first, middle, 0x0040), last, p.selector);
          else
            w[c] = permute(permute(first, middle, 0x0040),
                           permute(last, quantise(px.a, p.alpha_max), 0x0040), p.selector);
        } else {
          uint32_t alpha = p.alpha_max;
          if constexpr (!Source::kSubsampled)
            alpha = quantise(px.a, p.alpha_max);
          w[c] = first + (middle << 10) + (code_bits(p, px.v[2]) << 20) +
                 ((alpha << 30) - kFloatIntegers);
        }
      }
    }
    store_words(word_at(p.target, 0, y + r, kBytes * x), w);
  }

  template <typename Source>
  static KERNELS_D void store(const Params& p, const Source& source, int x, int y) {
#pragma unroll
    for (int r = 0; r < TH; ++r)
      store_row(p, source, r, x, y);
  }
};

template <int Bytes, int TW, int TH>
struct Target444 {
  static constexpr Storage kStorage = Bytes == 1 ? Storage::Planar8 : Storage::Planar16;
  template <typename Source>
  static KERNELS_D void store(const Params& p, const Source& source, int x, int y) {
#pragma unroll
    for (int r = 0; r < TH; ++r) {
      float v[3][TW];
#pragma unroll
      for (int c = 0; c < TW; ++c) {
        const Converted px = convert_pixel(p, source, r, c);
#pragma unroll
        for (int k = 0; k < 3; ++k)
          v[k][c] = px.v[k];
      }
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        uint32_t w[TW * Bytes / 4];
        pack<Bytes, TW>(w, v[k], p);
        store_words(word_at(p.target, k, y + r, Bytes * x), w);
      }
    }
  }
};

// --- Destinations with subsampled chroma

template <int Bytes, bool Semi, int TW, int TH>
struct Target420 {
  static constexpr Storage kStorage =
      Semi ? (Bytes == 1 ? Storage::SemiPlanar8 : Storage::SemiPlanar16)
           : (Bytes == 1 ? Storage::Planar8 : Storage::Planar16);

  static KERNELS_D void store_luma(const Params& p, const float (&v)[TW], int x, int y) {
    uint32_t w[TW * Bytes / 4];
    pack<Bytes, TW>(w, v, p);
    store_words(word_at(p.target, 0, y, Bytes * x), w);
  }

  // Of chroma samples i on of row j.
  static KERNELS_D void store_chroma_row(const Params& p, const float (&v)[2][TW / 2], int i,
                                         int j) {
    if constexpr (Semi) {
      float both[TW];
#pragma unroll
      for (int c = 0; c < TW / 2; ++c)
        both[2 * c] = v[0][c], both[2 * c + 1] = v[1][c];
      uint32_t w[TW * Bytes / 4];
      pack<Bytes, TW>(w, both, p);
      store_words(word_at(p.target, 1, j, 2 * Bytes * i), w);
    } else if constexpr (TW * Bytes == 4) {
      const float four[4] = {v[0][0], v[0][1], v[1][0], v[1][1]};
      uint32_t words[1];
      pack<1, 4>(words, four, p);
      const uint32_t w = words[0];
      *reinterpret_cast<uint16_t*>(word_at(p.target, 1, j, i)) = static_cast<uint16_t>(w);
      *reinterpret_cast<uint16_t*>(word_at(p.target, 2, j, i)) = static_cast<uint16_t>(w >> 16);
    } else {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        uint32_t w[TW / 2 * Bytes / 4];
        pack<Bytes, TW / 2>(w, v[k], p);
        store_words(word_at(p.target, 1 + k, j, Bytes * i), w);
      }
    }
  }

  template <typename Source>
  static KERNELS_D void store(const Params& p, const Source& source, const Reach& reach, int x,
                              int y) {
    // Columns, summed down the rows that a chroma row takes, then along the row.
#pragma unroll
    for (int r = 0; r < TH; r += 2) {
      float sum[TW + 1][3];
      float luma[2][TW];
#pragma unroll
      for (int c = -1; c < TW; ++c) {
        const Codes a = source.template pixel<false>(p, r, c);
        const Codes b = source.template pixel<false>(p, r + 1, c);
#pragma unroll
        for (int k = 0; k < 3; ++k)
          sum[c + 1][k] = a.c[k] + b.c[k];
        if (c >= 0) {
          luma[0][c] = saturated_row(p.unit[0], a.c[0], a.c[1], a.c[2]);
          luma[1][c] = saturated_row(p.unit[0], b.c[0], b.c[1], b.c[2]);
        }
      }
      if (reach.row) {
        // 1-2-1: the middle row again, and the one above.
#pragma unroll
        for (int c = -1; c < TW; ++c) {
          const Codes above = source.template pixel<false>(p, r - 1, c);
          const Codes a = source.template pixel<false>(p, r, c);
#pragma unroll
          for (int k = 0; k < 3; ++k)
            sum[c + 1][k] += above.c[k] + a.c[k];
        }
      }
      store_luma(p, luma[0], x, y + r);
      store_luma(p, luma[1], x, y + r + 1);
      float chroma[2][TW / 2];
#pragma unroll
      for (int c = 0; c < TW / 2; ++c) {
        float s[3];
#pragma unroll
        for (int k = 0; k < 3; ++k)
          s[k] = multiply_add(p.left, sum[2 * c][k],
                              multiply_add(p.centre_x, sum[2 * c + 1][k], sum[2 * c + 2][k]));
        chroma[0][c] = saturated_row(p.unit[1], s[0], s[1], s[2]);
        chroma[1][c] = saturated_row(p.unit[2], s[0], s[1], s[2]);
      }
      store_chroma_row(p, chroma, x / 2, (y + r) / 2);
    }
  }
};

// --- Kernels

// Whether the tile is wholly inside; if not, does what of it is.
template <int TW, int TH>
KERNELS_D bool inside(const Params& p, Storage from, Storage to, int& x, int& y) {
  x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * TW;
  y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) * TH;
  if (x + TW <= p.x.size && y + TH <= p.y.size)
    return true;
#pragma unroll 1
  for (int j = y; j < y + TH && j < p.y.size; j += 2) {
#pragma unroll 1
    for (int i = x; i < x + TW && i < p.x.size; i += 2)
      convert_block(p, from, to, i, j);
  }
  return false;
}

// Subsampled YUV to RGB at each pixel.
template <typename Source, typename Target, int TW, int TH>
struct Expand {
  static KERNELS_D void run(const Params& p) {
    int x, y;
    if (!inside<TW, TH>(p, Source::kStorage, Target::kStorage, x, y))
      return;
    Source source;
    source.fetch(p, x, y);
    Target::store(p, source, x, y);
  }
};

// Components at each pixel to components at each pixel.
template <typename Source, typename Target, int TW, int TH>
struct Map {
  static KERNELS_D void run(const Params& p) {
    int x, y;
    if (!inside<TW, TH>(p, Source::kStorage, Target::kStorage, x, y))
      return;
    Source source;
    source.fetch(p, Reach(p, x), x, y);
    Target::store(p, source, x, y);
  }
};

// Components at each pixel to subsampled YUV.
template <typename Source, typename Target, int TW, int TH>
struct Reduce {
  static KERNELS_D void run(const Params& p) {
    int x, y;
    if (!inside<TW, TH>(p, Source::kStorage, Target::kStorage, x, y))
      return;
    const Reach reach(p, x);
    Source source;
    source.fetch(p, reach, x, y);
    Target::store(p, source, reach, x, y);
  }
};

// Between layouts, depths and ranges of subsampled YUV: chroma stays where it is, luma does not
// depend on it.
template <typename Source, typename Target, int TW, int TH>
struct Repack;

template <int Bytes, bool Semi, int OutBytes, bool OutSemi, int TW, int TH>
struct Repack<Source420<Bytes, Semi, TW, TH>, Target420<OutBytes, OutSemi, TW, TH>, TW, TH> {
  using Source = Source420<Bytes, Semi, TW, TH>;
  using Target = Target420<OutBytes, OutSemi, TW, TH>;

  static KERNELS_D void run(const Params& p) {
    int x, y;
    if (!inside<TW, TH>(p, Source::kStorage, Target::kStorage, x, y))
      return;
    const int sx = x + p.x.offset, sy = y + p.y.offset;
    uint32_t luma[TH][Source::kWords];
    typename Source::Raw raw[TH / 2];
#pragma unroll
    for (int r = 0; r < TH; ++r)
      load_words(luma[r], word_at(p.source, 0, sy + r, Bytes * sx));
#pragma unroll
    for (int r = 0; r < TH / 2; ++r)
      Source::middle(p, sx / 2, sy / 2 + r, raw[r]);
#pragma unroll
    for (int r = 0; r < TH; ++r) {
      if constexpr (Bytes == 2) {
#pragma unroll
        for (uint32_t& w : luma[r])
          w &= p.mask;
      }
      float v[TW];
#pragma unroll
      for (int c = 0; c < TW; ++c)
        v[c] = saturated(sample<Bytes>(luma[r], c, as_float(kFloatIntegers)), p.luma, p.unit[0][3]);
      Target::store_luma(p, v, x, y + r);
    }
#pragma unroll
    for (int r = 0; r < TH / 2; ++r) {
      if constexpr (Bytes == 2) {
#pragma unroll
        for (int k = 0; k < (Semi ? 1 : 2); ++k) {
#pragma unroll
          for (uint32_t& w : raw[r].middle[k])
            w &= p.mask;
        }
      }
      float v[2][TW / 2];
#pragma unroll
      for (int c = 0; c < TW / 2; ++c) {
        float in[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float code = sample<Bytes>(raw[r].middle[Semi ? 0 : k], Semi ? 2 * c + k : c,
                                           as_float(kFloatIntegers));
          in[k] = multiply_add(code, p.scale, -p.centre[1 + k]);
        }
#pragma unroll
        for (int k = 0; k < 2; ++k)
          v[k][c] = saturated(p.unit[1 + k][2], in[1],
                              multiply_add(p.unit[1 + k][1], in[0], p.unit[1 + k][3]));
      }
      Target::store_chroma_row(p, v, x / 2, y / 2 + r);
    }
  }
};

// The classes of table.h.
#define SOURCE_sp8(W, H) Source420<1, true, W, H>
#define SOURCE_sp16(W, H) Source420<2, true, W, H>
#define SOURCE_p8(W, H) Source420<1, false, W, H>
#define SOURCE_p16(W, H) Source420<2, false, W, H>
#define SOURCE_f8(W, H) Source444<1, W, H>
#define SOURCE_f16(W, H) Source444<2, W, H>
#define SOURCE_x4(W, H) SourcePacked<Storage::Packed4x8, W, H>
#define SOURCE_x3(W, H) SourcePacked<Storage::Packed3x8, W, H>
#define SOURCE_x10(W, H) SourcePacked<Storage::Packed1010102, W, H>
#define TARGET_sp8(W, H) Target420<1, true, W, H>
#define TARGET_sp16(W, H) Target420<2, true, W, H>
#define TARGET_p8(W, H) Target420<1, false, W, H>
#define TARGET_p16(W, H) Target420<2, false, W, H>
#define TARGET_f8(W, H) Target444<1, W, H>
#define TARGET_f16(W, H) Target444<2, W, H>
#define TARGET_x4(W, H) TargetPacked<Storage::Packed4x8, W, H>
#define TARGET_x3(W, H) TargetPacked<Storage::Packed3x8, W, H>
#define TARGET_x10(W, H) TargetPacked<Storage::Packed1010102, W, H>

}  // namespace cudaipc::kernels

using cudaipc::kernels::Params;

// What table.h says, as far as the architecture has room for so many threads.
constexpr int least_blocks(int wanted) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr int kMost = 1024 / cudaipc::kernels::kBlockThreads;
#else
  constexpr int kMost = 1536 / cudaipc::kernels::kBlockThreads;
#endif
  return wanted < kMost ? wanted : kMost;
}

#define KERNEL(kind, from, to, width, height, blocks)                                      \
  extern "C" __global__ void __launch_bounds__(cudaipc::kernels::kBlockThreads,            \
                                               least_blocks(blocks))                       \
      convert_##from##_##to(const __grid_constant__ Params p) {                            \
    using namespace cudaipc::kernels;                                                      \
    kind<SOURCE_##from(width, height), TARGET_##to(width, height), width, height>::run(p); \
  }
CUDAIPC_VECTOR_KERNELS(KERNEL)

// Any storage, alignment and siting: a 2x2 block a thread.
extern "C" __global__ void __launch_bounds__(cudaipc::kernels::kBlockThreads)
    convert_any(const __grid_constant__ Params p) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 2;
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) * 2;
  if (x < p.x.size && y < p.y.size)
    convert_block(p, p.source_storage, p.target_storage, x, y);
}

#ifdef SOFTCUDA_HOST
#define SOFT(kind, from, to, width, height, blocks) SOFTCUDA_KERNEL(convert_##from##_##to)
CUDAIPC_VECTOR_KERNELS(SOFT)
SOFTCUDA_KERNEL(convert_any)
#endif
