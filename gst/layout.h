// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// How frames of any raw video format lie in GPU memory, and copies between such layouts.
#pragma once

#include <gst/video/video.h>

#include "gst/cuda/resources.h"
#include "gst/share/slots.h"

namespace cudaipc {

// Bytes that carry picture in one plane; what lies between `row_bytes` and the stride is padding.
// Tiled formats count as one row of the whole plane, whose inside is left as it is.
struct PlaneShape {
  size_t row_bytes = 0;
  size_t rows = 0;
};
PlaneShape plane_shape(const GstVideoInfo& info, guint plane);

// Sets strides and offsets of `info` for GPU memory, and its size: one row pitch for all planes, a
// multiple of 256 bytes, planes one behind the other (what NVENC and GStreamer's CUDA elements
// expect). Tiled formats keep GStreamer's own layout.
void place(GstVideoInfo& info);
// The same as the wire and the slots know it.
Layout layout_of(const GstVideoInfo& placed);
// Whether the planes that a peer announced can hold frames of `info`; if so, sets its strides and
// offsets to them.
bool adopt(GstVideoInfo& info, const wire::Slot& slot);

// Where the planes of one picture are: device or host addresses.
struct Planes {
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  uintptr_t address[GST_VIDEO_MAX_PLANES] = {};
  size_t stride[GST_VIDEO_MAX_PLANES] = {};
};
// Planes at `base`, laid out as `info` says.
Planes planes_at(const GstVideoInfo& info, uintptr_t base, CUmemorytype type);
// Copies every plane's picture between host memories, by the CPU. Strides may be negative.
void copy_rows(const GstVideoInfo& info, const Planes& from, const Planes& to);
// Enqueues the copy of every plane's picture; the context must be current.
Result<void> copy_planes(const GstVideoInfo& info, const Planes& from, const Planes& to,
                         CUstream stream);

}  // namespace cudaipc
