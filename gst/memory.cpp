// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Wrapping device memory, before and after GStreamer 1.24.
#include "gst/memory.h"

#include <new>

#include "gst/base/thread.h"
#include "gst/layout.h"

namespace cudaipc {

#if GST_CHECK_VERSION(1, 24, 0)

MemoryOwner* memory_owner(GstMemory* memory) {
  static GQuark quark = g_quark_from_static_string("cudaipc-owner");
  return gst_is_cuda_memory(memory) ? static_cast<MemoryOwner*>(gst_mini_object_get_qdata(
                                          GST_MINI_OBJECT_CAST(memory), quark))
                                    : nullptr;
}

CUstream stream_of(GstMemory* memory) {
  GstCudaStream* stream = gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory));
  return stream ? gst_cuda_stream_get_handle(stream) : CU_STREAM_LEGACY;
}

GstMemory* wrap_memory(const ContextPtr& context, const GstVideoInfo& placed, CUdeviceptr pointer,
                       bool read_only, std::unique_ptr<MemoryOwner> owner) {
  MemoryOwner* const raw = owner.release();
  GstMemory* memory = gst_cuda_allocator_alloc_wrapped(
      nullptr, gst_context(context), nullptr, &placed, pointer, raw,
      [](gpointer data) { delete static_cast<MemoryOwner*>(data); });
  static GQuark quark = g_quark_from_static_string("cudaipc-owner");
  gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), quark, raw, nullptr);
  if (read_only)
    GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_READONLY);
  return memory;
}

#else

namespace {

// Device memory of this process alone: what a copy of a frame lives in.
class LocalOwner : public MemoryOwner {
 public:
  LocalOwner(ContextPtr context, CUdeviceptr pointer)
      : context_(std::move(context)), pointer_(pointer) {}
  ~LocalOwner() override {
    ScopedContext scoped(*context_);
    cu().mem_free(pointer_);
  }

 private:
  const ContextPtr context_;
  const CUdeviceptr pointer_;
};

// The C++ part of a wrapped memory.
struct Body {
  ContextPtr context;
  CUdeviceptr pointer = 0;
  std::unique_ptr<MemoryOwner> owner;
  Mutex mutex;
  // Host copy, made when somebody maps without GST_MAP_CUDA.
  std::optional<PinnedMemory> staging GUARDED_BY(mutex);
};

struct WrappedMemory {
  GstCudaMemory parent;
  Body* body;
};

struct CudaIpcVideoAllocator {
  GstCudaAllocator parent;
};
struct CudaIpcVideoAllocatorClass {
  GstCudaAllocatorClass parent_class;
};

GType cudaipc_allocator_get_type();
G_DEFINE_TYPE(CudaIpcVideoAllocator, cudaipc_allocator, GST_TYPE_CUDA_ALLOCATOR)

Body& body_of(GstMemory* memory) {
  return *reinterpret_cast<WrappedMemory*>(memory)->body;
}

// Between the host copy and the device, all bytes of all planes, and waits for it: a CPU wants to
// read or has written.
bool transfer(GstMemory* memory, Body& body, bool to_device) REQUIRES(body.mutex) {
  ScopedContext scoped(*body.context);
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = memory->maxsize;
  copy.Height = 1;
  copy.srcPitch = copy.dstPitch = memory->maxsize;
  copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcHost = copy.dstHost = body.staging->data();
  copy.srcDevice = copy.dstDevice = body.pointer;
  CUresult code = scoped.result();
  if (code == CUDA_SUCCESS)
    code = cu().memcpy_2d_async(&copy, CU_STREAM_LEGACY);
  if (code == CUDA_SUCCESS)
    code = cu().stream_synchronize(CU_STREAM_LEGACY);
  if (code != CUDA_SUCCESS)
    GST_WARNING("mapping CUDA memory: %s",
                cuda_error(to_device ? "upload" : "download", code).message.c_str());
  return code == CUDA_SUCCESS;
}

gpointer map(GstMemory* memory, gsize, GstMapFlags flags) {
  Body& body = body_of(memory);
  MutexLock lock(body.mutex);
  if ((flags & GST_MAP_CUDA) == GST_MAP_CUDA) {
    if (GST_MEMORY_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_UPLOAD)) {
      if (!transfer(memory, body, true))
        return nullptr;
      GST_MEMORY_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_UPLOAD);
    }
    if (flags & GST_MAP_WRITE)
      GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_DOWNLOAD);
    return reinterpret_cast<gpointer>(body.pointer);
  }
  bool fresh = false;
  if (!body.staging) {
    auto staging = PinnedMemory::create(body.context, memory->maxsize);
    if (!staging) {
      GST_WARNING("mapping CUDA memory: %s", staging.error().message.c_str());
      return nullptr;
    }
    body.staging.emplace(std::move(*staging));
    fresh = true;
  }
  if (fresh || GST_MEMORY_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_DOWNLOAD)) {
    if (!transfer(memory, body, false))
      return nullptr;
    GST_MEMORY_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_DOWNLOAD);
  }
  if (flags & GST_MAP_WRITE)
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_UPLOAD);
  return body.staging->data();
}

