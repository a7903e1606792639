// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Buffers that are not the sink's own, into its slots.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "gst/context.h"
#include "gst/share/slots.h"
#include "gst/upload.h"

namespace cudaipc {

// Enqueues copies on a stream of its own and never waits for the GPU. The streaming thread's; ends
// when its copies have ended.
class SlotCopier {
 public:
  static Result<std::unique_ptr<SlotCopier>> create(ContextPtr context);
  ~SlotCopier();
  SlotCopier(const SlotCopier&) = delete;
  SlotCopier& operator=(const SlotCopier&) = delete;

  // Frames of `info` in buffers, laid out as `placed` in slots.
  void set_info(const GstVideoInfo& info, const GstVideoInfo& placed) {
    info_ = info;
    placed_ = placed;
  }
  // Copies `buffer` into `slot`; CUDA memory on the GPU, behind what upstream has enqueued on it,
  // and is let go as soon as that is done; system memory through page-locked memory.
  Result<void> copy(GstBuffer* buffer, const Slot& slot);
  // Lets go of what finished copies kept. Call once a frame.
  void collect();

  static bool in_cuda_memory(GstBuffer* buffer);
  CUstream stream() const { return stream_.get(); }

 private:
  // A copy of CUDA memory that the GPU has not finished: keeps what it reads.
  struct Flying {
    GstBuffer* buffer;
    Event done;
  };
  SlotCopier(ContextPtr context, Stream stream)
      : context_(std::move(context)), stream_(std::move(stream)), uploads_(context_) {}
  Result<Event> take_event();
  Result<void> order_after_upstream(GstMemory* memory);

  const ContextPtr context_;
  const Stream stream_;
  GstVideoInfo info_, placed_;
  Uploads uploads_;
  std::deque<Flying> flying_;    // oldest first
  std::vector<Event> events_;    // free
  std::optional<Event> before_;  // in upstream's context: what it enqueued so far
  GstCudaContext* before_context_ = nullptr;
};

}  // namespace cudaipc
