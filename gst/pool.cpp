// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Slots as buffers.
#include "gst/pool.h"

#include <array>
#include <chrono>
#include <condition_variable>

#include "gst/frame_pool.h"
#include "gst/layout.h"
#include "gst/memory.h"

namespace cudaipc {
namespace {

using Generation = Exporter::Generation;

// The producing side's hold on a slot, as long as the buffer is out.
class SlotOwner : public MemoryOwner {
 public:
  SlotOwner(std::shared_ptr<Generation> generation_, SlotPtr slot_, const Exporter* exporter_)
      : generation(std::move(generation_)), slot(std::move(slot_)), exporter(exporter_) {}
  ~SlotOwner() override { let_go(); }
  void let_go() {
    if (held)
      generation->release(*slot);
    held = false;
  }

  const std::shared_ptr<Generation> generation;
  const SlotPtr slot;
  const Exporter* const exporter;  // identity only
  bool held = true;
};

struct PoolState {
  std::shared_ptr<Exporter> exporter;
  PoolError error;
  GstVideoInfo placed;  // written by set_config, while the pool is inactive
  Mutex mutex;
  std::condition_variable_any returned;
  std::shared_ptr<Generation> generation GUARDED_BY(mutex);
  // Buffers that are in the pool, by slot number.
  std::array<GstBuffer*, wire::kMaxSlots> idle GUARDED_BY(mutex){};
};

struct CudaIpcVideoPool {
  GstCudaBufferPool parent;
  PoolState* state;
};
struct CudaIpcVideoPoolClass {
  GstCudaBufferPoolClass parent_class;
};

GType cudaipc_pool_get_type();
G_DEFINE_TYPE(CudaIpcVideoPool, cudaipc_pool, GST_TYPE_CUDA_BUFFER_POOL)

PoolState& state_of(GstBufferPool* pool) {
  return *reinterpret_cast<CudaIpcVideoPool*>(pool)->state;
}

gboolean set_config(GstBufferPool* pool, GstStructure* config) {
  PoolState& state = state_of(pool);
  return configure_frame_pool(pool, config, state.exporter->config().max_slots, &state.placed);
}

// Slots are made when they are needed, not in advance: what a stream really uses is often far
// below the limit.
gboolean start(GstBufferPool* pool) {
  PoolState& state = state_of(pool);
  auto generation = state.exporter->new_generation(layout_of(state.placed));
  MutexLock lock(state.mutex);
  state.generation = std::move(generation);
  return TRUE;
}

gboolean stop(GstBufferPool* pool) {
  PoolState& state = state_of(pool);
  std::array<GstBuffer*, wire::kMaxSlots> idle{};
  std::shared_ptr<Generation> generation;
  {
    MutexLock lock(state.mutex);
    idle.swap(state.idle);
    generation = std::move(state.generation);
  }
  for (GstBuffer* buffer : idle) {
    if (buffer)
      gst_buffer_unref(buffer);
  }
  return TRUE;
}

GstBuffer* new_buffer(PoolState& state, std::shared_ptr<Generation> generation, SlotPtr slot) {
  const GstVideoInfo& info = state.placed;
  const CUdeviceptr pointer = slot->memory.pointer();
  auto owner =
      std::make_unique<SlotOwner>(std::move(generation), std::move(slot), state.exporter.get());
  GstBuffer* buffer = frame_buffer(
      wrap_memory(state.exporter->config().context, info, pointer, false, std::move(owner)), info);
  auto& flags = gst_buffer_get_video_meta(buffer)->meta.flags;
  flags = static_cast<GstMetaFlags>(flags | GST_META_FLAG_POOLED);
  return buffer;
}

SlotOwner* owner_of(GstBuffer* buffer) {
  return gst_buffer_n_memory(buffer) == 1
             ? dynamic_cast<SlotOwner*>(memory_owner(gst_buffer_peek_memory(buffer, 0)))
             : nullptr;
}

GstFlowReturn acquire_buffer(GstBufferPool* pool, GstBuffer** buffer,
                             GstBufferPoolAcquireParams* params) {
  PoolState& state = state_of(pool);
  for (;;) {
    if (GST_BUFFER_POOL_IS_FLUSHING(pool))
      return GST_FLOW_FLUSHING;
    std::shared_ptr<Generation> generation;
    {
      MutexLock lock(state.mutex);
      generation = state.generation;
    }
    if (!generation)
      return GST_FLOW_FLUSHING;
    auto slot = generation->acquire();
    if (!slot) {
      state.error(slot.error());
      return GST_FLOW_ERROR;
    }
    MutexLock lock(state.mutex);
    if (*slot) {
      GstBuffer*& idle = state.idle[(*slot)->id];
      if (idle && owner_of(idle)->slot != *slot) {
        // Of a slot whose place another one took.
        gst_buffer_unref(idle);
        idle = nullptr;
      }
      if (idle) {
        *buffer = std::exchange(idle, nullptr);
        owner_of(*buffer)->held = true;
      } else {
        *buffer = new_buffer(state, std::move(generation), std::move(*slot));
      }
      return GST_FLOW_OK;
    }
    if (params && (params->flags & GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT))
      return GST_FLOW_EOS;
    // Upstream has all that consumers leave it. It gives back by release_buffer(); what consumers
    // give back nobody announces, hence the limit.
    state.returned.wait_for(state.mutex, std::chrono::milliseconds(2));
  }
}

void release_buffer(GstBufferPool* pool, GstBuffer* buffer) {
  PoolState& state = state_of(pool);
  SlotOwner* owner = owner_of(buffer);
  // Somebody took the memory out, or still has it: then the slot is free when they let go.
  const bool whole = owner && gst_buffer_is_all_memory_writable(buffer) &&
                     !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
  GstBuffer* surplus = buffer;
  {
    MutexLock lock(state.mutex);
    if (whole && owner->generation == state.generation && !state.idle[owner->slot->id]) {
      state.idle[owner->slot->id] = buffer;
      surplus = nullptr;
      owner->let_go();
    }
  }
  if (surplus)
    gst_buffer_unref(surplus);
  state.returned.notify_one();
}

void flush_start(GstBufferPool* pool) {
  state_of(pool).returned.notify_all();
}

void finalize(GObject* object) {
  delete reinterpret_cast<CudaIpcVideoPool*>(object)->state;
  G_OBJECT_CLASS(cudaipc_pool_parent_class)->finalize(object);
}

void cudaipc_pool_class_init(CudaIpcVideoPoolClass* klass) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  auto* pool_class = GST_BUFFER_POOL_CLASS(klass);
  pool_class->get_options = frame_pool_options;
  pool_class->set_config = set_config;
  pool_class->start = start;
  pool_class->stop = stop;
  pool_class->acquire_buffer = acquire_buffer;
  pool_class->release_buffer = release_buffer;
  pool_class->flush_start = flush_start;
}

void cudaipc_pool_init(CudaIpcVideoPool* pool) {
  pool->state = new PoolState;
}

}  // namespace

