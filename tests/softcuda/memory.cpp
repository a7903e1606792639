// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Device and host memory, copies, fills, pointer questions.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device.h"
#include "softcuda.h"

namespace softcuda {
namespace {

constexpr size_t kBlock = 2 * 1024 * 1024;
constexpr size_t kSmall = 1024 * 1024;  // below: neighbours share a block
constexpr size_t kAlign = 512;

std::atomic<uint64_t> in_use{0};

}  // namespace

// 2 MiB that small allocations share: what CUDA's allocator does, and why neighbours leak.
struct Block {
  ~Block() { munmap(reinterpret_cast<void*>(base), kBlock); }
  BackingPtr backing;
  uintptr_t base = 0;
  size_t used = 0;
};

Backing::~Backing() {
  unmap_race_table(table);
  if (!path.empty())
    unlink(path.c_str());
  if (fd >= 0)
    close(fd);
}

BackingPtr make_backing(int fd, size_t size, bool create) {
  auto backing = std::make_shared<Backing>();
  backing->fd = fd;
  backing->size = size;
  if (create && ftruncate(fd, static_cast<off_t>(size + race_table_bytes())) != 0)
    return nullptr;
  backing->table = map_race_table(fd, size);
  return backing->table ? backing : nullptr;
}

RegionPtr find_region(uintptr_t address) {
  std::lock_guard lock(state().mutex);
  auto it = state().regions.upper_bound(address);
  if (it == state().regions.begin())
    return nullptr;
  --it;
  return address < it->second->base + it->second->size ? it->second : nullptr;
}

void add_access(std::vector<Access>& accesses, uintptr_t address, size_t size, bool write) {
  const RegionPtr region = find_region(address);
  if (!region || !region->backing || size == 0)
    return;
  const size_t begin = region->offset + (address - region->base);
  const size_t end = std::min(begin + size, region->offset + region->size);
  accesses.push_back({region->backing, begin, end, write});
}

namespace {

BackingPtr legacy_backing(size_t size) {
  const std::string path = driver_folder() + "/memory-" + random_name();
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return nullptr;
  fchmod(fd, 0666);  // the driver does not ask who is who
  auto backing = make_backing(fd, size, true);
  if (backing)
    backing->path = path;
  else
    unlink(path.c_str());
  return backing;
}

CUresult allocate(CUdeviceptr* out, size_t size, RegionKind kind) {
  static std::shared_ptr<Block> open_block;
  static std::mutex block_mutex;
  if (!out || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t limit = static_cast<uint64_t>(env_number("SOFTCUDA_MEMORY_MB", 16384)) << 20;
  if (in_use.load() + size > limit)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto region = std::make_shared<Region>();
  region->kind = kind;
  region->size = size;
  region->context = current_context();
  if (size < kSmall && kind == RegionKind::Legacy) {
    std::lock_guard lock(block_mutex);
    const size_t rounded = (size + kAlign - 1) / kAlign * kAlign;
    if (!open_block || open_block->used + rounded > kBlock || open_block.use_count() == 1) {
      auto block = std::make_shared<Block>();
      block->backing = legacy_backing(kBlock);
      if (!block->backing)
        return CUDA_ERROR_OUT_OF_MEMORY;
      void* memory =
          mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, block->backing->fd, 0);
      if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
      block->base = reinterpret_cast<uintptr_t>(memory);
      open_block = std::move(block);
    }
    region->block = open_block;
    region->backing = open_block->backing;
    region->offset = open_block->used;
    region->base = open_block->base + open_block->used;
    open_block->used += rounded;
  } else {
    const size_t whole = (size + kBlock - 1) / kBlock * kBlock;
    region->backing = legacy_backing(whole);
    if (!region->backing)
      return CUDA_ERROR_OUT_OF_MEMORY;
    void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, region->backing->fd, 0);
    if (memory == MAP_FAILED)
      return CUDA_ERROR_OUT_OF_MEMORY;
    region->base = region->map_base = reinterpret_cast<uintptr_t>(memory);
    region->mapped = whole;
  }
  in_use += size;
  count_live(Kind::Memory, 1);
  *out = region->base;
  std::lock_guard lock(state().mutex);
  state().regions[region->base] = std::move(region);
  return CUDA_SUCCESS;
}

CUresult free_memory(Context* context, CUdeviceptr address) {
  if (address == 0)
    return CUDA_SUCCESS;
  RegionPtr region = find_region(address);
  if (!region || region->base != address ||
      (region->kind != RegionKind::Legacy && region->kind != RegionKind::Managed &&
       region->kind != RegionKind::Pool))
    return CUDA_ERROR_INVALID_VALUE;
  synchronise_context(context);
  {
    std::lock_guard lock(state().mutex);
    state().regions.erase(address);
  }
  in_use -= region->size;
  count_live(Kind::Memory, -1);
  if (region->mapped)
    munmap(reinterpret_cast<void*>(region->map_base), region->mapped);
  return CUDA_SUCCESS;
}

CUresult allocate_host(void** out, size_t size) {
  if (!out || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto region = std::make_shared<Region>();
  region->base = region->map_base = reinterpret_cast<uintptr_t>(memory);
  region->size = region->mapped = size;
  region->kind = RegionKind::Host;
  count_live(Kind::HostMemory, 1);
  *out = memory;
  std::lock_guard lock(state().mutex);
  state().regions[region->base] = std::move(region);
  return CUDA_SUCCESS;
}

bool device_memory(const RegionPtr& region) {
  return region && region->kind != RegionKind::Host && region->kind != RegionKind::Registered;
}

// A device address must lie in memory that is mapped here, as a whole.
bool fits(uintptr_t address, size_t size) {
  const RegionPtr region = find_region(address);
  return device_memory(region) && address + size <= region->base + region->size;
}

struct Rectangle {
  uintptr_t address;
  size_t pitch;
  bool device;
};

CUresult resolve(Rectangle& r, CUmemorytype type, const void* host, CUdeviceptr device,
                 size_t pitch, size_t x, size_t y, size_t width, size_t height) {
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (height > 1 && pitch < width + x)
    return CUDA_ERROR_INVALID_VALUE;
  const uintptr_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : device;
  r.address = base + y * pitch + x;
  r.pitch = pitch;
  r.device = type == CU_MEMORYTYPE_DEVICE ||
             (type == CU_MEMORYTYPE_UNIFIED && device_memory(find_region(r.address)));
  if (r.device && !fits(r.address, (height - 1) * pitch + width))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult copy_2d(Context* context, const CUDA_MEMCPY2D& c, CUstream handle, bool wait) {
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  const size_t width = c.WidthInBytes, height = c.Height;
  if (width == 0 || height == 0)
    return CUDA_SUCCESS;
  Rectangle src, dst;
  if (const CUresult code = resolve(src, c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch,
                                    c.srcXInBytes, c.srcY, width, height))
    return code;
  if (const CUresult code = resolve(dst, c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch,
                                    c.dstXInBytes, c.dstY, width, height))
    return code;
  Stream::Op op;
  add_access(op.accesses, src.address, (height - 1) * src.pitch + width, false);
  add_access(op.accesses, dst.address, (height - 1) * dst.pitch + width, true);
  op.run = [src, dst, width, height](Stream&) {
    for (size_t row = 0; row < height; ++row)
      memcpy(reinterpret_cast<void*>(dst.address + row * dst.pitch),
             reinterpret_cast<const void*>(src.address + row * src.pitch), width);
  };
  enqueue(stream, std::move(op));
  if (wait)
    synchronise(stream);
  return context->error.load();
}

CUresult copy_1d(Context* context, CUmemorytype to, uintptr_t dst, CUmemorytype from, uintptr_t src,
                 size_t size, CUstream stream, bool wait) {
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = from;
  c.srcHost = reinterpret_cast<const void*>(src);
  c.srcDevice = src;
  c.dstMemoryType = to;
  c.dstHost = reinterpret_cast<void*>(dst);
  c.dstDevice = dst;
  c.WidthInBytes = c.srcPitch = c.dstPitch = size;
  c.Height = 1;
  return copy_2d(context, c, stream, wait);
}

template <typename Word>
CUresult fill(Context* context, CUdeviceptr address, size_t pitch, Word value, size_t width,
              size_t height, CUstream handle, bool wait) {
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0)
    return CUDA_SUCCESS;
  const size_t bytes = (height - 1) * pitch + width * sizeof(Word);
  if (!fits(address, bytes) || address % sizeof(Word))
    return CUDA_ERROR_INVALID_VALUE;
  Stream::Op op;
  add_access(op.accesses, address, bytes, true);
  op.run = [=](Stream&) {
    for (size_t row = 0; row < height; ++row)
      std::fill_n(reinterpret_cast<Word*>(address + row * pitch), width, value);
  };
  enqueue(stream, std::move(op));
  if (wait)
    synchronise(stream);
  return context->error.load();
}

}  // namespace
}  // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT uint64_t softcuda_memory_in_use(void) {
  return in_use.load();
}