void unmap(GstMemory*, GstMapInfo*) {}  // map() noted what was written

// Ours in any format, where gst_cuda_allocator_alloc() of 1.22 knows only some.
GstMemory* copy(GstMemory* memory, gssize, gssize) {
  GstMapInfo map_info;
  if (!gst_memory_map(memory, &map_info, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)))
    return nullptr;
  Body& body = body_of(memory);
  const GstVideoInfo& info = GST_CUDA_MEMORY_CAST(memory)->info;
  CUdeviceptr pointer = 0;
  CUresult code = CUDA_SUCCESS;
  {
    ScopedContext scoped(*body.context);
    code = cu().mem_alloc(&pointer, memory->maxsize);
    if (code == CUDA_SUCCESS) {
      CUDA_MEMCPY2D whole{};
      whole.WidthInBytes = whole.srcPitch = whole.dstPitch = memory->maxsize;
      whole.Height = 1;
      whole.srcMemoryType = whole.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      whole.srcDevice = body.pointer;
      whole.dstDevice = pointer;
      code = cu().memcpy_2d_async(&whole, CU_STREAM_LEGACY);
      if (code != CUDA_SUCCESS)
        cu().mem_free(pointer);
    }
  }
  gst_memory_unmap(memory, &map_info);
  if (code != CUDA_SUCCESS) {
    GST_WARNING("copying CUDA memory: %s", cuda_error("copy", code).message.c_str());
    return nullptr;
  }
  return wrap_memory(body.context, info, pointer, false,
                     std::make_unique<LocalOwner>(body.context, pointer));
}

void free_memory(GstAllocator*, GstMemory* memory) {
  auto* wrapped = reinterpret_cast<WrappedMemory*>(memory);
  delete wrapped->body;
  gst_object_unref(wrapped->parent.context);
  g_free(wrapped);
}

void cudaipc_allocator_class_init(CudaIpcVideoAllocatorClass* klass) {
  GST_ALLOCATOR_CLASS(klass)->free = free_memory;
}

void cudaipc_allocator_init(CudaIpcVideoAllocator* self) {
  GstAllocator* allocator = GST_ALLOCATOR_CAST(self);
  allocator->mem_map = map;
  // The parent's variant takes precedence over mem_unmap, and expects its own private part.
  allocator->mem_unmap_full = unmap;
  allocator->mem_copy = copy;
}

GstAllocator* the_allocator() {
  static GstAllocator* const allocator = [] {
    auto* a = static_cast<GstAllocator*>(
        g_object_new(cudaipc_allocator_get_type(), "name", "cudaipc", nullptr));
    GST_OBJECT_FLAG_SET(a, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    return GST_ALLOCATOR_CAST(gst_object_ref_sink(a));
  }();
  return allocator;
}

}  // namespace

MemoryOwner* memory_owner(GstMemory* memory) {
  return memory && memory->allocator && memory->allocator == the_allocator()
             ? body_of(memory).owner.get()
             : nullptr;
}

CUstream stream_of(GstMemory*) {
  return CU_STREAM_LEGACY;
}

GstMemory* wrap_memory(const ContextPtr& context, const GstVideoInfo& placed, CUdeviceptr pointer,
                       bool read_only, std::unique_ptr<MemoryOwner> owner) {
  auto* wrapped = g_new0(WrappedMemory, 1);
  wrapped->body = new Body{context, pointer, std::move(owner), {}, {}};
  wrapped->parent.context = GST_CUDA_CONTEXT(gst_object_ref(gst_context(context)));
  wrapped->parent.info = placed;
  const gsize size = GST_VIDEO_INFO_SIZE(&placed);
  // No sharing of parts: a part would outlive the release of the whole.
  const guint flags = GST_MEMORY_FLAG_NO_SHARE | (read_only ? GST_MEMORY_FLAG_READONLY : 0);
  gst_memory_init(GST_MEMORY_CAST(wrapped), static_cast<GstMemoryFlags>(flags), the_allocator(),
                  nullptr, size, 0, 0, size);
  return GST_MEMORY_CAST(wrapped);
}

#endif

}  // namespace cudaipc
