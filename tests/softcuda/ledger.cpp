// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Call counts, injected faults, live objects, and the report at the end of the process.
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"
#include "softcuda.h"

namespace softcuda {
namespace {

constexpr size_t kMaxSites = 256;
constexpr const char* kKindNames[] = {"context",       "stream",       "event",   "memory",
                                      "host memory",   "registration", "mapping", "vmm handle",
                                      "address range", "ipc mapping",  "module"};

// Calls of one thread; kept after the thread is gone.
struct ThreadCalls {
  char name[16] = "";
  std::array<std::atomic<uint64_t>, kMaxSites> calls{};
};

struct Ledger {
  std::mutex mutex;
  std::vector<Site*> sites;
  std::vector<std::unique_ptr<ThreadCalls>> threads;
  std::vector<std::string> violations;
  std::array<std::atomic<int64_t>, static_cast<size_t>(Kind::kCount)> live{};
  int lock_fd = -1;
  uint64_t process = 0;
};
Ledger& ledger() {
  static Ledger* const l = new Ledger;  // used until the very end of the process
  return *l;
}

ThreadCalls& this_thread() {
  thread_local ThreadCalls* calls = nullptr;
  if (!calls) {
    auto fresh = std::make_unique<ThreadCalls>();
    pthread_getname_np(pthread_self(), fresh->name, sizeof(fresh->name));
    calls = fresh.get();
    std::lock_guard lock(ledger().mutex);
    ledger().threads.push_back(std::move(fresh));
  }
  return *calls;
}

// SOFTCUDA_FAIL="cuMemCreate:3:2,cuEventCreate:*:999,cuMemAlloc_v2:5+:2"
void read_faults(Site& site) {
  const char* text = getenv("SOFTCUDA_FAIL");
  const std::string all = text ? text : "";
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    const std::string one = all.substr(at, end - at);
    at = end + 1;
    const size_t first = one.find(':');
    const size_t second = one.find(':', first + 1);
    if (second == one.npos)
      continue;
    std::string name = one.substr(0, first);
    if (name != site.name && name + "_v2" != site.name)
      continue;
    const std::string which = one.substr(first + 1, second - first - 1);
    site.fail_code = static_cast<CUresult>(atoi(one.c_str() + second + 1));
    if (which == "*") {
      site.fail_from = 1;
      site.fail_to = UINT64_MAX;
    } else {
      site.fail_from = strtoull(which.c_str(), nullptr, 10);
      site.fail_to = which.back() == '+' ? UINT64_MAX : site.fail_from;
    }
  }
}

Site* find_site(const char* name) {
  for (Site* site : ledger().sites) {
    if (strcmp(site->name, name) == 0 || std::string(name) + "_v2" == site->name)
      return site;
  }
  return nullptr;
}

__attribute__((destructor)) void write_report() {
  const char* folder = getenv("SOFTCUDA_REPORT");
  if (!folder || !initialised.load())
    return;
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  const std::string path = std::string(folder) + "/" + std::to_string(l.process) + ".report";
  FILE* file = fopen(path.c_str(), "we");
  if (!file)
    return;
  char command[256] = "";
  if (FILE* self = fopen("/proc/self/cmdline", "re")) {
    const size_t n = fread(command, 1, sizeof(command) - 1, self);
    std::replace(command, command + n, '\0', ' ');
    fclose(self);
  }
  fprintf(file, "process: %d %s\n", getpid(), command);
  for (const auto& text : l.violations)
    fprintf(file, "violation: %s\n", text.c_str());
  for (size_t i = 0; i < l.live.size(); ++i) {
    if (l.live[i].load() != 0)
      fprintf(file, "leak: %s: %ld left\n", kKindNames[i], static_cast<long>(l.live[i].load()));
  }
  for (const Site* site : l.sites)
    fprintf(file, "calls: %s=%lu\n", site->name, static_cast<unsigned long>(site->calls.load()));
  for (const auto& thread : l.threads) {
    for (const Site* site : l.sites) {
      if (const uint64_t n = thread->calls[site->index].load())
        fprintf(file, "thread-calls: %s %s=%lu\n", thread->name, site->name,
                static_cast<unsigned long>(n));
    }
  }
  fclose(file);
}

}  // namespace

