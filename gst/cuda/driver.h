// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The one door to CUDA: libcuda.so.1, opened at run time, and the driver functions we use.
//
// Nothing links libcuda or libcudart, so the plugin loads and can be inspected on any machine.
// Functions that older drivers lack are null and count as a missing capability.
#pragma once

#include <cuda.h>

#include <string>

#include "gst/base/error.h"

// X(field, driver function). The macros of cuda.h put in the version suffix.
#define CUDAIPC_DRIVER_REQUIRED(X)                \
  X(init, cuInit)                                 \
  X(driver_get_version, cuDriverGetVersion)       \
  X(get_error_name, cuGetErrorName)               \
  X(get_error_string, cuGetErrorString)           \
  X(device_get, cuDeviceGet)                      \
  X(device_get_count, cuDeviceGetCount)           \
  X(device_get_name, cuDeviceGetName)             \
  X(device_get_attribute, cuDeviceGetAttribute)   \
  X(device_get_uuid, cuDeviceGetUuid_v2)          \
  X(ctx_push_current, cuCtxPushCurrent)           \
  X(ctx_pop_current, cuCtxPopCurrent)             \
  X(ctx_get_device, cuCtxGetDevice)               \
  X(ctx_synchronize, cuCtxSynchronize)            \
  X(stream_create, cuStreamCreate)                \
  X(stream_destroy, cuStreamDestroy)              \
  X(stream_synchronize, cuStreamSynchronize)      \
  X(stream_wait_event, cuStreamWaitEvent)         \
  X(event_create, cuEventCreate)                  \
  X(event_destroy, cuEventDestroy)                \
  X(event_record, cuEventRecord)                  \
  X(event_query, cuEventQuery)                    \
  X(event_synchronize, cuEventSynchronize)        \
  X(mem_alloc, cuMemAlloc)                        \
  X(mem_free, cuMemFree)                          \
  X(mem_host_alloc, cuMemHostAlloc)               \
  X(mem_free_host, cuMemFreeHost)                 \
  X(memcpy_2d_async, cuMemcpy2DAsync)             \
  X(memset_d8_async, cuMemsetD8Async)             \
  X(pointer_get_attribute, cuPointerGetAttribute) \
  X(module_load_data, cuModuleLoadData)           \
  X(module_unload, cuModuleUnload)                \
  X(module_get_function, cuModuleGetFunction)     \
  X(launch_kernel, cuLaunchKernel)

#define CUDAIPC_DRIVER_OPTIONAL(X)                                 \
  X(stream_write_value_64, cuStreamWriteValue64)                   \
  X(stream_wait_value_64, cuStreamWaitValue64)                     \
  X(mem_host_register, cuMemHostRegister)                          \
  X(mem_host_unregister, cuMemHostUnregister)                      \
  X(mem_host_get_device_pointer, cuMemHostGetDevicePointer)        \
  X(ipc_get_mem_handle, cuIpcGetMemHandle)                         \
  X(ipc_open_mem_handle, cuIpcOpenMemHandle)                       \
  X(ipc_close_mem_handle, cuIpcCloseMemHandle)                     \
  X(ipc_get_event_handle, cuIpcGetEventHandle)                     \
  X(ipc_open_event_handle, cuIpcOpenEventHandle)                   \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity) \
  X(mem_create, cuMemCreate)                                       \
  X(mem_release, cuMemRelease)                                     \
  X(mem_address_reserve, cuMemAddressReserve)                      \
  X(mem_address_free, cuMemAddressFree)                            \
  X(mem_map, cuMemMap)                                             \
  X(mem_unmap, cuMemUnmap)                                         \
  X(mem_set_access, cuMemSetAccess)                                \
  X(mem_export_to_shareable_handle, cuMemExportToShareableHandle)  \
  X(mem_import_from_shareable_handle, cuMemImportFromShareableHandle)

namespace cudaipc {

struct Driver {
#define X(field, function) decltype(&::function) field = nullptr;
  CUDAIPC_DRIVER_REQUIRED(X)
  CUDAIPC_DRIVER_OPTIONAL(X)
#undef X
  decltype(&::cuDeviceGetUuid) device_get_gpu_uuid = nullptr;  // cuDeviceGetUuid, not _v2
  int version = 0;                                             // cuDriverGetVersion
};

// Opens and initialises the driver on the first call; later calls give the same answer. The error
// says what is missing and what to do. Thread-safe.
Result<const Driver*> load_driver();

// The driver, for code that can only run after load_driver() succeeded.
const Driver& cu();

// An Error for a failed call: "cuMemCreate (slot 3): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
Error cuda_error(const char* call, CUresult code, const std::string& about = {});

}  // namespace cudaipc

// Calls the driver; leaves the function with an Error that names the call on failure.
#define TRY_CU(function, ...)                                              \
  do {                                                                     \
    if (const CUresult cu_result_ = ::cudaipc::cu().function(__VA_ARGS__); \
        cu_result_ != CUDA_SUCCESS)                                        \
      return ::cudaipc::cuda_error(#function, cu_result_);                 \
  } while (0)
