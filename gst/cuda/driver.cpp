// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Opens libcuda.so.1 and fills the table of entry points.
#include "gst/cuda/driver.h"

#include <dlfcn.h>

#include <cassert>
#include <cctype>

namespace cudaipc {
namespace {

// Never unloaded: the driver keeps threads and exit handlers of its own.
Driver table;

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)

// "mem_get_allocation_granularity" to "cuMemGetAllocationGranularity".
std::string function_name(const char* field) {
  std::string name = "cu";
  bool upper = true;
  for (const char* c = field; *c; ++c) {
    if (*c == '_') {
      upper = true;
      continue;
    }
    name += static_cast<char>(upper ? std::toupper(static_cast<unsigned char>(*c)) : *c);
    upper = false;
  }
  return name;
}

Result<const Driver*> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error{Fault::Unsupported, 0,
                 std::string("no CUDA driver on this machine: ") + dlerror() +
                     ". Install the NVIDIA driver, or in a container pass the GPU in "
                     "(NVIDIA Container Toolkit, --gpus)"};
#define X(field, function) \
  table.field = reinterpret_cast<decltype(table.field)>(dlsym(library, STRINGIFY(function)));
  CUDAIPC_DRIVER_REQUIRED(X)
  CUDAIPC_DRIVER_OPTIONAL(X)
#undef X
  // cuda.h's macro means cuDeviceGetUuid_v2; the name without it is the GPU's own UUID, also where
  // the device is a MIG instance.
  table.device_get_gpu_uuid =
      reinterpret_cast<decltype(table.device_get_gpu_uuid)>(dlsym(library, "cuDeviceGetUuid"));
#define X(field, function)              \
  if (!table.field)                     \
    return Error{Fault::Unsupported, 0, \
                 "the CUDA driver has no " STRINGIFY(function) ": install a newer one"};
  CUDAIPC_DRIVER_REQUIRED(X)
#undef X
  if (const CUresult code = table.init(0); code != CUDA_SUCCESS) {
    auto error = cuda_error("init", code);
    error.fault = Fault::Unsupported;
    error.message += code == CUDA_ERROR_NO_DEVICE
                         ? ". No CUDA device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"
                         : ". Check that the driver's kernel module is loaded (nvidia-smi)";
    return error;
  }
  if (const CUresult code = table.driver_get_version(&table.version); code != CUDA_SUCCESS)
    return cuda_error("driver_get_version", code);
  return &table;
}

}  // namespace

Result<const Driver*> load_driver() {
  static const Result<const Driver*> result = open_driver();
  return result;
}

const Driver& cu() {
  assert(table.version != 0);
  return table;
}

Error cuda_error(const char* call, CUresult code, const std::string& about) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (table.get_error_name)
    table.get_error_name(code, &name);
  if (table.get_error_string)
    table.get_error_string(code, &text);
  std::string message = function_name(call);
  if (!about.empty())
    message += " (" + about + ")";
  message += ": " + std::string(name ? name : "unknown error") + " (" + std::to_string(code) + ")";
  if (text)
    message += std::string(": ") + text;
  return {code == CUDA_ERROR_OUT_OF_MEMORY ? Fault::Exhausted : Fault::Cuda, code, message};
}

}  // namespace cudaipc
