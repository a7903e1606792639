// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The table of formats (layouts: GStreamer's GstVideoFormat documentation).
#include "kernels/format.h"

namespace cudaipc::kernels {
namespace {

using enum Storage;
constexpr bool kYuv = false, kRgb = true;

constexpr Format kFormats[] = {
    // name, storage, family, bits, shift, sub x, sub y, positions, planes, alpha, first, target
    {"NV12", SemiPlanar8, kYuv, 8, 0, 1, 1, {0, 1, 2}, 2, 0, false, true},
    {"NV21", SemiPlanar8, kYuv, 8, 0, 1, 1, {0, 2, 1}, 2, 0, false, true},
    {"I420", Planar8, kYuv, 8, 0, 1, 1, {0, 1, 2}, 3, 0, false, true},
    {"YV12", Planar8, kYuv, 8, 0, 1, 1, {0, 2, 1}, 3, 0, false, true},
    {"P010_10LE", SemiPlanar16, kYuv, 10, 6, 1, 1, {0, 1, 2}, 2, 0, false, true},
    {"P012_LE", SemiPlanar16, kYuv, 12, 4, 1, 1, {0, 1, 2}, 2, 0, false, true},
    {"P016_LE", SemiPlanar16, kYuv, 16, 0, 1, 1, {0, 1, 2}, 2, 0, false, true},
    {"I420_10LE", Planar16, kYuv, 10, 0, 1, 1, {0, 1, 2}, 3, 0, false, true},
    {"I420_12LE", Planar16, kYuv, 12, 0, 1, 1, {0, 1, 2}, 3, 0, false, true},
    {"Y42B", Planar8, kYuv, 8, 0, 1, 0, {0, 1, 2}, 3, 0, false, false},
    {"I422_10LE", Planar16, kYuv, 10, 0, 1, 0, {0, 1, 2}, 3, 0, false, false},
    {"Y444", Planar8, kYuv, 8, 0, 0, 0, {0, 1, 2}, 3, 0, false, true},
    {"Y444_10LE", Planar16, kYuv, 10, 0, 0, 0, {0, 1, 2}, 3, 0, false, true},
    {"Y444_12LE", Planar16, kYuv, 12, 0, 0, 0, {0, 1, 2}, 3, 0, false, true},
    {"Y444_16LE", Planar16, kYuv, 16, 0, 0, 0, {0, 1, 2}, 3, 0, false, true},
    {"VUYA", Packed4x8, kYuv, 8, 0, 0, 0, {2, 1, 0}, 1, 8, false, true},
    {"GRAY8", Planar8, kYuv, 8, 0, 0, 0, {0, 1, 2}, 1, 0, false, true},
    {"RGBA", Packed4x8, kRgb, 8, 0, 0, 0, {0, 1, 2}, 1, 8, false, true},
    {"BGRA", Packed4x8, kRgb, 8, 0, 0, 0, {2, 1, 0}, 1, 8, false, true},
    {"ARGB", Packed4x8, kRgb, 8, 0, 0, 0, {0, 1, 2}, 1, 8, true, true},
    {"ABGR", Packed4x8, kRgb, 8, 0, 0, 0, {2, 1, 0}, 1, 8, true, true},
    {"RGBx", Packed4x8, kRgb, 8, 0, 0, 0, {0, 1, 2}, 1, 0, false, true},
    {"BGRx", Packed4x8, kRgb, 8, 0, 0, 0, {2, 1, 0}, 1, 0, false, true},
    {"RGB", Packed3x8, kRgb, 8, 0, 0, 0, {0, 1, 2}, 1, 0, false, true},
    {"BGR", Packed3x8, kRgb, 8, 0, 0, 0, {2, 1, 0}, 1, 0, false, true},
    {"RGBP", Planar8, kRgb, 8, 0, 0, 0, {0, 1, 2}, 3, 0, false, true},
    {"BGRP", Planar8, kRgb, 8, 0, 0, 0, {2, 1, 0}, 3, 0, false, true},
    {"GBR", Planar8, kRgb, 8, 0, 0, 0, {2, 0, 1}, 3, 0, false, true},
    {"GBR_10LE", Planar16, kRgb, 10, 0, 0, 0, {2, 0, 1}, 3, 0, false, true},
    {"GBR_16LE", Planar16, kRgb, 16, 0, 0, 0, {2, 0, 1}, 3, 0, false, true},
    {"RGB10A2_LE", Packed1010102, kRgb, 10, 0, 0, 0, {0, 1, 2}, 1, 2, false, true},
    {"BGR10A2_LE", Packed1010102, kRgb, 10, 0, 0, 0, {2, 1, 0}, 1, 2, false, true},
};

}  // namespace

int64_t Format::row_bytes(int plane, int width) const {
  const int64_t w = width;
  switch (storage) {
    case SemiPlanar8:
    case SemiPlanar16:
      return (plane == 0 ? w : (w + 1) / 2 * 2) * container_bytes();
    case Planar8:
    case Planar16:
      return (plane > 0 && sub_x ? (w + 1) / 2 : w) * container_bytes();
    case Packed3x8:
      return 3 * w;
    case Packed4x8:
    case Packed1010102:
      break;
  }
  return 4 * w;
}

int Format::rows(int plane, int height) const {
  return plane > 0 && sub_y ? (height + 1) / 2 : height;
}

std::span<const Format> formats() {
  return kFormats;
}

const Format* find_format(std::string_view name) {
  for (const Format& format : kFormats) {
    if (name == format.name)
      return &format;
  }
  return nullptr;
}

}  // namespace cudaipc::kernels