GstBufferPool* new_pool(std::shared_ptr<Exporter> exporter, PoolError error) {
  auto* pool = static_cast<GstBufferPool*>(g_object_new(cudaipc_pool_get_type(), nullptr));
  gst_object_ref_sink(pool);
  PoolState& state = state_of(pool);
  GST_CUDA_BUFFER_POOL_CAST(pool)->context =
      GST_CUDA_CONTEXT(gst_object_ref(gst_context(exporter->config().context)));
  state.exporter = std::move(exporter);
  state.error = std::move(error);
  return pool;
}

SlotPtr slot_of(GstBuffer* buffer, const Exporter& exporter) {
  const SlotOwner* owner = owner_of(buffer);
  if (!owner || owner->exporter != &exporter)
    return {};
  gsize offset = 0;
  gst_memory_get_sizes(gst_buffer_peek_memory(buffer, 0), &offset, nullptr);
  if (offset != 0)
    return {};
  const Layout& layout = owner->slot->layout;
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  if (!meta || meta->n_planes != layout.n_planes)
    return {};
  for (guint i = 0; i < meta->n_planes; ++i) {
    if (meta->offset[i] != layout.planes[i].offset ||
        meta->stride[i] != static_cast<gint>(layout.planes[i].stride))
      return {};
  }
  return owner->slot;
}

}  // namespace cudaipc
