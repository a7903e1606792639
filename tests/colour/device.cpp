// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The context, made before the first test and given back after the last one.
#include "tests/colour/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace cudaipc::test {
namespace {

// What the product does not need of the driver.
#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define EXTRA(X)               \
  X(cuDevicePrimaryCtxRetain)  \
  X(cuDevicePrimaryCtxRelease) \
  X(cuMemcpyHtoDAsync)         \
  X(cuMemcpyDtoHAsync)
struct Extra {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define X(f) decltype(&::f) f##_call = reinterpret_cast<decltype(&::f)>(dlsym(library, STRING(f)));
  EXTRA(X)
#undef X
};

const Extra& extra() {
  static const Extra table;
  return table;
}

// Nothing that follows would mean anything.
[[noreturn]] void give_up(const std::string& text) {
  fprintf(stderr, "test_colour: %s\n", text.c_str());
  exit(2);
}

void need(CUresult code, const char* call) {
  if (code != CUDA_SUCCESS)
    give_up(cuda_error(call, code).message);
}

ContextPtr the_context;
std::shared_ptr<const kernels::Module> the_module;
std::vector<std::unique_ptr<Lane>> lanes;

class Environment : public ::testing::Environment {
 public:
  void SetUp() override {
    if (auto loaded = load_driver(); !loaded)
      give_up(loaded.error().message);
    CUdevice device;
    need(cu().device_get(&device, 0), "device_get");
    CUcontext handle;
    need(extra().cuDevicePrimaryCtxRetain_call(&handle, device), "device_primary_ctx_retain");
    the_context = ContextPtr(new Context{handle, device}, [](const Context* c) {
      extra().cuDevicePrimaryCtxRelease_call(c->device);
      delete c;
    });
    auto loaded = kernels::Module::load(the_context);
    if (!loaded)
      give_up(loaded.error().message);
    the_module = std::move(*loaded);
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
    for (unsigned i = 0; i < threads; ++i)
      lanes.push_back(std::make_unique<Lane>());
  }
  void TearDown() override {
    lanes.clear();
    the_module.reset();
    the_context.reset();
  }
};

[[maybe_unused]] const auto* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new Environment);

cudaipc::Stream make_stream() {
  auto made = cudaipc::Stream::create(the_context);
  if (!made)
    give_up(made.error().message);
  return std::move(*made);
}

}  // namespace

Memory::~Memory() {
  const ScopedContext scoped(*the_context);
  if (pointer_)
    cu().mem_free(pointer_);
}

CUdeviceptr Memory::at_least(size_t bytes) {
  if (bytes <= size_)
    return pointer_;
  const ScopedContext scoped(*the_context);
  if (pointer_)
    need(cu().mem_free(pointer_), "mem_free");
  size_ = std::max(bytes, size_t{1} << 20);
  need(cu().mem_alloc(&pointer_, size_), "mem_alloc");
  return pointer_;
}

Lane::Lane() : stream(make_stream()) {}

void Lane::upload(CUdeviceptr to, const Bytes& from) const {
  const ScopedContext scoped(*the_context);
  need(extra().cuMemcpyHtoDAsync_call(to, from.data(), from.size(), stream.get()),
       "memcpy_hto_d_async");
}

void Lane::download(Bytes& to, CUdeviceptr from) const {
  const ScopedContext scoped(*the_context);
  need(extra().cuMemcpyDtoHAsync_call(to.data(), from, to.size(), stream.get()),
       "memcpy_dto_h_async");
}

void Lane::wait() const {
  const ScopedContext scoped(*the_context);
  need(cu().stream_synchronize(stream.get()), "stream_synchronize");
}

ContextPtr context() {
  return the_context;
}
std::shared_ptr<const kernels::Module> module() {
  return the_module;
}

void for_each(size_t count, const std::function<void(Lane&, size_t)>& work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < std::min(count, lanes.size()); ++t)
    threads.emplace_back([&, t] {
      for (size_t i; (i = next++) < count;) {
        try {
          work(*lanes[t], i);
        } catch (const std::exception& e) {
          fail(std::string("exception: ") + e.what());
        }
      }
    });
  for (std::thread& thread : threads)
    thread.join();
}

void fail(const std::string& text) {
  constexpr int kPrinted = 8;
  static std::mutex mutex;
  static const ::testing::TestInfo* test = nullptr;
  static int count = 0;
  const std::lock_guard lock(mutex);
  if (const auto* now = ::testing::UnitTest::GetInstance()->current_test_info(); now != test)
    test = now, count = 0;
  if (++count <= kPrinted)
    ADD_FAILURE() << text;
  else if (count == kPrinted + 1)
    ADD_FAILURE() << "more failures of this test are not printed";
}

bool exhaustive() {
  const char* value = getenv("CUDAIPC_EXHAUSTIVE");
  return value && std::string(value) == "1";
}

}  // namespace cudaipc::test
