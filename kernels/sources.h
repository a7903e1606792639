// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the vector kernels read: a class for each way in which samples lie.
//
// A tile is TW x TH pixels. `fetch` loads it, in words, all before the first use; `pixel` gives the
// codes of one. Subsampled sources give YUV ready for RGB, the others three codes and alpha.
#pragma once

#include "kernels/words.h"

namespace cudaipc::kernels {

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

}  // namespace cudaipc::kernels