std::atomic<bool> initialised{false};

Site::Site(const char* name_) : name(name_) {
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  index = l.sites.size();
  l.sites.push_back(this);
  read_faults(*this);
}

CUresult Site::enter() {
  const uint64_t n = ++calls;
  this_thread().calls[index].fetch_add(1, std::memory_order_relaxed);
  if (n >= fail_from && n <= fail_to && fail_from)
    return fail_code;
  return initialised.load(std::memory_order_relaxed) || strcmp(name, "cuInit") == 0 ||
                 strncmp(name, "cuGetError", 10) == 0 || strncmp(name, "cuDriver", 8) == 0 ||
                 strncmp(name, "cuGetProc", 9) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_INITIALIZED;
}

bool disabled(const char* capability) {
  const char* list = getenv("SOFTCUDA_DISABLE");
  const std::string all = "," + std::string(list ? list : "") + ",";
  return all.find("," + std::string(capability) + ",") != all.npos;
}

long env_number(const char* name, long fallback) {
  const char* text = getenv(name);
  return text ? atol(text) : fallback;
}

void violation(const std::string& text) {
  fprintf(stderr, "softcuda: violation: %s\n", text.c_str());
  std::lock_guard lock(ledger().mutex);
  ledger().violations.push_back(text);
}

void count_live(Kind kind, int delta) {
  ledger().live[static_cast<size_t>(kind)] += delta;
}

std::string driver_folder() {
  const char* folder = getenv("SOFTCUDA_DIR");
  static const std::string fallback = [] {
    const std::string path = "/dev/shm/softcuda-driver-" + std::to_string(getuid());
    mkdir(path.c_str(), 0777);
    return path;
  }();
  return folder ? folder : fallback;
}

std::string random_name() {
  uint8_t bytes[16];
  [[maybe_unused]] const ssize_t n = getrandom(bytes, sizeof(bytes), 0);
  std::string text;
  for (const uint8_t byte : bytes) {
    char hex[3];
    snprintf(hex, sizeof(hex), "%02x", byte);
    text += hex;
  }
  return text;
}

uint64_t process_id() {
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  if (!l.process) {
    [[maybe_unused]] const ssize_t n = getrandom(&l.process, sizeof(l.process), 0);
    l.process |= 1;
    // The lock goes with the process, however it ends.
    const std::string path = driver_folder() + "/process-" + std::to_string(l.process);
    l.lock_fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    flock(l.lock_fd, LOCK_EX);
  }
  return l.process;
}

bool process_alive(uint64_t id) {
  const std::string path = driver_folder() + "/process-" + std::to_string(id);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  const bool alive = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return alive;
}

}  // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT uint64_t softcuda_calls(const char* function) {
  std::lock_guard lock(ledger().mutex);
  const Site* site = find_site(function);
  return site ? site->calls.load() : 0;
}

SOFTCUDA_EXPORT uint64_t softcuda_calls_on_thread(const char* thread, const char* function) {
  std::lock_guard lock(ledger().mutex);
  const Site* site = find_site(function);
  uint64_t n = 0;
  for (const auto& t : ledger().threads) {
    if (site && strcmp(t->name, thread) == 0)
      n += t->calls[site->index].load();
  }
  return n;
}

SOFTCUDA_EXPORT void softcuda_fail_next(const char* function, uint64_t n, int code) {
  std::lock_guard lock(ledger().mutex);
  if (Site* site = find_site(function)) {
    site->fail_code = static_cast<CUresult>(code);
    site->fail_from = site->fail_to = n ? site->calls.load() + n : 0;
  }
}

SOFTCUDA_EXPORT uint64_t softcuda_live_objects(void) {
  int64_t n = 0;
  for (const auto& live : ledger().live)
    n += live.load();
  return static_cast<uint64_t>(n);
}

SOFTCUDA_EXPORT uint64_t softcuda_violations(void) {
  std::lock_guard lock(ledger().mutex);
  return ledger().violations.size();
}
