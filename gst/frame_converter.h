// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Buffers to kernels::Converter: mapping and checking them, staging system memory, ordering
// streams. What cudacolorconvert does with a frame; how it negotiates is in convert.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "gst/colorimetry.h"
#include "gst/upload.h"

namespace cudaipc {

struct ConvertCounters {
  std::atomic<uint64_t> frames{0};      // converted or copied; not those passed through
  std::atomic<uint64_t> any_layout{0};  // by the kernel for any layout, not a vector kernel
  std::atomic<uint64_t> copied{0};      // the pictures were the same: only the memory changed
  std::atomic<uint64_t> uploaded{0};    // from system memory
  std::atomic<uint64_t> downloaded{0};  // to system memory
};

// In one context. The streaming thread's; ends when its GPU work has ended.
class FrameConverter {
 public:
  static Result<std::unique_ptr<FrameConverter>> create(ContextPtr context);
  ~FrameConverter();
  FrameConverter(const FrameConverter&) = delete;
  FrameConverter& operator=(const FrameConverter&) = delete;

  // What the frames are from now on.
  Result<void> set_pictures(const VideoPicture& from, const VideoPicture& to);
  bool ready() const { return converter_.has_value(); }
  const ContextPtr& context() const { return context_; }

  // Converts what `in` shows into `out`. In GPU memory on both sides: enqueues one kernel,
  // allocates nothing, waits for nothing. Where `out` is system memory, it is complete on return.
  // Buffers whose planes are not inside their memory, or that are not what the pictures say, are
  // errors.
  Result<void> convert(GstBuffer* in, GstBuffer* out, ConvertCounters& counters);

 private:
  class Mapped;
  struct Crop {
    int x = 0, y = 0;
  };

  FrameConverter(ContextPtr context, std::shared_ptr<const kernels::Module> module, Stream stream,
                 Event before, Event after, Event used);
  Result<Crop> crop_of(GstBuffer* buffer, const Mapped& in) const;
  Result<void> process(const Mapped& in, Crop crop, const Mapped& out, ConvertCounters& counters);
  Result<void> move(const Mapped& in, const Mapped& out, CUstream stream);
  Result<void> download(const Planes& from, const Mapped& out, CUstream stream);
  Result<void> run_kernel(const Mapped& in, Crop crop, const Mapped& out, CUstream stream,
                          ConvertCounters& counters);
  void fit(const Mapped& in);
  void drop_staging();

  const ContextPtr context_;
  const std::shared_ptr<const kernels::Module> module_;
  std::optional<kernels::Converter> converter_;
  VideoPicture from_, to_;
  bool same_ = false;  // only the memory differs

  // System memory on either side passes through these; made when first needed.
  GstVideoInfo device_from_, device_to_;  // how it lies there
  CUdeviceptr staged_from_ = 0, staged_to_ = 0;
  std::optional<Uploads> uploads_;
  std::optional<PinnedMemory> download_;

  const Stream stream_;         // between two system memories
  const Event before_, after_;  // order between the streams of input and output
  const Event used_;            // the kernel has read staged_from_
  bool staged_once_ = false;    // `used_` has been recorded
};

}  // namespace cudaipc
