// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Modules and kernels: functions of shared objects, found by name.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "device.h"

namespace softcuda {
namespace {

// As host_kernel.h has them.
struct Launch {
  unsigned grid[3];
  unsigned block[3];
};
struct Span {
  uintptr_t address;
  size_t size;
  bool written;
};
struct Param {
  size_t size;
  int access;
  size_t (*spans)(const void*, Span*);
};
using Run = void (*)(const Launch*, void**);
using Describe = const Param* (*)(size_t*);

struct Function {
  Run run;
  const Param* params;
  size_t count;
};

std::mutex functions_mutex;
std::map<std::string, Function> functions;

void* find_symbol(const std::string& name) {
  static const std::vector<void*> objects = [] {
    std::vector<void*> opened;
    const char* list = getenv("SOFTCUDA_KERNELS");
    const std::string text = list ? list : "";
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(':', at), text.size());
      if (void* object = dlopen(text.substr(at, end - at).c_str(), RTLD_NOW | RTLD_LOCAL))
        opened.push_back(object);
      else
        fprintf(stderr, "softcuda: SOFTCUDA_KERNELS: %s\n", dlerror());
      at = end + 1;
    }
    return opened;
  }();
  for (void* object : objects) {
    if (void* symbol = dlsym(object, name.c_str()))
      return symbol;
  }
  return nullptr;
}

}  // namespace
}  // namespace softcuda

using namespace softcuda;

namespace {
CUresult load_module(CUmodule* out, const void* image) {
  if (!out || !image)
    return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUmodule>(malloc(1));
  count_live(Kind::Module, 1);
  return CUDA_SUCCESS;
}
}  // namespace

SOFTCUDA_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  ENTER_CONTEXT(cuModuleLoadData);
  return load_module(out, image);
}

SOFTCUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned,
                                            CUjit_option*, void**) {
  ENTER_CONTEXT(cuModuleLoadDataEx);
  return load_module(out, image);
}

SOFTCUDA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  ENTER_CONTEXT(cuModuleUnload);
  free(module);
  count_live(Kind::Module, -1);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule, const char* name) {
  ENTER_CONTEXT(cuModuleGetFunction);
  std::lock_guard lock(functions_mutex);
  auto found = functions.find(name);
  if (found == functions.end()) {
    const auto run = reinterpret_cast<Run>(find_symbol("softcuda_kernel_" + std::string(name)));
    const auto describe =
        reinterpret_cast<Describe>(find_symbol("softcuda_params_" + std::string(name)));
    if (!run || !describe)
      return CUDA_ERROR_NOT_FOUND;
    Function function{run, nullptr, 0};
    function.params = describe(&function.count);
    found = functions.emplace(name, function).first;
  }
  *out = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  ENTER_CONTEXT(cuFuncGetAttribute);
  *value = 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuLaunchKernel(CUfunction handle, unsigned gx, unsigned gy, unsigned gz,
                                        unsigned bx, unsigned by, unsigned bz, unsigned,
                                        CUstream stream_handle, void** params, void** extra) {
  ENTER_CONTEXT(cuLaunchKernel);
  const StreamPtr stream = find_stream(context, stream_handle);
  const auto* function = reinterpret_cast<const Function*>(handle);
  if (!stream || !function)
    return CUDA_ERROR_INVALID_HANDLE;
  if (extra || gx * gy * gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  // Parameters are taken at the launch, as CUDA does.
  auto values = std::make_shared<std::vector<std::vector<std::byte>>>();
  Stream::Op op;
  op.slow = true;
  for (size_t i = 0; i < function->count; ++i) {
    const Param& param = function->params[i];
    const auto* bytes = static_cast<const std::byte*>(params[i]);
    values->emplace_back(bytes, bytes + param.size);
    if (param.access) {
      uintptr_t address;
      memcpy(&address, bytes, sizeof(address));
      // Sizes are not known: up to the end of the allocation.
      add_access(op.accesses, address, SIZE_MAX / 2, param.access == 2);
    }
    if (param.spans) {
      Span spans[16];
      const size_t n = param.spans(bytes, spans);
      for (size_t k = 0; k < n; ++k)
        add_access(op.accesses, spans[k].address, spans[k].size, spans[k].written);
    }
  }
  const Launch launch{{gx, gy, gz}, {bx, by, bz}};
  op.run = [function, values, launch](Stream&) {
    std::vector<void*> pointers;
    for (auto& value : *values)
      pointers.push_back(value.data());
    function->run(&launch, pointers.data());
  };
  enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}