SOFTCUDA_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t size) {
  ENTER_CONTEXT(cuMemAlloc_v2);
  return allocate(out, size, RegionKind::Legacy);
}

SOFTCUDA_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width,
                                            size_t height, unsigned) {
  ENTER_CONTEXT(cuMemAllocPitch_v2);
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height, RegionKind::Legacy);
}

SOFTCUDA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned) {
  ENTER_CONTEXT(cuMemAllocManaged);
  return allocate(out, size, RegionKind::Managed);
}

SOFTCUDA_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream) {
  ENTER_CONTEXT(cuMemAllocAsync);
  return allocate(out, size, RegionKind::Pool);
}

SOFTCUDA_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  ENTER_CONTEXT(cuMemFreeAsync);
  return free_memory(context, address);
}

SOFTCUDA_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER_CONTEXT(cuMemFree_v2);
  return free_memory(context, address);
}

SOFTCUDA_EXPORT CUresult cuMemAllocHost_v2(void** out, size_t size) {
  ENTER_CONTEXT(cuMemAllocHost_v2);
  return allocate_host(out, size);
}

SOFTCUDA_EXPORT CUresult cuMemHostAlloc(void** out, size_t size, unsigned) {
  ENTER_CONTEXT(cuMemHostAlloc);
  return allocate_host(out, size);
}

