// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Creation, export, import and destruction of CUDA objects, each under its context.
#include "gst/cuda/resources.h"

#include <algorithm>
#include <cstdio>

namespace cudaipc {
namespace {

constexpr size_t kGranule = 2 * 1024 * 1024;

#define ENTER(context)                  \
  ScopedContext scoped_(*(context));    \
  if (scoped_.result() != CUDA_SUCCESS) \
  return cuda_error("ctx_push_current", scoped_.result())

CUmemAllocationProp vmm_properties(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

bool has_vmm() {
  const Driver& d = cu();
  return d.mem_create && d.mem_release && d.mem_address_reserve && d.mem_address_free &&
         d.mem_map && d.mem_unmap && d.mem_set_access && d.mem_export_to_shareable_handle &&
         d.mem_import_from_shareable_handle && d.mem_get_allocation_granularity;
}

Error no_vmm() {
  return {Fault::Unsupported, 0, "this CUDA driver has no virtual memory management (cuMemCreate)"};
}

// Reserves an address range and maps `memory` into it.
Result<CUdeviceptr> map(const Context& context, CUmemGenericAllocationHandle memory, size_t size,
                        CUmemAccess_flags access) {
  CUdeviceptr pointer = 0;
  TRY_CU(mem_address_reserve, &pointer, size, 0, 0, 0);
  if (const CUresult code = cu().mem_map(pointer, size, 0, memory, 0); code != CUDA_SUCCESS) {
    cu().mem_address_free(pointer, size);
    return cuda_error("mem_map", code);
  }
  CUmemAccessDesc description{};
  description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  description.location.id = context.device;
  description.flags = access;
  if (const CUresult code = cu().mem_set_access(pointer, size, &description, 1);
      code != CUDA_SUCCESS) {
    cu().mem_unmap(pointer, size);
    cu().mem_address_free(pointer, size);
    return cuda_error("mem_set_access", code);
  }
  return pointer;
}

void unmap(CUdeviceptr pointer, size_t size) {
  cu().mem_unmap(pointer, size);
  cu().mem_address_free(pointer, size);
}

}  // namespace

Result<DeviceInfo> device_info_of(CUdevice device) {
  DeviceInfo info;
  info.device = device;
  char name[128] = "";
  TRY_CU(device_get_name, name, sizeof(name), device);
  info.name = name;
  CUuuid uuid;
  TRY_CU(device_get_uuid, &uuid, device);
  std::copy_n(reinterpret_cast<const uint8_t*>(uuid.bytes), 16, info.uuid.begin());
  if (cu().device_get_gpu_uuid)
    TRY_CU(device_get_gpu_uuid, &uuid, device);
  std::copy_n(reinterpret_cast<const uint8_t*>(uuid.bytes), 16, info.gpu.begin());
  // An attribute that an old driver does not know is a capability it does not have.
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return cu().device_get_attribute(&value, which, device) == CUDA_SUCCESS && value != 0;
  };
  info.memory_operations = cu().stream_write_value_64 && cu().stream_wait_value_64 &&
                           attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  info.host_registration = cu().mem_host_register && cu().mem_host_unregister &&
                           cu().mem_host_get_device_pointer &&
                           attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  info.vmm =
      has_vmm() && attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  return info;
}

Result<DeviceInfo> device_info(int ordinal) {
  int count = 0;
  TRY_CU(device_get_count, &count);
  if (ordinal < 0 || ordinal >= count)
    return Error{Fault::Unsupported, 0,
                 "there is no CUDA device " + std::to_string(ordinal) + ": this process sees " +
                     std::to_string(count)};
  CUdevice device;
  TRY_CU(device_get, &device, ordinal);
  auto info = device_info_of(device);
  if (info)
    info->ordinal = ordinal;
  return info;
}

Result<DeviceInfo> find_device(const Uuid& uuid) {
  int count = 0;
  TRY_CU(device_get_count, &count);
  std::string seen;
  for (int i = 0; i < count; ++i) {
    auto info = device_info(i);
    if (!info)
      return info;
    if (info->uuid == uuid)
      return info;
    seen += (seen.empty() ? "" : ", ") + to_string(info->uuid);
  }
  return Error{Fault::Unsupported, 0,
               "the producer's device " + to_string(uuid) +
                   " is not visible here (visible: " + (seen.empty() ? "none" : seen) +
                   "): check CUDA_VISIBLE_DEVICES and the devices given to the container"};
}

std::string to_string(const Uuid& uuid) {
  char text[64];
  const auto& u = uuid;
  snprintf(text, sizeof(text),
           "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
           u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
           u[15]);
  return text;
}

Result<Allocation> Allocation::create(ContextPtr context, MemoryKind kind, size_t size) {
  Allocation a(std::move(context), kind);
  ENTER(a.context_);
  TRY(kind == MemoryKind::Vmm ? a.create_vmm(size) : a.create_legacy(size));
  // A peer must never see what this memory held before.
  TRY_CU(memset_d8_async, a.pointer_, 0, a.size_, CU_STREAM_PER_THREAD);
  TRY_CU(stream_synchronize, CU_STREAM_PER_THREAD);
  return a;
}

Result<void> Allocation::create_vmm(size_t size) {
  if (!has_vmm())
    return no_vmm();
  const CUmemAllocationProp properties = vmm_properties(context_->device);
  size_t granule = 0;
  TRY_CU(mem_get_allocation_granularity, &granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  granule = std::max(granule, kGranule);
  const size_t rounded = (size + granule - 1) / granule * granule;
  CUmemGenericAllocationHandle memory;
  TRY_CU(mem_create, &memory, rounded, &properties, 0);
  int fd = -1;
  Result<CUdeviceptr> mapped = 0;
  CUresult code =
      cu().mem_export_to_shareable_handle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (code == CUDA_SUCCESS) {
    descriptor_.reset(fd);
    mapped = map(*context_, memory, rounded, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  // The mapping keeps the memory (CUDA driver API, cuMemRelease).
  cu().mem_release(memory);
  if (code != CUDA_SUCCESS)
    return cuda_error("mem_export_to_shareable_handle", code);
  if (!mapped)
    return std::move(mapped.error());
  pointer_ = *mapped;
  size_ = rounded;
  return {};
}

Result<void> Allocation::create_legacy(size_t size) {
  if (!cu().ipc_get_mem_handle)
    return Error{Fault::Unsupported, 0, "this CUDA driver has no cuIpcGetMemHandle"};
  const size_t rounded = (size + kGranule - 1) / kGranule * kGranule;
  TRY_CU(mem_alloc, &pointer_, rounded);
  size_ = rounded;
  TRY_CU(ipc_get_mem_handle, &handle_, pointer_);
  return {};
}

Allocation::Allocation(Allocation&& other) noexcept
    : context_(std::move(other.context_)),
      kind_(other.kind_),
      pointer_(std::exchange(other.pointer_, 0)),
      size_(other.size_),
      descriptor_(std::move(other.descriptor_)),
      handle_(other.handle_) {}

Allocation::~Allocation() {
  if (!pointer_)
    return;
  ScopedContext scoped(*context_);
  if (kind_ == MemoryKind::Vmm) {
    // cuMemFree waits for work that uses the memory, cuMemUnmap does not. Only our own process's
    // work is in this context, so the wait has an end.
    cu().ctx_synchronize();
    unmap(pointer_, size_);
  } else {
    cu().mem_free(pointer_);
  }
}

Result<Mapping> Mapping::import_vmm(ContextPtr context, UniqueFd descriptor, size_t size) {
  if (!has_vmm())
    return no_vmm();
  ENTER(context);
  CUmemGenericAllocationHandle memory;
  TRY_CU(mem_import_from_shareable_handle, &memory,
         reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get())),
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  auto mapped = map(*context, memory, size, CU_MEM_ACCESS_FLAGS_PROT_READ);
  cu().mem_release(memory);
  if (!mapped)
    return std::move(mapped.error());
  return Mapping(std::move(context), MemoryKind::Vmm, *mapped, size);
}

Result<Mapping> Mapping::import_legacy(ContextPtr context, const CUipcMemHandle& handle,
                                       size_t size) {
  if (!cu().ipc_open_mem_handle || !cu().ipc_close_mem_handle)
    return Error{Fault::Unsupported, 0, "this CUDA driver has no cuIpcOpenMemHandle"};
  ENTER(context);
  CUdeviceptr pointer = 0;
  TRY_CU(ipc_open_mem_handle, &pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  Mapping mapping(context, MemoryKind::Legacy, pointer, size);
  // What the peer says of the size is not proof: ask the driver, so that no plane lies outside.
  size_t real = 0;
  TRY_CU(pointer_get_attribute, &real, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer);
  if (real < size)
    return Error{Fault::Protocol, 0,
                 "the peer's memory has " + std::to_string(real) + " bytes, not the " +
                     std::to_string(size) + " it announced"};
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : context_(std::move(other.context_)),
      kind_(other.kind_),
      pointer_(std::exchange(other.pointer_, 0)),
      size_(other.size_) {}

Mapping::~Mapping() {
  if (!pointer_)
    return;
  ScopedContext scoped(*context_);
  if (kind_ == MemoryKind::Vmm)
    unmap(pointer_, size_);
  else
    cu().ipc_close_mem_handle(pointer_);
}

Result<Event> Event::create(ContextPtr context, Use use) {
  ENTER(context);
  CUevent event;
  const unsigned flags = CU_EVENT_DISABLE_TIMING |
                         (use == Use::Interprocess ? CU_EVENT_INTERPROCESS : CU_EVENT_DEFAULT);
  TRY_CU(event_create, &event, flags);
  Event owner(context, event);
  if (use == Use::Interprocess) {
    if (!cu().ipc_get_event_handle)
      return Error{Fault::Unsupported, 0, "this CUDA driver has no cuIpcGetEventHandle"};
    TRY_CU(ipc_get_event_handle, &owner.handle_, event);
  }
  return owner;
}

Result<Event> Event::open(ContextPtr context, const CUipcEventHandle& handle) {
  if (!cu().ipc_open_event_handle)
    return Error{Fault::Unsupported, 0, "this CUDA driver has no cuIpcOpenEventHandle"};
  ENTER(context);
  CUevent event;
  TRY_CU(ipc_open_event_handle, &event, handle);
  return Event(std::move(context), event);
}

Event::Event(Event&& other) noexcept
    : context_(std::move(other.context_)),
      event_(std::exchange(other.event_, nullptr)),
      handle_(other.handle_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (!event_)
    return;
  ScopedContext scoped(*context_);
  cu().event_destroy(event_);
}

CUresult Event::record(CUstream stream) const {
  ScopedContext scoped(*context_);
  return scoped.result() ? scoped.result() : cu().event_record(event_, stream);
}

CUresult Event::query() const {
  ScopedContext scoped(*context_);
  return scoped.result() ? scoped.result() : cu().event_query(event_);
}

CUresult Event::synchronize() const {
  ScopedContext scoped(*context_);
  return scoped.result() ? scoped.result() : cu().event_synchronize(event_);
}

Result<Stream> Stream::create(ContextPtr context) {
  ENTER(context);
  CUstream stream;
  TRY_CU(stream_create, &stream, CU_STREAM_NON_BLOCKING);
  return Stream(std::move(context), stream);
}

Stream::Stream(Stream&& other) noexcept
    : context_(std::move(other.context_)), stream_(std::exchange(other.stream_, nullptr)) {}

Stream::~Stream() {
  if (!stream_)
    return;
  ScopedContext scoped(*context_);
  cu().stream_destroy(stream_);
}

Result<HostRegistration> HostRegistration::create(ContextPtr context, void* memory, size_t size) {
  if (!cu().mem_host_register || !cu().mem_host_unregister || !cu().mem_host_get_device_pointer)
    return Error{Fault::Unsupported, 0, "this CUDA driver has no cuMemHostRegister"};
  ENTER(context);
  TRY_CU(mem_host_register, memory, size,
         CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  HostRegistration registration(context, memory, 0);
  TRY_CU(mem_host_get_device_pointer, &registration.pointer_, memory, 0);
  return registration;
}

HostRegistration::HostRegistration(HostRegistration&& other) noexcept
    : context_(std::move(other.context_)),
      memory_(std::exchange(other.memory_, nullptr)),
      pointer_(other.pointer_) {}

HostRegistration::~HostRegistration() {
  if (!memory_)
    return;
  ScopedContext scoped(*context_);
  cu().mem_host_unregister(memory_);
}

Result<PinnedMemory> PinnedMemory::create(ContextPtr context, size_t size) {
  ENTER(context);
  void* memory = nullptr;
  TRY_CU(mem_host_alloc, &memory, size, CU_MEMHOSTALLOC_PORTABLE);
  return PinnedMemory(std::move(context), memory, size);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : context_(std::move(other.context_)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(other.size_) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (!memory_)
    return;
  ScopedContext scoped(*context_);
  cu().mem_free_host(memory_);
}

Result<void> probe_memory(ContextPtr context, MemoryKind kind) {
  auto allocation = Allocation::create(std::move(context), kind, 1);
  if (!allocation)
    return std::move(allocation.error());
  return {};
}

}  // namespace cudaipc
