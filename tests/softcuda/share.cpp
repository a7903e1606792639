// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Memory between processes: legacy handles and virtual memory with descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "device.h"

namespace softcuda {
namespace {

constexpr size_t kGranule = 2 * 1024 * 1024;

struct MemHandle {
  char magic[8];
  uint64_t process;
  char name[32];  // of the file in the driver folder, 128 bits in hex
  uint64_t offset;
  uint64_t size;
};
static_assert(sizeof(MemHandle) == sizeof(CUipcMemHandle));

struct Vmm {
  BackingPtr backing;
  int references = 0;
  CUmemAllocationProp properties{};
};
std::mutex vmm_mutex;
std::map<CUmemGenericAllocationHandle, Vmm> handles;
std::map<uintptr_t, size_t> reservations;
CUmemGenericAllocationHandle next_handle = 0x1000;

CUmemGenericAllocationHandle add_handle(BackingPtr backing, const CUmemAllocationProp& properties) {
  std::lock_guard lock(vmm_mutex);
  const auto handle = next_handle++;
  handles[handle] = {std::move(backing), 1, properties};
  count_live(Kind::VmmHandle, 1);
  return handle;
}

}  // namespace
}  // namespace softcuda

using namespace softcuda;

// --- Legacy

SOFTCUDA_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  ENTER_CONTEXT(cuIpcGetMemHandle);
  if (disabled("ipc-memory"))
    return CUDA_ERROR_NOT_SUPPORTED;
  const RegionPtr region = find_region(address);
  if (!region || region->kind != RegionKind::Legacy)
    return CUDA_ERROR_INVALID_VALUE;
  MemHandle handle{};
  memcpy(handle.magic, "softmemo", 8);
  handle.process = process_id();
  const std::string& path = region->backing->path;
  memcpy(handle.name, path.data() + path.rfind('-') + 1, sizeof(handle.name));
  handle.offset = region->offset;
  handle.size = region->size;
  memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle bytes, unsigned) {
  ENTER_CONTEXT(cuIpcOpenMemHandle_v2);
  if (disabled("ipc-memory"))
    return CUDA_ERROR_NOT_SUPPORTED;
  MemHandle handle;
  memcpy(&handle, &bytes, sizeof(handle));
  const std::string name(handle.name, sizeof(handle.name));
  if (memcmp(handle.magic, "softmemo", 8) != 0 ||
      name.find_first_not_of("0123456789abcdef") != name.npos)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle.process == process_id())
    return CUDA_ERROR_INVALID_CONTEXT;
  const std::string id = name + "+" + std::to_string(handle.offset);
  {
    std::lock_guard lock(state().mutex);
    for (auto& [base, region] : state().regions) {
      if (region->kind == RegionKind::Ipc && region->id == id) {
        ++region->opens;
        count_live(Kind::IpcOpen, 1);
        *out = base;
        return CUDA_SUCCESS;
      }
    }
  }
  const int fd = open((driver_folder() + "/memory-" + name).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return CUDA_ERROR_INVALID_VALUE;
  struct stat st {};
  fstat(fd, &st);
  const size_t size = static_cast<size_t>(st.st_size) - race_table_bytes();
  auto region = std::make_shared<Region>();
  region->backing = make_backing(fd, size, false);
  if (!region->backing || handle.offset > size || handle.size > size - handle.offset)
    return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  region->kind = RegionKind::Ipc;
  region->map_base = reinterpret_cast<uintptr_t>(memory);
  region->mapped = size;
  region->offset = handle.offset;
  region->base = region->map_base + handle.offset;
  region->size = handle.size;
  region->opens = 1;
  region->id = id;
  count_live(Kind::IpcOpen, 1);
  *out = region->base;
  std::lock_guard lock(state().mutex);
  state().regions[region->base] = std::move(region);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  ENTER_CONTEXT(cuIpcCloseMemHandle);
  RegionPtr region = find_region(address);
  if (!region || region->kind != RegionKind::Ipc || region->base != address)
    return CUDA_ERROR_INVALID_VALUE;
  synchronise_context(context);
  count_live(Kind::IpcOpen, -1);
  {
    std::lock_guard lock(state().mutex);
    if (--region->opens)
      return CUDA_SUCCESS;
    state().regions.erase(address);
  }
  munmap(reinterpret_cast<void*>(region->map_base), region->mapped);
  return CUDA_SUCCESS;
}

// --- Virtual memory management

SOFTCUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                                       const CUmemAllocationProp*,
                                                       CUmemAllocationGranularity_flags) {
  ENTER(cuMemGetAllocationGranularity);
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size,
                                     const CUmemAllocationProp* properties, unsigned long long) {
  ENTER(cuMemCreate);
  if (disabled("vmm"))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!out || !properties || size == 0 || size % kGranule)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = memfd_create("softcuda-vmm", MFD_CLOEXEC);
  if (fd < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto backing = make_backing(fd, size, true);
  if (!backing)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle(std::move(backing), *properties);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(cuMemRelease);
  std::lock_guard lock(vmm_mutex);
  const auto found = handles.find(handle);
  if (found == handles.end())
    return CUDA_ERROR_INVALID_VALUE;
  count_live(Kind::VmmHandle, -1);
  if (--found->second.references == 0)
    handles.erase(found);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr,
                                             unsigned long long) {
  ENTER(cuMemAddressReserve);
  if (!out || size == 0 || size % kGranule)
    return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(memory);
  count_live(Kind::AddressRange, 1);
  std::lock_guard lock(vmm_mutex);
  reservations[*out] = size;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  ENTER(cuMemAddressFree);
  std::lock_guard lock(vmm_mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second != size)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), size);
  reservations.erase(found);
  count_live(Kind::AddressRange, -1);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long) {
  ENTER(cuMemMap);
  auto region = std::make_shared<Region>();
  {
    std::lock_guard lock(vmm_mutex);
    const auto found = handles.find(handle);
    const auto reserved = reservations.find(address);
    if (found == handles.end() || reserved == reservations.end() || size > reserved->second ||
        offset != 0 || size > found->second.backing->size)
      return CUDA_ERROR_INVALID_VALUE;
    region->backing = found->second.backing;
  }
  // No access until cuMemSetAccess.
  if (mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
           region->backing->fd, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  region->kind = RegionKind::Vmm;
  region->base = address;
  region->size = size;
  count_live(Kind::Mapping, 1);
  std::lock_guard lock(state().mutex);
  state().regions[address] = std::move(region);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  ENTER(cuMemUnmap);
  RegionPtr region = find_region(address);
  if (!region || region->kind != RegionKind::Vmm || region->base != address || region->size != size)
    return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard lock(state().mutex);
    state().regions.erase(address);
  }
  mmap(reinterpret_cast<void*>(address), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  count_live(Kind::Mapping, -1);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size,
                                        const CUmemAccessDesc* description, size_t count) {
  ENTER(cuMemSetAccess);
  const RegionPtr region = find_region(address);
  if (!region || region->kind != RegionKind::Vmm || count != 1)
    return CUDA_ERROR_INVALID_VALUE;
  const int protection = description->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                             ? PROT_READ | PROT_WRITE
                         : description->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                               : PROT_NONE;
  return mprotect(reinterpret_cast<void*>(address), size, protection) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_EXPORT CUresult cuMemExportToShareableHandle(void* out,
                                                      CUmemGenericAllocationHandle handle,
                                                      CUmemAllocationHandleType type,
                                                      unsigned long long) {
  ENTER(cuMemExportToShareableHandle);
  std::lock_guard lock(vmm_mutex);
  const auto found = handles.find(handle);
  if (found == handles.end() || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !(found->second.properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = fcntl(found->second.backing->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                                        void* os_handle,
                                                        CUmemAllocationHandleType type) {
  ENTER(cuMemImportFromShareableHandle);
  if (disabled("vmm"))
    return CUDA_ERROR_NOT_SUPPORTED;
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  struct stat st {};
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(given, &st) != 0 ||
      !S_ISREG(st.st_mode) || static_cast<size_t>(st.st_size) <= race_table_bytes())
    return CUDA_ERROR_INVALID_VALUE;
  const size_t size = static_cast<size_t>(st.st_size) - race_table_bytes();
  const int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto backing = make_backing(fd, size, false);
  if (!backing || size % kGranule)
    return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = add_handle(std::move(backing), properties);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out,
                                                     void* address) {
  ENTER(cuMemRetainAllocationHandle);
  const RegionPtr region = find_region(reinterpret_cast<uintptr_t>(address));
  if (!region || region->kind != RegionKind::Vmm)
    return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = add_handle(region->backing, properties);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  ENTER(cuMemGetAllocationPropertiesFromHandle);
  std::lock_guard lock(vmm_mutex);
  const auto found = handles.find(handle);
  if (found == handles.end())
    return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}
