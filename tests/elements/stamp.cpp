// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Launching the test kernels.
#include "tests/elements/stamp.h"

extern "C" const unsigned char test_kernels_image[];

namespace cudaipc::test {

#define ENTER(context)                  \
  ScopedContext scoped_(*(context));    \
  if (scoped_.result() != CUDA_SUCCESS) \
  return cuda_error("ctx_push_current", scoped_.result())

Result<std::unique_ptr<Stamper>> Stamper::create(ContextPtr context) {
  std::unique_ptr<Stamper> s(new Stamper(std::move(context)));
  ENTER(s->context_);
  TRY_CU(module_load_data, &s->module_, test_kernels_image);
  TRY_CU(module_get_function, &s->delay_, s->module_, "delay_ns");
  TRY_CU(module_get_function, &s->stamp_, s->module_, "stamp");
  TRY_CU(module_get_function, &s->check_, s->module_, "check_stamp");
  TRY_CU(stream_create, &s->stream_, CU_STREAM_DEFAULT);
  TRY_CU(mem_alloc, &s->counter_, sizeof(uint64_t));
  TRY_CU(memset_d8_async, s->counter_, 0, sizeof(uint64_t), s->stream_);
  return s;
}

Stamper::~Stamper() {
  ScopedContext scoped(*context_);
  if (stream_) {
    cu().stream_synchronize(stream_);
    cu().stream_destroy(stream_);
  }
  if (counter_)
    cu().mem_free(counter_);
  if (module_)
    cu().module_unload(module_);
}

Result<void> Stamper::launch(CUfunction function, const GstVideoInfo& info, const Planes& planes,
                             uint64_t seed, uint64_t delay_us, bool count) {
  ENTER(context_);
  if (delay_us) {
    unsigned long long ns = delay_us * 1000;
    void* params[] = {&ns};
    TRY_CU(launch_kernel, delay_, 1, 1, 1, 1, 1, 1, 0, stream_, params, nullptr);
  }
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); ++i) {
    const PlaneShape shape = plane_shape(info, i);
    CUdeviceptr pointer = planes.address[i];
    unsigned pitch = static_cast<unsigned>(planes.stride[i]);
    unsigned words = static_cast<unsigned>(shape.row_bytes / 4);
    unsigned rows = static_cast<unsigned>(shape.rows);
    unsigned pattern = static_cast<unsigned>(seed * 4 + i);
    CUdeviceptr counter = counter_;
    void* params[] = {&pointer, &pitch, &words, &rows, &pattern, &counter};
    params[5] = count ? static_cast<void*>(&counter) : nullptr;
    if (words && rows)
      TRY_CU(launch_kernel, function, (words + 31) / 32, (rows + 7) / 8, 1, 32, 8, 1, 0, stream_,
             params, nullptr);
  }
  return {};
}

Result<void> Stamper::stamp(const GstVideoInfo& info, const Planes& planes, uint64_t seed,
                            uint64_t delay_us) {
  return launch(stamp_, info, planes, seed, delay_us, false);
}

Result<void> Stamper::check(const GstVideoInfo& info, const Planes& planes, uint64_t seed,
                            uint64_t delay_us) {
  return launch(check_, info, planes, seed, delay_us, true);
}

Result<uint64_t> Stamper::mismatches() {
  ENTER(context_);
  uint64_t value = 0;
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = sizeof(value);
  copy.Height = 1;
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = counter_;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = &value;
  TRY_CU(memcpy_2d_async, &copy, stream_);
  TRY_CU(stream_synchronize, stream_);
  return value;
}

}  // namespace cudaipc::test
