// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Device memory of ours as GstCudaMemory. The one file pair that knows how GStreamer 1.22 and 1.24
// differ: 1.22 lets a subclass of its allocator do everything; 1.24 and newer have wrapped memory
// with a stream, and touch the private part from outside the allocator.
#pragma once

#include <gst/cuda/gstcudamemory.h>

#include <memory>

#include "gst/context.h"

namespace cudaipc {

// What stands behind a wrapped memory. Ends with the memory's last reference, on any thread.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  MemoryOwner() = default;
  MemoryOwner(const MemoryOwner&) = delete;
  MemoryOwner& operator=(const MemoryOwner&) = delete;
};

// A memory for which gst_is_cuda_memory() holds. `placed` says format, strides and offsets from
// `pointer`. Its content must be complete. Read-only memory cannot be mapped for writing, so that
// in-place elements copy first.
GstMemory* wrap_memory(const ContextPtr& context, const GstVideoInfo& placed, CUdeviceptr pointer,
                       bool read_only, std::unique_ptr<MemoryOwner> owner);
// The owner given to wrap_memory(); null for any other memory.
MemoryOwner* memory_owner(GstMemory* memory);

// The stream on which GStreamer's elements work with this memory: a copy, event or value enqueued
// there comes behind what they enqueued. 1.22: the legacy default stream, which waits for all the
// blocking streams that its elements create.
CUstream stream_of(GstMemory* memory);

}  // namespace cudaipc