SOFTCUDA_EXPORT CUresult cuMemFreeHost(void* memory) {
  ENTER_CONTEXT(cuMemFreeHost);
  const RegionPtr region = find_region(reinterpret_cast<uintptr_t>(memory));
  if (!region || region->kind != RegionKind::Host)
    return CUDA_ERROR_INVALID_VALUE;
  synchronise_context(context);
  {
    std::lock_guard lock(state().mutex);
    state().regions.erase(region->base);
  }
  count_live(Kind::HostMemory, -1);
  munmap(memory, region->mapped);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemHostRegister_v2(void* memory, size_t size, unsigned) {
  ENTER_CONTEXT(cuMemHostRegister_v2);
  if (disabled("hostregister"))
    return CUDA_ERROR_NOT_SUPPORTED;
  const auto base = reinterpret_cast<uintptr_t>(memory);
  if (!memory || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (find_region(base))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  auto region = std::make_shared<Region>();
  region->base = base;
  region->size = size;
  region->kind = RegionKind::Registered;
  count_live(Kind::Registration, 1);
  std::lock_guard lock(state().mutex);
  state().regions[base] = std::move(region);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemHostUnregister(void* memory) {
  ENTER_CONTEXT(cuMemHostUnregister);
  const RegionPtr region = find_region(reinterpret_cast<uintptr_t>(memory));
  if (!region || region->kind != RegionKind::Registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  count_live(Kind::Registration, -1);
  std::lock_guard lock(state().mutex);
  state().regions.erase(region->base);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* memory, unsigned) {
  ENTER_CONTEXT(cuMemHostGetDevicePointer_v2);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (!find_region(address))
    return CUDA_ERROR_INVALID_VALUE;
  *out = address;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER_CONTEXT(cuMemGetInfo_v2);
  *total = static_cast<size_t>(env_number("SOFTCUDA_MEMORY_MB", 16384)) << 20;
  *free = *total - in_use.load();
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size,
                                                 CUdeviceptr address) {
  ENTER_CONTEXT(cuMemGetAddressRange_v2);
  const RegionPtr region = find_region(address);
  if (!device_memory(region))
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = region->base;
  if (size)
    *size = region->size;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which,
                                               CUdeviceptr address) {
  ENTER_CONTEXT(cuPointerGetAttribute);
  const RegionPtr region = find_region(address);
  if (!region)
    return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = region->size;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = region->base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          device_memory(region) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = region->kind == RegionKind::Managed;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

SOFTCUDA_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) {
  ENTER_CONTEXT(cuMemcpy2D_v2);
  return copy_2d(context, *c, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* c) {
  ENTER_CONTEXT(cuMemcpy2DUnaligned_v2);
  return copy_2d(context, *c, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream stream) {
  ENTER_CONTEXT(cuMemcpy2DAsync_v2);
  return copy_2d(context, *c, stream, false);
}

SOFTCUDA_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t size) {
  ENTER_CONTEXT(cuMemcpyHtoD_v2);
  return copy_1d(context, CU_MEMORYTYPE_DEVICE, dst, CU_MEMORYTYPE_HOST,
                 reinterpret_cast<uintptr_t>(src), size, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t size) {
  ENTER_CONTEXT(cuMemcpyDtoH_v2);
  return copy_1d(context, CU_MEMORYTYPE_HOST, reinterpret_cast<uintptr_t>(dst),
                 CU_MEMORYTYPE_DEVICE, src, size, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size) {
  ENTER_CONTEXT(cuMemcpyDtoD_v2);
  return copy_1d(context, CU_MEMORYTYPE_DEVICE, dst, CU_MEMORYTYPE_DEVICE, src, size, nullptr,
                 true);
}

SOFTCUDA_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t size,
                                              CUstream stream) {
  ENTER_CONTEXT(cuMemcpyHtoDAsync_v2);
  return copy_1d(context, CU_MEMORYTYPE_DEVICE, dst, CU_MEMORYTYPE_HOST,
                 reinterpret_cast<uintptr_t>(src), size, stream, false);
}

SOFTCUDA_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t size,
                                              CUstream stream) {
  ENTER_CONTEXT(cuMemcpyDtoHAsync_v2);
  return copy_1d(context, CU_MEMORYTYPE_HOST, reinterpret_cast<uintptr_t>(dst),
                 CU_MEMORYTYPE_DEVICE, src, size, stream, false);
}

SOFTCUDA_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                              CUstream stream) {
  ENTER_CONTEXT(cuMemcpyDtoDAsync_v2);
  return copy_1d(context, CU_MEMORYTYPE_DEVICE, dst, CU_MEMORYTYPE_DEVICE, src, size, stream,
                 false);
}

SOFTCUDA_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n) {
  ENTER_CONTEXT(cuMemsetD8_v2);
  return fill(context, dst, n, value, n, 1, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n,
                                         CUstream stream) {
  ENTER_CONTEXT(cuMemsetD8Async);
  return fill(context, dst, n, value, n, 1, stream, false);
}

SOFTCUDA_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n) {
  ENTER_CONTEXT(cuMemsetD32_v2);
  return fill(context, dst, n * 4, value, n, 1, nullptr, true);
}

SOFTCUDA_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n,
                                          CUstream stream) {
  ENTER_CONTEXT(cuMemsetD32Async);
  return fill(context, dst, n * 4, value, n, 1, stream, false);
}

SOFTCUDA_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value,
                                         size_t width, size_t height) {
  ENTER_CONTEXT(cuMemsetD2D8_v2);
  return fill(context, dst, pitch, value, width, height, nullptr, true);
}
