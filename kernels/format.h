// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The pixel formats that the kernels read and write.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/params.h"

namespace cudaipc::kernels {

struct Format {
  const char* name;  // GStreamer's name of it
  Storage storage;
  bool rgb;
  uint8_t bits;          // of a component's code
  uint8_t shift;         // of the code in its 16-bit container
  uint8_t sub_x, sub_y;  // 1: chroma is subsampled 2:1 on this axis
  // Where R, G and B, or Y, Cb and Cr, are: number of the plane, of the byte or of the 10-bit
  // field, not counting alpha that comes first. Semi-planar: luma 0, the pair's members 1 and 2.
  uint8_t position[3];
  uint8_t planes;
  uint8_t alpha_bits;  // 0: none
  bool alpha_first;    // or padding
  bool target;         // can be written

  constexpr bool gray() const { return planes == 1 && storage == Storage::Planar8; }
  constexpr bool subsampled() const { return sub_x || sub_y; }
  constexpr int container_bytes() const {
    return storage == Storage::SemiPlanar16 || storage == Storage::Planar16 ? 2 : 1;
  }
  // Bytes and rows of one plane's picture, without padding.
  int64_t row_bytes(int plane, int width) const;
  int rows(int plane, int height) const;
};

std::span<const Format> formats();
const Format* find_format(std::string_view name);  // null: not one of them

}  // namespace cudaipc::kernels
