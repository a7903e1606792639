// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Frames in system memory on their way to the GPU.
#pragma once

#include <deque>
#include <vector>

#include "gst/layout.h"

namespace cudaipc {

// Page-locked buffers, used again when the GPU has read them. One thread at a time. Ends when the
// GPU has read everything.
class Uploads {
 public:
  // With `most` buffers in flight enqueue() waits for the oldest; 0: it never waits, and there are
  // as many as the GPU is behind.
  explicit Uploads(ContextPtr context, size_t most = 0)
      : context_(std::move(context)), most_(most) {}
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Copies a frame of `placed` from host planes, any strides, to device planes with positive ones.
  // The host planes have been read on return. The context must be current.
  Result<void> enqueue(const GstVideoInfo& placed, const Planes& from, const Planes& to,
                       CUstream stream);

 private:
  struct Buffer {
    PinnedMemory memory;
    Event done;
  };
  Result<Buffer> take(size_t size);
  void collect();

  const ContextPtr context_;
  const size_t most_;
  std::deque<Buffer> flying_;  // oldest first
  std::vector<Buffer> free_;
};

}  // namespace cudaipc
