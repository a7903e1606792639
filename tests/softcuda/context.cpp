// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Start, devices, contexts, error texts.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"

namespace softcuda {
namespace {

thread_local std::vector<Context*> stack;

int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct Device {
  CUuuid uuid;
};

// Physical devices: SOFTCUDA_DEVICES of them, with the UUIDs of SOFTCUDA_UUIDS (32 hex digits each,
// dashes allowed) or made-up ones.
std::vector<Device> all_devices() {
  std::vector<Device> devices(static_cast<size_t>(env_number("SOFTCUDA_DEVICES", 1)));
  for (size_t i = 0; i < devices.size(); ++i) {
    memcpy(devices[i].uuid.bytes, "SOFTCUDA DEVICE ", 16);
    devices[i].uuid.bytes[15] = static_cast<char>('0' + i);
  }
  const char* uuids = getenv("SOFTCUDA_UUIDS");
  size_t device = 0, digit = 0;
  for (const char* c = uuids; c && *c && device < devices.size(); ++c) {
    if (*c == ',') {
      ++device;
      digit = 0;
    } else if (const int value = hex(*c); value >= 0 && digit < 32) {
      char& byte = devices[device].uuid.bytes[digit / 2];
      byte = static_cast<char>(digit % 2 ? (byte | value) : (value << 4));
      ++digit;
    }
  }
  return devices;
}

std::string text_of(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9)
      text += '-';
  }
  return text;
}

// What CUDA_VISIBLE_DEVICES leaves, in its order; ordinals or UUIDs; the first bad entry ends it.
const std::vector<Device>& devices() {
  static const std::vector<Device> visible = [] {
    const std::vector<Device> all = all_devices();
    const char* list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list)
      return all;
    std::vector<Device> chosen;
    const std::string text = list;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string one = text.substr(at, end - at);
      at = end + 1;
      size_t index = all.size();
      if (!one.empty() && one.find_first_not_of("0123456789") == one.npos)
        index = static_cast<size_t>(atoi(one.c_str()));
      for (size_t i = 0; i < all.size(); ++i) {
        if (text_of(all[i].uuid) == one)
          index = i;
      }
      if (index >= all.size())
        break;
      chosen.push_back(all[index]);
    }
    return chosen;
  }();
  return visible;
}

bool valid(CUdevice device) {
  return device >= 0 && static_cast<size_t>(device) < devices().size();
}

struct Named {
  CUresult code;
  const char* name;
  const char* text;
};
constexpr Named kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"}};

CUresult create_context(CUcontext* out, CUdevice device) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  auto context = std::make_unique<Context>();
  context->device = device;
  context->legacy = std::make_shared<Stream>(context.get(), false);
  context->per_thread = std::make_shared<Stream>(context.get(), true);
  *out = reinterpret_cast<CUcontext>(context.get());
  std::lock_guard lock(state().mutex);
  state().contexts[*out] = std::move(context);
  return CUDA_SUCCESS;
}

Context* find_context(CUcontext handle) {
  std::lock_guard lock(state().mutex);
  const auto found = state().contexts.find(handle);
  return found == state().contexts.end() ? nullptr : found->second.get();
}

struct Primary {
  CUcontext handle = nullptr;
  int users = 0;
};
std::mutex primary_mutex;
std::map<CUdevice, Primary> primaries;

CUresult destroy_context(CUcontext handle) {
  Context* context = find_context(handle);
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<StreamPtr> streams;
  std::unique_ptr<Context> owned;
  {
    std::lock_guard lock(state().mutex);
    for (auto it = state().streams.begin(); it != state().streams.end();) {
      if (it->second->context == context) {
        streams.push_back(it->second);
        count_live(Kind::Stream, -1);
        it = state().streams.erase(it);
      } else {
        ++it;
      }
    }
    owned = std::move(state().contexts[handle]);
    state().contexts.erase(handle);
  }
  streams.push_back(owned->legacy);
  streams.push_back(owned->per_thread);
  for (const auto& stream : streams)
    stream->shut_down();
  std::erase(stack, context);
  return CUDA_SUCCESS;
}

}  // namespace

Context* current_context() {
  return stack.empty() ? nullptr : stack.back();
}

