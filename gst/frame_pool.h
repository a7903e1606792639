// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the sink's pool and the local one have in common.
#pragma once

#include <gst/video/video.h>

namespace cudaipc {

// GstBufferPoolClass::get_options: video meta.
const gchar** frame_pool_options(GstBufferPool* pool);

// GstBufferPoolClass::set_config: puts into `placed` how frames of the configured caps lie in GPU
// memory, and into `config` their size; `most` buffers at most, 0: as many as asked for. Does not
// call GstCudaBufferPool's own, which would allocate a frame just to see its size.
gboolean configure_frame_pool(GstBufferPool* pool, GstStructure* config, guint most,
                              GstVideoInfo* placed);

// A buffer of `memory` that says how it lies.
GstBuffer* frame_buffer(GstMemory* memory, GstVideoInfo placed);

}  // namespace cudaipc
