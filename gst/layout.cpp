// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Layout arithmetic over GStreamer's format descriptions.
#include "gst/layout.h"

#include <algorithm>
#include <cstring>

namespace cudaipc {
namespace {

constexpr size_t kPitchAlign = 256;  // what textures, NVENC and coalesced rows like
constexpr size_t kPaletteBytes = 4 * 256;

size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

// Strides and offsets that GStreamer itself gives the format.
GstVideoInfo default_layout(const GstVideoInfo& info) {
  GstVideoInfo plain;
  gst_video_info_init(&plain);
  gst_video_info_set_interlaced_format(&plain, GST_VIDEO_INFO_FORMAT(&info),
                                       GST_VIDEO_INFO_INTERLACE_MODE(&info),
                                       GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info));
  return plain;
}

bool tiled(const GstVideoInfo& info) {
  return GST_VIDEO_FORMAT_INFO_IS_TILED(info.finfo);
}

}  // namespace

PlaneShape plane_shape(const GstVideoInfo& info, guint plane) {
  const GstVideoFormatInfo* format = info.finfo;
  if (GST_VIDEO_FORMAT_INFO_HAS_PALETTE(format) && plane == 1)
    return {kPaletteBytes, 1};
  const GstVideoInfo plain = default_layout(info);
  if (tiled(info)) {
    const gsize end = plane + 1 < GST_VIDEO_INFO_N_PLANES(&plain) ? plain.offset[plane + 1]
                                                                  : GST_VIDEO_INFO_SIZE(&plain);
    return {end - plain.offset[plane], 1};
  }
  PlaneShape shape;
  bool complex = false;
  for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); ++c) {
    if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != plane)
      continue;
    const size_t pixel = GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c);
    const size_t width = GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(format, c, GST_VIDEO_INFO_WIDTH(&info));
    complex |= pixel == 0;
    shape.row_bytes = std::max(shape.row_bytes, pixel * width);
    shape.rows = std::max<size_t>(
        shape.rows, GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(format, c, GST_VIDEO_INFO_HEIGHT(&info)));
  }
  // Formats whose pixels are no whole bytes (v210, UYVP...) fill GStreamer's own stride.
  if (complex)
    shape.row_bytes = static_cast<size_t>(plain.stride[plane]);
  return shape;
}

void place(GstVideoInfo& info) {
  if (tiled(info)) {
    const GstVideoInfo plain = default_layout(info);
    std::copy_n(plain.offset, GST_VIDEO_MAX_PLANES, info.offset);
    std::copy_n(plain.stride, GST_VIDEO_MAX_PLANES, info.stride);
    info.size = plain.size;
    return;
  }
  const guint n = GST_VIDEO_INFO_N_PLANES(&info);
  size_t pitch = 0;
  for (guint i = 0; i < n; ++i)
    pitch = std::max(pitch, plane_shape(info, i).row_bytes);
  pitch = round_up(pitch, kPitchAlign);
  size_t offset = 0;
  for (guint i = 0; i < n; ++i) {
    info.offset[i] = offset;
    info.stride[i] = static_cast<gint>(pitch);
    offset += pitch * plane_shape(info, i).rows;
  }
  info.size = offset;
}

Layout layout_of(const GstVideoInfo& placed) {
  Layout layout;
  layout.n_planes = GST_VIDEO_INFO_N_PLANES(&placed);
  for (guint i = 0; i < layout.n_planes; ++i) {
    const PlaneShape shape = plane_shape(placed, i);
    wire::Plane& plane = layout.planes[i];
    plane.offset = placed.offset[i];
    plane.stride = static_cast<uint32_t>(placed.stride[i]);
    plane.size = tiled(placed) ? shape.row_bytes : shape.rows * plane.stride;
  }
  layout.size = GST_VIDEO_INFO_SIZE(&placed);
  return layout;
}

bool adopt(GstVideoInfo& info, const wire::Slot& slot) {
  if (slot.n_planes != GST_VIDEO_INFO_N_PLANES(&info))
    return false;
  size_t end = 0;
  for (guint i = 0; i < slot.n_planes; ++i) {
    const wire::Plane& plane = slot.planes[i];
    const PlaneShape shape = plane_shape(info, i);
    if (plane.stride > G_MAXINT || plane.size < shape.row_bytes)
      return false;
    if (!tiled(info) && (plane.stride < shape.row_bytes ||
                         plane.size < (shape.rows - 1) * plane.stride + shape.row_bytes))
      return false;
    info.offset[i] = plane.offset;
    info.stride[i] = static_cast<gint>(plane.stride);
    end = std::max<size_t>(end, plane.offset + plane.size);
  }
  info.size = end;
  return true;
}

Planes planes_at(const GstVideoInfo& info, uintptr_t base, CUmemorytype type) {
  Planes planes;
  planes.type = type;
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); ++i) {
    planes.address[i] = base + info.offset[i];
    planes.stride[i] = static_cast<size_t>(info.stride[i]);
  }
  return planes;
}

void copy_rows(const GstVideoInfo& info, const Planes& from, const Planes& to) {
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); ++i) {
    const PlaneShape shape = plane_shape(info, i);
    // Unsigned addresses and strides wrap: that is how a negative stride goes back.
    for (size_t row = 0; row < shape.rows; ++row)
      memcpy(reinterpret_cast<void*>(to.address[i] + row * to.stride[i]),
             reinterpret_cast<const void*>(from.address[i] + row * from.stride[i]),
             shape.row_bytes);
  }
}

Result<void> copy_planes(const GstVideoInfo& info, const Planes& from, const Planes& to,
                         CUstream stream) {
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); ++i) {
    const PlaneShape shape = plane_shape(info, i);
    CUDA_MEMCPY2D copy{};
    copy.WidthInBytes = shape.row_bytes;
    copy.Height = shape.rows;
    copy.srcMemoryType = from.type;
    copy.srcHost = reinterpret_cast<const void*>(from.address[i]);
    copy.srcDevice = from.address[i];
    // One row: the stride of a tiled plane counts tiles, not bytes.
    copy.srcPitch = shape.rows > 1 ? from.stride[i] : shape.row_bytes;
    copy.dstMemoryType = to.type;
    copy.dstHost = reinterpret_cast<void*>(to.address[i]);
    copy.dstDevice = to.address[i];
    copy.dstPitch = shape.rows > 1 ? to.stride[i] : shape.row_bytes;
    TRY_CU(memcpy_2d_async, &copy, stream);
  }
  return {};
}

}  // namespace cudaipc
