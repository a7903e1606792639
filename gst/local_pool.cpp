// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Plain device memory as buffers; the waiting, limits and reuse are GstBufferPool's.
#include "gst/local_pool.h"

#include "gst/frame_pool.h"
#include "gst/memory.h"

namespace cudaipc {
namespace {

struct PoolState {
  ContextPtr context;
  GstVideoInfo placed;  // written by set_config, while the pool is inactive
};

struct CudaIpcLocalPool {
  GstCudaBufferPool parent;
  PoolState* state;
};
struct CudaIpcLocalPoolClass {
  GstCudaBufferPoolClass parent_class;
};

GType local_pool_get_type();
G_DEFINE_TYPE(CudaIpcLocalPool, local_pool, GST_TYPE_CUDA_BUFFER_POOL)

PoolState& state_of(GstBufferPool* pool) {
  return *reinterpret_cast<CudaIpcLocalPool*>(pool)->state;
}

class DeviceMemory : public MemoryOwner {
 public:
  DeviceMemory(ContextPtr context, CUdeviceptr pointer)
      : context_(std::move(context)), pointer_(pointer) {}
  ~DeviceMemory() override {
    ScopedContext scoped(*context_);
    cu().mem_free(pointer_);
  }

 private:
  const ContextPtr context_;
  const CUdeviceptr pointer_;
};

gboolean set_config(GstBufferPool* pool, GstStructure* config) {
  PoolState& state = state_of(pool);
  return configure_frame_pool(pool, config, 0, &state.placed);
}

GstFlowReturn alloc_buffer(GstBufferPool* pool, GstBuffer** out, GstBufferPoolAcquireParams*) {
  PoolState& state = state_of(pool);
  const GstVideoInfo& info = state.placed;
  CUdeviceptr pointer = 0;
  {
    ScopedContext scoped(*state.context);
    const CUresult code = cu().mem_alloc(&pointer, GST_VIDEO_INFO_SIZE(&info));
    if (code != CUDA_SUCCESS) {
      GST_ERROR_OBJECT(
          pool, "%s",
          cuda_error("mem_alloc", code, std::to_string(GST_VIDEO_INFO_SIZE(&info)) + " bytes")
              .message.c_str());
      return GST_FLOW_ERROR;
    }
  }
  *out = frame_buffer(wrap_memory(state.context, info, pointer, false,
                                  std::make_unique<DeviceMemory>(state.context, pointer)),
                      info);
  return GST_FLOW_OK;
}

void finalize(GObject* object) {
  delete reinterpret_cast<CudaIpcLocalPool*>(object)->state;
  G_OBJECT_CLASS(local_pool_parent_class)->finalize(object);
}

void local_pool_class_init(CudaIpcLocalPoolClass* klass) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  auto* pool_class = GST_BUFFER_POOL_CLASS(klass);
  auto* base = static_cast<GstBufferPoolClass*>(g_type_class_peek(GST_TYPE_BUFFER_POOL));
  pool_class->get_options = frame_pool_options;
  pool_class->set_config = set_config;
  pool_class->alloc_buffer = alloc_buffer;
  // What the parent does beyond the plain pool is for its own allocator.
  pool_class->start = base->start;
  pool_class->stop = base->stop;
  pool_class->free_buffer = base->free_buffer;
}

void local_pool_init(CudaIpcLocalPool* pool) {
  pool->state = new PoolState;
}

}  // namespace

GstBufferPool* new_local_pool(const ContextPtr& context) {
  auto* pool = static_cast<GstBufferPool*>(g_object_new(local_pool_get_type(), nullptr));
  gst_object_ref_sink(pool);
  GST_CUDA_BUFFER_POOL_CAST(pool)->context = GST_CUDA_CONTEXT(gst_object_ref(gst_context(context)));
  state_of(pool).context = context;
  return pool;
}

}  // namespace cudaipc
