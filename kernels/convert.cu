// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The conversion kernels: one launch a frame, a tile of pixels a thread.
//
// A tile wholly inside the picture is loaded in words, all loads before the first use, converted in
// registers and stored in words that lie side by side across the warp. The tiles that stick out
// take pixel.h's way. Nothing is shared between threads, so the same source runs on a CPU.
//
// The kernels are bound by instructions before they are bound by memory, hence: integers become
// floats by putting them into the mantissa of 2^23 (one byte permute, one add, no conversion unit);
// the four chroma samples around a pixel are weighted by one dot product of bytes, whose
// accumulator starts at that 2^23; addresses are 32-bit offsets.
#include "kernels/pixel.h"
#include "kernels/table.h"

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

KERNELS_D float as_float(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float f;
  memcpy(&f, &bits, sizeof(f));
  return f;
#endif
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

KERNELS_D uint32_t float_bits(float v) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(v);
#else
  uint32_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits;
#endif
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
  return float_bits(multiply_add(v, p.max_float, as_float(kFloatIntegers)));
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

// --- Sources
//
// A tile is TW x TH pixels. `fetch` loads it; `pixel` gives the codes of one. Subsampled sources
// give YUV ready for RGB, the others three codes and alpha.

// Chroma around a tile: of each row of chroma samples, the pairs (k-1, k) that lie left and right
// of luma columns 2k-1 and 2k.
template <int Bytes, int Columns>
struct ChromaRow;

// Bytes of a pair: first component's left, second's left, first's right, second's right.
template <int Columns>
struct ChromaRow<1, Columns> {
  uint32_t pair[Columns + 1];
};
// A word for each component: left and right half.
template <int Columns>
struct ChromaRow<2, Columns> {
  uint32_t pair[2][Columns + 1];
};

struct Yuv {
  float luma;  // code times 2^shift
  float c[2];  // less centre
};

// 4:2:0 in two or three planes.
template <int Bytes, bool Semi, int TW, int TH>
struct Source420 {
  static constexpr Storage kStorage =
      Semi ? (Bytes == 1 ? Storage::SemiPlanar8 : Storage::SemiPlanar16)
           : (Bytes == 1 ? Storage::Planar8 : Storage::Planar16);
  static constexpr bool kSubsampled = true, kAlpha = false;
  static constexpr int kColumns = TW / 2, kRows = TH / 2 + 2;
  static constexpr int kWords = TW * Bytes / 4;
  uint32_t luma[TH][kWords];
  ChromaRow<Bytes, kColumns> chroma[kRows];

  // Chroma samples of one row as they lie: left neighbour, the tile's, right neighbour.
  struct Raw {
    uint32_t left[2], middle[2][kWords > 1 && !Semi ? kWords / 2 : kWords], right[2];
  };

  static KERNELS_D void neighbour(const Params& p, int i, int j, uint32_t (&v)[2]) {
    if constexpr (Semi && Bytes == 1) {
      v[0] = load_half(word_at(p.source, 1, j, 2 * i));
    } else if constexpr (Semi) {
      v[0] = *reinterpret_cast<const uint32_t*>(word_at(p.source, 1, j, 4 * i));
    } else {
#pragma unroll
      for (int k = 0; k < 2; ++k)
        v[k] = Bytes == 1 ? *word_at(p.source, 1 + k, j, i)
                          : load_half(word_at(p.source, 1 + k, j, 2 * i));
    }
  }

  static KERNELS_D void middle(const Params& p, int i, int j, Raw& raw) {
    if constexpr (Semi) {
      load_words(raw.middle[0], word_at(p.source, 1, j, 2 * Bytes * i));
    } else {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if constexpr (kWords == 1)
          raw.middle[k][0] = load_half(word_at(p.source, 1 + k, j, i));
        else
          load_words(raw.middle[k], word_at(p.source, 1 + k, j, Bytes * i));
      }
    }
  }

  // Sample i of the row, -1 and kColumns being the neighbours: which word, and which part of it.
  // Semi-planar parts are pairs.
  struct Place {
    int word;  // -1: left, kBeyond: right
    int part;
  };
  static constexpr int kBeyond = 1000;
  static constexpr int kPerWord = Semi ? 2 / Bytes : 4 / Bytes;
  static KERNELS_D constexpr Place place(int i) {
    return i < 0           ? Place{-1, 0}
           : i >= kColumns ? Place{kBeyond, 0}
                           : Place{i / kPerWord, i % kPerWord};
  }
  static KERNELS_D uint32_t word(const Raw& raw, int k, int at) {
    return at < 0 ? raw.left[k] : at == kBeyond ? raw.right[k] : raw.middle[k][at];
  }

  static KERNELS_D void pair_up(const Raw& raw, ChromaRow<Bytes, kColumns>& row, uint32_t swap) {
#pragma unroll
    for (int k = 0; k <= kColumns; ++k) {
      const Place a = place(k - 1), b = place(k);
      if constexpr (Bytes == 1 && Semi) {
        const uint32_t wa = word(raw, 0, a.word), wb = word(raw, 0, b.word);
        // Already side by side?
        row.pair[k] =
            a.word == b.word
                ? wa
                : permute(wa, wb, (a.part ? 0x32u : 0x10u) | (b.part ? 0x7600u : 0x5400u));
      } else if constexpr (Bytes == 1) {
        const uint32_t ap = static_cast<uint32_t>(a.part), bp = static_cast<uint32_t>(b.part);
        const uint32_t left =
            permute(word(raw, 0, a.word), word(raw, 1, a.word), ap | (4 + ap) << 4);
        const uint32_t right =
            permute(word(raw, 0, b.word), word(raw, 1, b.word), bp | (4 + bp) << 4);
        row.pair[k] = a.word == b.word ? permute(word(raw, 0, a.word), word(raw, 1, a.word),
                                                 ap | (4 + ap) << 4 | bp << 8 | (4 + bp) << 12)
                                       : permute(left, right, 0x5410);
      } else if constexpr (Semi) {
        const uint32_t wa = word(raw, 0, a.word), wb = word(raw, 0, b.word);
        row.pair[0][k] = permute(wa, wb, swap ? 0x7632 : 0x5410);
        row.pair[1][k] = permute(wa, wb, swap ? 0x5410 : 0x7632);
      } else {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const uint32_t wa = word(raw, c, a.word), wb = word(raw, c, b.word);
          row.pair[c][k] =
              a.word == b.word
                  ? wa
                  : permute(wa, wb, (a.part ? 0x32u : 0x10u) | (b.part ? 0x7600u : 0x5400u));
        }
      }
    }
  }

  KERNELS_D void fetch(const Params& p, int x, int y) {
    x += p.x.offset, y += p.y.offset;
    const int columns = (p.x.source_size + 1) / 2, rows = (p.y.source_size + 1) / 2;
    const int left = max(x / 2 - 1, 0), right = min(x / 2 + TW / 2, columns - 1);
    // Chroma that sits on the even columns, as in most video, needs none from the left.
    const bool reach_left = p.x.up[0][0][0] != 0;
    Raw raw[kRows];
#pragma unroll
    for (int r = 0; r < TH; ++r)
      load_words(luma[r], word_at(p.source, 0, y + r, Bytes * x));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int j = min(max(y / 2 - 1 + r, 0), rows - 1);
      middle(p, x / 2, j, raw[r]);
      raw[r].left[0] = raw[r].left[1] = 0;
      if (reach_left)
        neighbour(p, left, j, raw[r].left);
      neighbour(p, right, j, raw[r].right);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Bytes == 2) {
#pragma unroll
        for (int k = 0; k < (Semi ? 1 : 2); ++k) {
          raw[r].left[k] &= p.mask, raw[r].right[k] &= p.mask;
#pragma unroll
          for (uint32_t& w : raw[r].middle[k])
            w &= p.mask;
        }
      }
      pair_up(raw[r], chroma[r], p.swap);
    }
    if constexpr (Bytes == 2) {
#pragma unroll
      for (int r = 0; r < TH; ++r) {
#pragma unroll
        for (uint32_t& w : luma[r])
          w &= p.mask;
      }
    }
  }

  KERNELS_D Yuv pixel(const Params& p, int r, int c) const {
    const int top = (r + 1) / 2, k = (c + 1) / 2;
    const uint32_t weights = p.weights[r & 1][c & 1];
    Yuv out;
    out.luma = sample<Bytes>(luma[r], c, as_float(kFloatIntegers));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t bits;
      if constexpr (Bytes == 1) {
        uint32_t selector = i ? 0x7531 : 0x6420;
        if constexpr (Semi)
          selector = (p.swap != 0) == (i == 0) ? 0x7531 : 0x6420;
        bits = dot_bytes(permute(chroma[top].pair[k], chroma[top + 1].pair[k], selector), weights,
                         kFloatIntegers);
      } else {
        bits = dot_halves<true>(chroma[top + 1].pair[i][k], weights,
                                dot_halves<false>(chroma[top].pair[i][k], weights, kFloatIntegers));
      }
      out.c[i] = multiply_add(as_float(bits), p.chroma_scale, p.chroma_bias);
    }
    return out;
  }
};

