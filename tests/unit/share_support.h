// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Contexts, exporters and consumer processes for tests of the share layer.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gst/share/exporter.h"
#include "gst/share/importer.h"
#include "tests/unit/support.h"

namespace cudaipc::test {

// A context of our own; ends with the last owner.
inline ContextPtr make_context() {
  EXPECT_TRUE(load_driver());
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
  using Destroy = CUresult (*)(CUcontext);
  const auto create = reinterpret_cast<Create>(dlsym(library, "cuCtxCreate_v2"));
  static const auto destroy = reinterpret_cast<Destroy>(dlsym(library, "cuCtxDestroy_v2"));
  CUcontext handle = nullptr;
  EXPECT_EQ(create(&handle, 0, 0), CUDA_SUCCESS);
  CUcontext popped;
  cu().ctx_pop_current(&popped);
  auto* context = new Context;
  context->handle = handle;
  context->device = 0;
  return ContextPtr(context, [](const Context* c) {
    destroy(c->handle);
    delete c;
  });
}

inline Layout plain_layout(size_t size) {
  Layout layout;
  layout.n_planes = 1;
  layout.planes[0] = {0, size, 256, 0};
  layout.size = size;
  return layout;
}

struct ExporterOptions {
  MemoryKind memory = MemoryKind::Vmm;
  wire::SyncMode sync = wire::SyncMode::Semaphore;
  uint32_t slots = 8;
  SlowConsumer slow = SlowConsumer::Block;
};

inline std::shared_ptr<Exporter> make_exporter(const ContextPtr& context,
                                               const std::string& address,
                                               const ExporterOptions& options = {}) {
  ExporterConfig config;
  config.context = context;
  auto device = device_info(0);
  EXPECT_TRUE(device);
  config.device = *device;
  config.memory = options.memory;
  config.sync_modes = static_cast<uint32_t>(options.sync);
  config.max_slots = options.slots;
  config.slow_consumer = options.slow;
  config.consumers_changed = [](unsigned) {};
  config.warn = [](const std::string&) {};
  auto parsed = Address::parse(address);
  EXPECT_TRUE(parsed);
  auto listener = Listener::bind(*parsed);
  EXPECT_TRUE(listener) << listener.error().message;
  auto exporter = Exporter::start(std::move(config), std::move(*listener));
  EXPECT_TRUE(exporter) << exporter.error().message;
  return *exporter;
}

inline std::unique_ptr<Importer> make_importer(const ContextPtr& context) {
  auto importer = Importer::create(
      [context](const Uuid&, const ContextPtr&) { return Result<ContextPtr>(context); });
  EXPECT_TRUE(importer);
  return std::move(*importer);
}

inline Result<void> connect(Importer& importer, const std::string& address,
                            std::chrono::seconds patience = std::chrono::seconds(10)) {
  auto parsed = Address::parse(address);
  return importer.connect(*parsed, std::chrono::steady_clock::now() + patience);
}

// Makes every slot there may be, so that none is made while resources are counted.
inline void make_all_slots(Exporter::Generation& generation) {
  std::vector<SlotPtr> all;
  for (auto slot = generation.acquire(); slot && *slot; slot = generation.acquire())
    all.push_back(*slot);
  for (const auto& slot : all)
    generation.release(*slot);
}

// This program again, as another process with the same software device: consumer NAME of the
// table in test_share.cpp, with arguments.
inline pid_t spawn(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {}) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const auto& variable : environment)
      putenv(strdup(variable.c_str()));
    std::vector<char*> argv{strdup("/proc/self/exe"), strdup("--peer")};
    for (const auto& argument : arguments)
      argv.push_back(strdup(argument.c_str()));
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  return pid;
}

inline int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Until `done`, under the test's watchdog.
inline void wait_until(const std::function<bool()>& done) {
  while (!done())
    usleep(500);
}

// What must be the same before and after: descriptors, threads, mappings of the device's memory,
// objects of the device.
struct Resources {
  size_t descriptors = 0, threads = 0;
  uint64_t objects = 0, memory = 0;
  bool operator==(const Resources&) const = default;

  static Resources now() {
    Resources r;
    r.descriptors = open_descriptors();
    for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      ++r.threads;
    using Count = uint64_t (*)();
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    r.objects = reinterpret_cast<Count>(dlsym(library, "softcuda_live_objects"))();
    r.memory = reinterpret_cast<Count>(dlsym(library, "softcuda_memory_in_use"))();
    return r;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Resources& r) {
  return out << r.descriptors << " descriptors, " << r.threads << " threads, " << r.objects
             << " device objects, " << r.memory << " bytes";
}

}  // namespace cudaipc::test
