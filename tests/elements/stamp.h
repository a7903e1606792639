// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the stamping source and the checking sink share: a context, a stream, the test kernels.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <memory>

#include "gst/context.h"
#include "gst/layout.h"

namespace cudaipc::test {

// Kernels of tests/kernels on a stream like those of GStreamer's CUDA elements: one that
// synchronises with the legacy default stream, and whose work is never waited for.
class Stamper {
 public:
  static Result<std::unique_ptr<Stamper>> create(ContextPtr context);
  ~Stamper();

  // Enqueues a wait, then the pattern of `seed` over every plane.
  Result<void> stamp(const GstVideoInfo& info, const Planes& planes, uint64_t seed,
                     uint64_t delay_us);
  // Enqueues a wait, then the comparison with the pattern of `seed`.
  Result<void> check(const GstVideoInfo& info, const Planes& planes, uint64_t seed,
                     uint64_t delay_us);
  // Waits, and tells how many 32-bit words were wrong so far.
  Result<uint64_t> mismatches();

 private:
  explicit Stamper(ContextPtr context) : context_(std::move(context)) {}
  Result<void> launch(CUfunction function, const GstVideoInfo& info, const Planes& planes,
                      uint64_t seed, uint64_t delay_us, bool count);

  ContextPtr context_;
  CUmodule module_ = nullptr;
  CUfunction delay_ = nullptr, stamp_ = nullptr, check_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr counter_ = 0;
};

}  // namespace cudaipc::test