State& state() {
  static State* const s = new State;
  return *s;
}

}  // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT CUresult cuInit(unsigned flags) {
  ENTER(cuInit);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (devices().empty())
    return CUDA_ERROR_NO_DEVICE;
  process_id();
  initialised.store(true);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDriverGetVersion(int* version) {
  ENTER(cuDriverGetVersion);
  *version = static_cast<int>(env_number("SOFTCUDA_DRIVER_VERSION", 13000));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuGetErrorName(CUresult code, const char** name) {
  for (const Named& error : kErrors) {
    if (error.code == code) {
      *name = error.name;
      return CUDA_SUCCESS;
    }
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_EXPORT CUresult cuGetErrorString(CUresult code, const char** text) {
  for (const Named& error : kErrors) {
    if (error.code == code) {
      *text = error.text;
      return CUDA_SUCCESS;
    }
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                             CUdriverProcAddressQueryResult* status) {
  ENTER(cuGetProcAddress_v2);
  const std::string name = symbol;
  *function = dlsym(RTLD_DEFAULT, (name + "_v2").c_str());
  if (!*function)
    *function = dlsym(RTLD_DEFAULT, symbol);
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SOFTCUDA_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(cuDeviceGet);
  if (!valid(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount);
  *count = static_cast<int>(devices().size());
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  ENTER(cuDeviceGetName);
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<size_t>(length), "Software CUDA device");
  return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid* uuid, CUdevice device) {
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *uuid = devices()[static_cast<size_t>(device)].uuid;
  return CUDA_SUCCESS;
}

// cuda.h renames the plain one; both must exist by their own names.
SOFTCUDA_EXPORT CUresult softcuda_get_uuid_v1(CUuuid* uuid,
                                              CUdevice device) __asm__("cuDeviceGetUuid");
CUresult softcuda_get_uuid_v1(CUuuid* uuid, CUdevice device) {
  ENTER(cuDeviceGetUuid);
  return get_uuid(uuid, device);
}
SOFTCUDA_EXPORT CUresult softcuda_get_uuid_v2(CUuuid* uuid,
                                              CUdevice device) __asm__("cuDeviceGetUuid_v2");
CUresult softcuda_get_uuid_v2(CUuuid* uuid, CUdevice device) {
  ENTER(cuDeviceGetUuid_v2);
  return get_uuid(uuid, device);
}

SOFTCUDA_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which,
                                              CUdevice device) {
  ENTER(cuDeviceGetAttribute);
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  switch (static_cast<int>(which)) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      *value = 512;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
      *value = !disabled("memops");
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      *value = !disabled("hostregister");
      break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = !disabled("vmm");
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      *value = INT32_MAX;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  ENTER(cuDeviceTotalMem_v2);
  *bytes = static_cast<size_t>(env_number("SOFTCUDA_MEMORY_MB", 16384)) << 20;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  ENTER(cuDeviceCanAccessPeer);
  *can = 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned, CUdevice device) {
  ENTER(cuCtxCreate_v2);
  if (const CUresult code = create_context(out, device); code != CUDA_SUCCESS)
    return code;
  count_live(Kind::Context, 1);
  stack.push_back(find_context(*out));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  ENTER(cuCtxDestroy_v2);
  const CUresult code = destroy_context(handle);
  if (code == CUDA_SUCCESS)
    count_live(Kind::Context, -1);
  return code;
}

SOFTCUDA_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  ENTER(cuCtxPushCurrent_v2);
  Context* context = find_context(handle);
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  ENTER(cuCtxPopCurrent_v2);
  if (stack.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (handle)
    *handle = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext* handle) {
  ENTER(cuCtxGetCurrent);
  *handle = reinterpret_cast<CUcontext>(current_context());
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  ENTER(cuCtxSetCurrent);
  if (!stack.empty())
    stack.pop_back();
  if (!handle)
    return CUDA_SUCCESS;
  Context* context = find_context(handle);
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  ENTER_CONTEXT(cuCtxGetDevice);
  *device = context->device;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuCtxSynchronize(void) {
  ENTER_CONTEXT(cuCtxSynchronize);
  synchronise_context(context);
  return context->error.load();
}

SOFTCUDA_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER_CONTEXT(cuCtxGetStreamPriorityRange);
  *least = *greatest = 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(primary_mutex);
  Primary& primary = primaries[device];
  if (primary.users++ == 0) {
    if (const CUresult code = create_context(&primary.handle, device); code != CUDA_SUCCESS)
      return code;
    count_live(Kind::Context, 1);
  }
  *out = primary.handle;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  std::lock_guard lock(primary_mutex);
  Primary& primary = primaries[device];
  if (primary.users == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.users == 0) {
    count_live(Kind::Context, -1);
    return destroy_context(primary.handle);
  }
  return CUDA_SUCCESS;
}
