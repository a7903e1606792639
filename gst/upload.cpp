// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Staging of uploads.
#include "gst/upload.h"

namespace cudaipc {

Uploads::~Uploads() {
  for (const Buffer& buffer : flying_)
    buffer.done.synchronize();
}

void Uploads::collect() {
  while (!flying_.empty() && flying_.front().done.query() != CUDA_ERROR_NOT_READY) {
    free_.push_back(std::move(flying_.front()));
    flying_.pop_front();
  }
}

Result<Uploads::Buffer> Uploads::take(size_t size) {
  collect();
  if (free_.empty() && most_ && flying_.size() >= most_) {
    if (const CUresult code = flying_.front().done.synchronize(); code != CUDA_SUCCESS)
      return cuda_error("event_synchronize", code);
    collect();
  }
  while (!free_.empty()) {
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    // Of the caps before.
    if (buffer.memory.size() == size)
      return buffer;
  }
  auto memory = PinnedMemory::create(context_, size);
  if (!memory)
    return std::move(memory.error()).with("page-locked memory for an upload");
  auto done = Event::create(context_, Event::Use::Local);
  if (!done)
    return std::move(done.error());
  return Buffer{std::move(*memory), std::move(*done)};
}

Result<void> Uploads::enqueue(const GstVideoInfo& placed, const Planes& from, const Planes& to,
                              CUstream stream) {
  auto buffer = take(GST_VIDEO_INFO_SIZE(&placed));
  if (!buffer)
    return std::move(buffer.error());
  // Laid out like the device's, so that one copy per plane follows.
  const Planes staged =
      planes_at(placed, reinterpret_cast<uintptr_t>(buffer->memory.data()), CU_MEMORYTYPE_HOST);
  copy_rows(placed, from, staged);
  Result<void> copied = copy_planes(placed, staged, to, stream);
  // Even a copy that stopped half way may still be reading.
  const CUresult code = buffer->done.record(stream);
  flying_.push_back(std::move(*buffer));
  if (copied && code != CUDA_SUCCESS)
    return cuda_error("event_record", code);
  return copied;
}

}  // namespace cudaipc
