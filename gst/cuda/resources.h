// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// CUDA as C++ values: move-only owners that know their context.
//
// Every owner keeps the context alive and makes it current to create, use and destroy, so that
// each may be used and dropped on any thread. Destructors accept empty objects. Classes are
// reentrant: one object is used by one thread at a time unless it says otherwise.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gst/base/error.h"
#include "gst/base/unique_fd.h"
#include "gst/cuda/driver.h"

namespace cudaipc {

// A context somebody owns (GStreamer's GstCudaContext, a test): shared because frames, slots and
// elements end in any order. The deleter lets go of the owner.
struct Context {
  CUcontext handle = nullptr;
  CUdevice device = -1;
};
using ContextPtr = std::shared_ptr<const Context>;

// Makes a context current for a scope; contexts nest.
class ScopedContext {
 public:
  explicit ScopedContext(const Context& context) : result_(cu().ctx_push_current(context.handle)) {}
  ~ScopedContext() {
    CUcontext popped;
    if (result_ == CUDA_SUCCESS)
      cu().ctx_pop_current(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  CUresult result() const { return result_; }

 private:
  CUresult result_;
};

using Uuid = std::array<uint8_t, 16>;

struct DeviceInfo {
  CUdevice device = -1;
  int ordinal = -1;
  std::string name;
  Uuid uuid{};                     // of the MIG instance where there is one
  Uuid gpu{};                      // of the whole GPU
  bool memory_operations = false;  // 64-bit stream memory operations
  bool host_registration = false;
  bool vmm = false;  // says the attribute; only a try is proof
};

Result<DeviceInfo> device_info(int ordinal);
Result<DeviceInfo> device_info_of(CUdevice device);
// The device with this UUID whatever its ordinal here; the error lists the visible ones.
Result<DeviceInfo> find_device(const Uuid& uuid);
// "GPU-8-4-4-4-12", as nvidia-smi -L prints it.
std::string to_string(const Uuid& uuid);

enum class MemoryKind { Vmm, Legacy };

// Device memory that is ours alone: whole 2 MiB granules, zeroed when made, exportable
// (CUDA Programming Guide, "Interprocess Communication": neighbours in a granule leak).
class Allocation {
 public:
  // Rounds `size` up. The zeroing is complete on return.
  static Result<Allocation> create(ContextPtr context, MemoryKind kind, size_t size);
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&&) = delete;
  ~Allocation();

  CUdeviceptr pointer() const { return pointer_; }
  size_t size() const { return size_; }
  // Vmm: a descriptor for a peer to import; borrowed, lives as long as this.
  int descriptor() const { return descriptor_.get(); }
  // Legacy: the handle for a peer to open.
  const CUipcMemHandle& handle() const { return handle_; }
  const ContextPtr& context() const { return context_; }

 private:
  Allocation(ContextPtr context, MemoryKind kind) : context_(std::move(context)), kind_(kind) {}
  Result<void> create_vmm(size_t size);
  Result<void> create_legacy(size_t size);

  ContextPtr context_;
  MemoryKind kind_;
  CUdeviceptr pointer_ = 0;
  size_t size_ = 0;
  UniqueFd descriptor_;
  CUipcMemHandle handle_{};
};

// A peer's allocation, opened here. Vmm mappings are read-only, enforced by the GPU.
class Mapping {
 public:
  static Result<Mapping> import_vmm(ContextPtr context, UniqueFd descriptor, size_t size);
  static Result<Mapping> import_legacy(ContextPtr context, const CUipcMemHandle& handle,
                                       size_t size);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  CUdeviceptr pointer() const { return pointer_; }

 private:
  Mapping(ContextPtr context, MemoryKind kind, CUdeviceptr pointer, size_t size)
      : context_(std::move(context)), kind_(kind), pointer_(pointer), size_(size) {}

  ContextPtr context_;
  MemoryKind kind_;
  CUdeviceptr pointer_ = 0;
  size_t size_ = 0;
};

// An event without timing. Never let a stream wait for one of a peer: query it.
class Event {
 public:
  enum class Use { Local, Interprocess };
  static Result<Event> create(ContextPtr context, Use use);
  static Result<Event> open(ContextPtr context, const CUipcEventHandle& handle);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  CUevent get() const { return event_; }
  const CUipcEventHandle& handle() const { return handle_; }  // Interprocess, where created
  CUresult record(CUstream stream) const;
  CUresult query() const;  // CUDA_ERROR_NOT_READY: not done yet
  // Waits. For events of our own only: a peer's may never come.
  CUresult synchronize() const;

 private:
  Event(ContextPtr context, CUevent event) : context_(std::move(context)), event_(event) {}
  ContextPtr context_;
  CUevent event_ = nullptr;
  CUipcEventHandle handle_{};
};

// A stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  static Result<Stream> create(ContextPtr context);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  CUstream get() const { return stream_; }

 private:
  Stream(ContextPtr context, CUstream stream) : context_(std::move(context)), stream_(stream) {}
  ContextPtr context_;
  CUstream stream_ = nullptr;
};

// Host memory of somebody else made known to the device, so that streams can write and await it.
class HostRegistration {
 public:
  static Result<HostRegistration> create(ContextPtr context, void* memory, size_t size);
  HostRegistration(HostRegistration&& other) noexcept;
  HostRegistration& operator=(HostRegistration&&) = delete;
  ~HostRegistration();

  CUdeviceptr pointer() const { return pointer_; }

 private:
  HostRegistration(ContextPtr context, void* memory, CUdeviceptr pointer)
      : context_(std::move(context)), memory_(memory), pointer_(pointer) {}
  ContextPtr context_;
  void* memory_ = nullptr;
  CUdeviceptr pointer_ = 0;
};

// Page-locked host memory: copies from and to it are asynchronous.
class PinnedMemory {
 public:
  static Result<PinnedMemory> create(ContextPtr context, size_t size);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  size_t size() const { return size_; }

 private:
  PinnedMemory(ContextPtr context, void* memory, size_t size)
      : context_(std::move(context)), memory_(memory), size_(size) {}
  ContextPtr context_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

// Whether the device really exports memory this way: tried once per call, nothing is kept.
Result<void> probe_memory(ContextPtr context, MemoryKind kind);

}  // namespace cudaipc
