// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Inside of the software CUDA device: what its files share.
//
// One process's view. Memory, its race table and interprocess events are in files that other
// processes map too; everything else is private. Lock order: state().mutex, then a stream's.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define SOFTCUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace softcuda {

// --- Ledger: calls, faults, reports

// One per entry point; counts its calls and injects faults.
class Site {
 public:
  explicit Site(const char* name);
  // Not CUDA_SUCCESS: what the call is to return instead of working.
  CUresult enter();
  const char* name;
  std::atomic<uint64_t> calls{0};
  size_t index;
  uint64_t fail_from = 0, fail_to = 0;  // calls that fail, 0: none
  CUresult fail_code = CUDA_SUCCESS;
};

// Begins every entry point.
#define ENTER(function)                                              \
  static ::softcuda::Site site_(#function);                          \
  if (const CUresult fault_ = site_.enter(); fault_ != CUDA_SUCCESS) \
  return fault_
// The same where a context must be current, which is then `context`.
#define ENTER_CONTEXT(function)                                       \
  ENTER(function);                                                    \
  ::softcuda::Context* const context = ::softcuda::current_context(); \
  if (!context)                                                       \
    return CUDA_ERROR_INVALID_CONTEXT;                                \
  if (const CUresult sticky_ = context->error.load(); sticky_)        \
  return sticky_

bool disabled(const char* capability);  // SOFTCUDA_DISABLE
long env_number(const char* name, long fallback);
void violation(const std::string& text);
extern std::atomic<bool> initialised;

// Kinds of objects whose number must be back at zero when a process ends.
enum class Kind {
  Context,
  Stream,
  Event,
  Memory,
  HostMemory,
  Registration,
  Mapping,
  VmmHandle,
  AddressRange,
  IpcOpen,
  Module,
  kCount
};
void count_live(Kind kind, int delta);

// --- Contexts

struct Context {
  CUdevice device = 0;
  std::atomic<CUresult> error{CUDA_SUCCESS};  // sticky
  std::shared_ptr<struct Stream> legacy, per_thread;
};
Context* current_context();

// --- Streams

// What one stream knows of the others: the number of their operations that come before.
using Clock = std::map<uint32_t, uint64_t>;
void merge(Clock& into, const Clock& from);

struct Dependency {
  std::shared_ptr<struct Stream> stream;
  uint64_t seq;
};

struct Access {
  std::shared_ptr<struct Backing> backing;
  size_t begin, end;
  bool write;
};

struct Stream {
  Stream(Context* owner, bool blocks);
  // Ends the thread when the queue is done; a wait that cannot end is given up.
  void shut_down();
  void wait(uint64_t seq);  // until the operation with this number is done

  Context* const context;
  const bool blocking;  // synchronises with the legacy stream
  const uint32_t id;
  std::atomic<bool> abandoned{false};
  std::atomic<uint64_t> submitted{0}, completed{0};
  std::atomic<uint32_t> waits{0};  // operations in the queue that wait for memory or a peer
  Clock clock;                     // guarded by state().mutex

  struct Op {
    std::vector<Dependency> after;
    std::function<void(Stream&)> run;
    std::vector<Access> accesses;
    std::vector<int> entries;  // of the race table, one per access
    Clock clock;
    bool waits = false;
    bool judged_late = false;  // by the race check: when it runs
    bool slow = false;         // touches memory: SOFTCUDA_COPY_DELAY_US
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Op> queue;
  bool stop = false;
  std::thread thread;
  void loop();
};
using StreamPtr = std::shared_ptr<Stream>;

// The stream behind a handle, in the current context; null if the handle is not valid.
StreamPtr find_stream(Context* context, CUstream handle);
// Enqueues behind what the stream's kind demands.
uint64_t enqueue(const StreamPtr& stream, Stream::Op op);
void synchronise(const StreamPtr& stream);
void synchronise_context(Context* context);
bool idle(const StreamPtr& stream);

// --- Memory

// Bytes that processes share, with the table of who is reading and writing them.
struct Backing {
  ~Backing();
  int fd = -1;
  std::string path;  // legacy memory: its name in the driver folder
  size_t size = 0;
  struct RaceTable* table = nullptr;
};
using BackingPtr = std::shared_ptr<Backing>;
// A descriptor's bytes and table; null on failure. `create`: size it first.
BackingPtr make_backing(int fd, size_t size, bool create);

enum class RegionKind { Legacy, Block, Managed, Pool, Vmm, Ipc, Host, Registered };
struct Region {
  uintptr_t base = 0;
  size_t size = 0;
  RegionKind kind = RegionKind::Legacy;
  BackingPtr backing;  // null for host memory
  size_t offset = 0;   // of base in the backing
  Context* context = nullptr;
  uint32_t opens = 0;  // Ipc
  size_t mapped = 0;   // bytes of the mapping that starts at map_base
  uintptr_t map_base = 0;
  std::shared_ptr<struct Block> block;
  std::string id;  // Ipc: what was opened
};
using RegionPtr = std::shared_ptr<Region>;
RegionPtr find_region(uintptr_t address);
// The access that [address, address+size) is, if it is in shared memory.
void add_access(std::vector<Access>& accesses, uintptr_t address, size_t size, bool write);

// --- Race check

void race_begin(Stream& stream, Stream::Op& op, uint64_t seq);    // at enqueue
void race_execute(Stream& stream, Stream::Op& op, uint64_t seq);  // before running
void race_end(Stream::Op& op);
RaceTable* map_race_table(int fd, size_t at);
void unmap_race_table(RaceTable* table);
size_t race_table_bytes();

struct State {
  std::mutex mutex;
  std::map<uintptr_t, RegionPtr> regions;
  std::map<CUstream, StreamPtr> streams;
  std::map<CUcontext, std::unique_ptr<Context>> contexts;
  Clock host;  // operations that the host knows are done
};
State& state();

uint64_t process_id();  // random, not the pid
bool process_alive(uint64_t id);
std::string driver_folder();
std::string random_name();
// Runs `work` so that a fault becomes false instead of the end of the process.
bool guarded(const std::function<void()>& work);

}  // namespace softcuda