// What a destination's chroma filter reaches beyond the tile: a column before it, a row above it.
struct Reach {
  bool column, row;
  int left;  // that column

  KERNELS_D Reach(const Params& p, int x)
      : column(p.x.target_sub && p.x.down[0][0]),
        row(p.y.target_sub && p.y.down[0][0]),
        left((x > 0 ? x - 1 : 0) + p.x.offset) {}
};

struct Codes {
  float c[3];  // code times 2^shift, less centre if asked for
  float a;
};

// 4:4:4 in three planes. Row 0 is the one above the tile.
template <int Bytes, int TW, int TH>
struct Source444 {
  static constexpr Storage kStorage = Bytes == 1 ? Storage::Planar8 : Storage::Planar16;
  static constexpr bool kSubsampled = false, kAlpha = false;
  uint32_t words[3][TH + 1][TW * Bytes / 4];
  uint32_t before[3][TH + 1];

  KERNELS_D void fetch_row(const Params& p, const Reach& reach, int r, int x, int j) {
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      load_words(words[k][r], word_at(p.source, k, j, Bytes * (x + p.x.offset)));
      before[k][r] = 0;
      if (reach.column)
        before[k][r] = Bytes == 1 ? *word_at(p.source, k, j, reach.left)
                                  : load_half(word_at(p.source, k, j, 2 * reach.left));
    }
    if constexpr (Bytes == 2) {
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        before[k][r] &= p.mask;
#pragma unroll
        for (uint32_t& w : words[k][r])
          w &= p.mask;
      }
    }
  }

  KERNELS_D void fetch(const Params& p, const Reach& reach, int x, int y) {
#pragma unroll
    for (int r = 0; r < TH; ++r)
      fetch_row(p, reach, r + 1, x, y + r + p.y.offset);
    if (reach.row)
      fetch_row(p, reach, 0, x, (y > 0 ? y - 1 : 0) + p.y.offset);
  }

  template <bool Centred>
  KERNELS_D Codes pixel(const Params& p, int r, int c) const {
    Codes out;
    out.a = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k)
      out.c[k] = c < 0 ? sample<Bytes>(&before[k][r + 1], 0,
                                       (Centred ? p.bias[k] : as_float(kFloatIntegers)))
                       : sample<Bytes>(words[k][r + 1], c,
                                       (Centred ? p.bias[k] : as_float(kFloatIntegers)));
    return out;
  }
};

