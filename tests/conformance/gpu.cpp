// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Asks the driver for what a Request says.
#include "gpu.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <memory>
#include <numeric>
#include <vector>

#include "gst/cuda/driver.h"

extern "C" const unsigned char test_kernels_image[];

namespace cudaipc::test {
namespace {

constexpr size_t kPageBytes = 4096;

// A driver function that is not in the project's table.
template <typename F>
F driver_function(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}
#define CALL(function, ...) call_driver<decltype(&::function)>(STRING(function), __VA_ARGS__)
#define STRING(x) STRING_(x)
#define STRING_(x) #x

template <typename F, typename... A>
CUresult call_driver(const char* name, A... arguments) {
  const F function = driver_function<F>(name);
  return function ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
}

CUmemAllocationProp properties() {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

}  // namespace

#define TRY_CODE(call)                                        \
  do {                                                        \
    if (const CUresult code_ = (call); code_ != CUDA_SUCCESS) \
      return code_;                                           \
  } while (0)

std::string Answer::result() const {
  if (code == kHung)
    return "hung";
  if (code == kDied)
    return "died";
  const char* name = nullptr;
  const auto loaded = load_driver();
  if (loaded)
    (*loaded)->get_error_name(static_cast<CUresult>(code), &name);
  return name ? name : std::to_string(code);
}

Gpu::~Gpu() {
  if (!context_)
    return;
  while (!vmm_.empty())
    free_vmm(vmm_.begin()->first);
  if (page_) {
    cu().mem_host_unregister(const_cast<uint64_t*>(page_));
    munmap(const_cast<uint64_t*>(page_), kPageBytes);
  }
  if (stream_)
    cu().stream_destroy(stream_);
  cu().mem_free_host(out_);
  cu().module_unload(module_);
  CALL(cuCtxDestroy, context_);
}

Answer Gpu::call(const Request& request, int fd) {
  Answer answer;
  answer.code = run(request, fd, answer);
  return answer;
}

CUresult Gpu::init(Answer& answer) {
  if (const auto loaded = load_driver(); !loaded) {
    fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return loaded.error().code ? static_cast<CUresult>(loaded.error().code)
                               : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  }
  CUdevice device;
  TRY_CODE(cu().device_get(&device, 0));
  // The oldest version, which no header declares any more.
  TRY_CODE((call_driver<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2", &context_,
                                                                      0u, device)));
  TRY_CODE(cu().stream_create(&stream_, CU_STREAM_NON_BLOCKING));
  TRY_CODE(cu().module_load_data(&module_, test_kernels_image));
  void* out;
  TRY_CODE(cu().mem_host_alloc(&out, kPageBytes, 0));
  out_ = static_cast<unsigned long long*>(out);
  answer.value = static_cast<uint64_t>(device);
  return CUDA_SUCCESS;
}

CUresult Gpu::map_vmm(CUmemGenericAllocationHandle handle, uint64_t bytes, bool writable,
                      Answer& answer) {
  CUdeviceptr address;
  TRY_CODE(cu().mem_address_reserve(&address, bytes, 0, 0, 0));
  TRY_CODE(cu().mem_map(address, bytes, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = properties().location;
  access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  vmm_[address] = {handle, bytes};
  answer.value = address;
  return cu().mem_set_access(address, bytes, &access, 1);
}

CUresult Gpu::free_vmm(CUdeviceptr address) {
  const auto found = vmm_.find(address);
  if (found == vmm_.end())
    return CUDA_ERROR_INVALID_VALUE;
  const Vmm vmm = found->second;
  vmm_.erase(found);
  TRY_CODE(cu().mem_unmap(address, vmm.bytes));
  TRY_CODE(cu().mem_address_free(address, vmm.bytes));
  return cu().mem_release(vmm.handle);
}

CUresult Gpu::map_page(int fd) {
  if (page_) {
    TRY_CODE(cu().mem_host_unregister(const_cast<uint64_t*>(page_)));
    munmap(const_cast<uint64_t*>(page_), kPageBytes);
    page_ = nullptr;
  }
  void* memory = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OPERATING_SYSTEM;
  TRY_CODE(cu().mem_host_register(memory, kPageBytes,
                                  CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
  page_ = static_cast<volatile uint64_t*>(memory);
  return cu().mem_host_get_device_pointer(&page_on_device_, memory, 0);
}

CUresult Gpu::copy(CUdeviceptr address, uint64_t bytes, bool rows, Answer& answer) {
  std::vector<uint8_t> data(bytes);
  if (rows) {
    CUDA_MEMCPY2D c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = address;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = data.data();
    c.srcPitch = c.dstPitch = c.WidthInBytes = 256;
    c.Height = bytes / 256;
    TRY_CODE(cu().memcpy_2d_async(&c, stream_));
    TRY_CODE(cu().stream_synchronize(stream_));
  } else {
    TRY_CODE(CALL(cuMemcpyDtoH, data.data(), address, data.size()));
  }
  answer.value = std::accumulate(data.begin(), data.end(), uint64_t{0});
  return CUDA_SUCCESS;
}

CUresult Gpu::launch(const char* name, void** parameters, unsigned blocks) {
  CUfunction function;
  TRY_CODE(cu().module_get_function(&function, module_, name));
  const unsigned threads = blocks == 1 ? 1 : 128;
  return cu().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream_, parameters, nullptr);
}

CUresult Gpu::run(const Request& request, int fd, Answer& answer) {
  const Driver* const driver = request.op == Op::Init ? nullptr : &cu();
  unsigned long long a = request.a, b = request.b, c = request.c;
  const auto event = reinterpret_cast<CUevent>(a);
  unsigned value;
  switch (request.op) {
    case Op::Init:
      return init(answer);
    case Op::Attribute: {
      int n = 0;
      const CUresult code = driver->device_get_attribute(&n, static_cast<CUdevice_attribute>(a), 0);
      answer.value = static_cast<uint64_t>(n);
      return code;
    }
    case Op::Granularity: {
      const CUmemAllocationProp p = properties();
      size_t n = 0;
      const CUresult code =
          driver->mem_get_allocation_granularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      answer.value = n;
      return code;
    }

    case Op::Alloc:
      return driver->mem_alloc(&answer.value, a);
    case Op::AllocManaged:
      return CALL(cuMemAllocManaged, &answer.value, a, static_cast<unsigned>(CU_MEM_ATTACH_GLOBAL));
    case Op::AllocPool:
      TRY_CODE(CALL(cuMemAllocAsync, &answer.value, a, stream_));
      return driver->stream_synchronize(stream_);
    case Op::Free:
      return driver->mem_free(a);

    case Op::ExportLegacy:
      return driver->ipc_get_mem_handle(reinterpret_cast<CUipcMemHandle*>(&answer.handle), a);
    case Op::OpenLegacy: {
      CUipcMemHandle handle;
      memcpy(&handle, &request.handle, sizeof(handle));
      return driver->ipc_open_mem_handle(&answer.value, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    }
    case Op::CloseLegacy:
      return driver->ipc_close_mem_handle(a);

    case Op::CreateVmm: {
      const CUmemAllocationProp p = properties();
      CUmemGenericAllocationHandle handle;
      TRY_CODE(driver->mem_create(&handle, a, &p, 0));
      return map_vmm(handle, a, true, answer);
    }
    case Op::ExportVmm: {
      const auto found = vmm_.find(a);
      if (found == vmm_.end())
        return CUDA_ERROR_INVALID_VALUE;
      int exported = -1;
      TRY_CODE(driver->mem_export_to_shareable_handle(&exported, found->second.handle,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      answer.fd = UniqueFd(exported);
      return CUDA_SUCCESS;
    }
    case Op::ImportVmm: {
      CUmemGenericAllocationHandle handle;
      TRY_CODE(driver->mem_import_from_shareable_handle(
          &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      return map_vmm(handle, a, b != 0, answer);
    }
    case Op::FreeVmm:
      return free_vmm(a);
    case Op::Retain: {
      CUmemGenericAllocationHandle handle;
      TRY_CODE(CALL(cuMemRetainAllocationHandle, &handle, reinterpret_cast<void*>(a)));
      return driver->mem_release(handle);
    }
    case Op::DmaBuf: {
      int exported = -1;
      TRY_CODE(CALL(cuMemGetHandleForAddressRange, static_cast<void*>(&exported), a, b,
                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0ull));
      answer.fd = UniqueFd(exported);
      return CUDA_SUCCESS;
    }

    case Op::CreateEvent: {
      CUevent created;
      TRY_CODE(driver->event_create(&created, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
      answer.value = reinterpret_cast<uint64_t>(created);
      return driver->ipc_get_event_handle(reinterpret_cast<CUipcEventHandle*>(&answer.handle),
                                          created);
    }
    case Op::OpenEvent: {
      CUipcEventHandle handle;
      memcpy(&handle, &request.handle, sizeof(handle));
      CUevent opened = nullptr;
      const CUresult code = driver->ipc_open_event_handle(&opened, handle);
      answer.value = reinterpret_cast<uint64_t>(opened);
      return code;
    }
    case Op::RecordEvent:
      return driver->event_record(event, stream_);
    case Op::QueryEvent:
      return driver->event_query(event);
    case Op::WaitEvent:
      return driver->stream_wait_event(stream_, event, 0);
    case Op::DestroyEvent:
      return driver->event_destroy(event);

    case Op::MapPage:
      return map_page(fd);
    case Op::StorePage:
      __atomic_store_n(const_cast<uint64_t*>(page_ + a), b, __ATOMIC_RELEASE);
      return CUDA_SUCCESS;
    case Op::LoadPage:
      answer.value = __atomic_load_n(const_cast<uint64_t*>(page_ + a), __ATOMIC_ACQUIRE);
      return CUDA_SUCCESS;
    case Op::WriteValue:
      return driver->stream_write_value_64(stream_, page_on_device_ + a * 8, b, 0);
    case Op::WaitValue:
      return driver->stream_wait_value_64(stream_, page_on_device_ + a * 8, b,
                                          CU_STREAM_WAIT_VALUE_GEQ);

    case Op::Delay: {
      void* parameters[] = {&a};
      return launch("delay_ns", parameters, 1);
    }
    case Op::Fill: {
      value = static_cast<unsigned>(c);
      void* parameters[] = {&a, &b, &value};
      return launch("fill", parameters, 16);
    }
    case Op::FillWords: {
      const std::vector<uint64_t> words(b / 8, c);
      return CALL(cuMemcpyHtoD, a, static_cast<const void*>(words.data()), b);
    }
    case Op::Sum: {
      *out_ = 0;
      void* parameters[] = {&a, &b, &out_};
      return launch("sum", parameters, 16);
    }
    case Op::Scan: {
      *out_ = 0;
      void* parameters[] = {&a, &b, &c, &out_};
      return launch("scan", parameters, 16);
    }
    case Op::Poke: {
      value = static_cast<unsigned>(b);
      void* parameters[] = {&a, &value};
      return launch("poke", parameters, 1);
    }
    case Op::Copy:
      return copy(a, b, false, answer);
    case Op::Copy2D:
      return copy(a, b, true, answer);

    case Op::Synchronize:
      TRY_CODE(driver->stream_synchronize(stream_));
      answer.value = *static_cast<volatile unsigned long long*>(out_);
      return CUDA_SUCCESS;
    case Op::QueryStream:
      return CALL(cuStreamQuery, stream_);
    case Op::SyncContext:
      return driver->ctx_synchronize();
    case Op::DestroyStream: {
      const CUstream stream = stream_;
      stream_ = nullptr;
      return driver->stream_destroy(stream);
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace cudaipc::test
