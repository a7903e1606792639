// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Copies into slots: order behind upstream, and what they keep alive.
#include "gst/slot_copier.h"

#include <gst/cuda/gstcudamemory.h>

#include "gst/memory.h"

namespace cudaipc {
namespace {

Planes planes_of(const GstVideoFrame& frame, CUmemorytype type) {
  Planes planes;
  planes.type = type;
  for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(&frame); ++i) {
    planes.address[i] = reinterpret_cast<uintptr_t>(GST_VIDEO_FRAME_PLANE_DATA(&frame, i));
    planes.stride[i] = static_cast<size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, i));
  }
  return planes;
}

}  // namespace

Result<std::unique_ptr<SlotCopier>> SlotCopier::create(ContextPtr context) {
  auto stream = Stream::create(context);
  if (!stream)
    return std::move(stream.error());
  return std::unique_ptr<SlotCopier>(new SlotCopier(std::move(context), std::move(*stream)));
}

SlotCopier::~SlotCopier() {
  for (Flying& copy : flying_) {
    copy.done.synchronize();
    gst_clear_buffer(&copy.buffer);
  }
  gst_clear_object(&before_context_);
}

void SlotCopier::collect() {
  while (!flying_.empty() && flying_.front().done.query() != CUDA_ERROR_NOT_READY) {
    Flying& oldest = flying_.front();
    gst_clear_buffer(&oldest.buffer);
    events_.push_back(std::move(oldest.done));
    flying_.pop_front();
  }
}

Result<Event> SlotCopier::take_event() {
  if (events_.empty())
    return Event::create(context_, Event::Use::Local);
  Event event = std::move(events_.back());
  events_.pop_back();
  return event;
}

// Makes the copy stream wait, on the GPU, for what upstream has enqueued on this memory.
Result<void> SlotCopier::order_after_upstream(GstMemory* memory) {
  GstCudaContext* owner = GST_CUDA_MEMORY_CAST(memory)->context;
  if (before_context_ != owner) {
    auto theirs = wrap_context(owner);
    if (!theirs)
      return std::move(theirs.error());
    if ((*theirs)->device != context_->device)
      return Error{Fault::Unsupported, 0,
                   "the buffer is on CUDA device " + std::to_string((*theirs)->device) +
                       ", the sink on " + std::to_string(context_->device) +
                       ": set cuda-device-id alike"};
    auto event = Event::create(*theirs, Event::Use::Local);
    if (!event)
      return std::move(event.error());
    before_.emplace(std::move(*event));
    gst_object_replace(reinterpret_cast<GstObject**>(&before_context_), GST_OBJECT_CAST(owner));
  }
  if (const CUresult code = before_->record(stream_of(memory)); code != CUDA_SUCCESS)
    return cuda_error("event_record", code);
  ScopedContext scoped(*context_);
  TRY_CU(stream_wait_event, stream_.get(), before_->get(), 0);
  return {};
}

bool SlotCopier::in_cuda_memory(GstBuffer* buffer) {
  return gst_buffer_n_memory(buffer) == 1 && gst_is_cuda_memory(gst_buffer_peek_memory(buffer, 0));
}

Result<void> SlotCopier::copy(GstBuffer* buffer, const Slot& slot) {
  const bool cuda = in_cuda_memory(buffer);
  GstVideoFrame frame;
  const auto flags = static_cast<GstMapFlags>(GST_MAP_READ | (cuda ? GST_MAP_CUDA : 0));
  if (!gst_video_frame_map(&frame, &info_, buffer, flags))
    return Error{Fault::System, 0, "the buffer could not be mapped"};
  const std::unique_ptr<GstVideoFrame, void (*)(GstVideoFrame*)> unmap(&frame,
                                                                       gst_video_frame_unmap);
  const Planes from = planes_of(frame, cuda ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
  const Planes to = planes_at(placed_, slot.memory.pointer(), CU_MEMORYTYPE_DEVICE);
  const CUstream stream = stream_.get();
  const auto in_slot = [&slot](Result<void> result) -> Result<void> {
    if (result)
      return result;
    return std::move(result.error()).with("slot " + std::to_string(slot.id));
  };
  if (!cuda) {
    ScopedContext scoped(*context_);
    return in_slot(uploads_.enqueue(placed_, from, to, stream));
  }
  auto done = take_event();
  if (!done)
    return std::move(done.error());
  TRY(order_after_upstream(gst_buffer_peek_memory(buffer, 0)));
  Result<void> copied;
  {
    ScopedContext scoped(*context_);
    copied = copy_planes(placed_, from, to, stream);
  }
  // Even a copy that stopped half way may still be reading.
  const CUresult code = done->record(stream);
  flying_.push_back({gst_buffer_ref(buffer), std::move(*done)});
  if (copied && code != CUDA_SUCCESS)
    return cuda_error("event_record", code);
  return in_slot(std::move(copied));
}

}  // namespace cudaipc