// Packed pixels of three or four bytes (alpha last), or of a word with 10-bit fields.
template <Storage S, int TW, int TH>
struct SourcePacked {
  static constexpr Storage kStorage = S;
  static constexpr bool kSubsampled = false, kAlpha = S != Storage::Packed3x8;
  static constexpr int kBytes = S == Storage::Packed3x8 ? 3 : 4;
  uint32_t words[TH + 1][TW * kBytes / 4];
  uint32_t before[TH + 1];

  KERNELS_D void fetch_row(const Params& p, const Reach& reach, int r, int x, int j) {
    load_words(words[r], word_at(p.source, 0, j, kBytes * (x + p.x.offset)));
    before[r] = 0;
    if (reach.column) {
      const unsigned char* b = word_at(p.source, 0, j, kBytes * reach.left);
      if constexpr (kBytes == 4)
        before[r] = *reinterpret_cast<const uint32_t*>(b);
      else
        before[r] = b[0] | static_cast<uint32_t>(b[1]) << 8 | static_cast<uint32_t>(b[2]) << 16;
    }
  }

  KERNELS_D void fetch(const Params& p, const Reach& reach, int x, int y) {
#pragma unroll
    for (int r = 0; r < TH; ++r)
      fetch_row(p, reach, r + 1, x, y + r + p.y.offset);
    if (reach.row)
      fetch_row(p, reach, 0, x, (y > 0 ? y - 1 : 0) + p.y.offset);
  }

  template <bool Centred>
  KERNELS_D Codes pixel(const Params& p, int r, int c) const {
    Codes out;
    const uint32_t* row = c < 0 ? &before[r + 1] : words[r + 1];
    const int i = c < 0 ? 0 : c;
    out.a = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      if constexpr (S == Storage::Packed3x8) {
        out.c[k] = sample<1>(row, 3 * i + k, (Centred ? p.bias[k] : as_float(kFloatIntegers)));
      } else if constexpr (S == Storage::Packed1010102) {
        out.c[k] = static_cast<float>(row[i] >> (10 * k) & 1023);
      } else {
        out.c[k] = sample<1>(&row[i], k, (Centred ? p.bias[k] : as_float(kFloatIntegers)));
      }
    }
    if constexpr (S == Storage::Packed1010102)
      out.a = static_cast<float>(row[i] >> 30);
    if constexpr (S == Storage::Packed4x8)
      out.a = sample<1>(&row[i], 3, as_float(kFloatIntegers));
    return out;
  }
};

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
          const uint32_t last = float_bits(multiply_add(px.v[2], p.max_float, p.last_float));
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
