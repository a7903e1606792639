// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Events, in one process and between processes.
//
// The state of an interprocess event is a file in /dev/shm of mode 0600: another user, or a
// container with a /dev/shm of its own, cannot open it, as measured on the real driver.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "device.h"

namespace softcuda {
namespace {

struct Shared {
  std::atomic<uint64_t> recorded{0}, completed{0};
};

struct Event {
  Shared own;
  Shared* shared = &own;
  bool interprocess = false;
  bool opened = false;  // a peer's
  std::string name;
  // Of the last record in this process.
  StreamPtr stream;
  uint64_t seq = 0;
  Clock clock;
  bool waits = false;
};
using EventPtr = std::shared_ptr<Event>;

std::mutex events_mutex;
std::map<CUevent, EventPtr> events;

EventPtr find_event(CUevent handle) {
  std::lock_guard lock(events_mutex);
  const auto found = events.find(handle);
  return found == events.end() ? nullptr : found->second;
}

CUevent add(EventPtr event) {
  count_live(Kind::Event, 1);
  const auto handle = reinterpret_cast<CUevent>(event.get());
  std::lock_guard lock(events_mutex);
  events[handle] = std::move(event);
  return handle;
}

struct EventHandle {
  char magic[8];
  uint64_t process;
  char name[40];
  uint64_t zero;
};
static_assert(sizeof(EventHandle) == sizeof(CUipcEventHandle));

Shared* map_shared(const std::string& name, int flags) {
  const int fd = shm_open(("/" + name).c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0)
    return nullptr;
  void* memory = MAP_FAILED;
  if (!(flags & O_CREAT) || ftruncate(fd, 4096) == 0)
    memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

}  // namespace
}  // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) {
  ENTER_CONTEXT(cuEventCreate);
  auto event = std::make_shared<Event>();
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING))
      return CUDA_ERROR_INVALID_VALUE;
    if (disabled("ipc-events"))
      return CUDA_ERROR_NOT_SUPPORTED;
    // The tag lets with-softcuda sweep up what killed processes leave.
    const char* tag = getenv("SOFTCUDA_TAG");
    event->name = "softcuda-ev-" + std::string(tag ? tag : "") + "-" + random_name().substr(0, 16);
    Shared* shared = map_shared(event->name, O_RDWR | O_CREAT | O_EXCL);
    if (!shared)
      return CUDA_ERROR_OUT_OF_MEMORY;
    event->shared = new (shared) Shared;
    event->interprocess = true;
  }
  *out = add(std::move(event));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  ENTER(cuEventDestroy_v2);
  EventPtr event;
  {
    std::lock_guard lock(events_mutex);
    const auto found = events.find(handle);
    if (found == events.end())
      return CUDA_ERROR_INVALID_HANDLE;
    event = std::move(found->second);
    events.erase(found);
  }
  count_live(Kind::Event, -1);
  if (event->interprocess) {
    // A record that is still queued writes into the page.
    if (event->stream)
      event->stream->wait(event->seq);
    munmap(event->shared, 4096);
    event->shared = &event->own;
    if (!event->opened)
      shm_unlink(("/" + event->name).c_str());
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  ENTER_CONTEXT(cuEventRecord);
  const EventPtr event = find_event(handle);
  const StreamPtr stream = find_stream(context, stream_handle);
  if (!event || !stream)
    return CUDA_ERROR_INVALID_HANDLE;
  Shared* shared = event->shared;
  const uint64_t number = ++shared->recorded;
  Stream::Op op;
  op.run = [event, shared, number](Stream&) {
    uint64_t now = shared->completed.load();
    while (now < number && !shared->completed.compare_exchange_weak(now, number)) {
    }
  };
  const uint64_t seq = enqueue(stream, std::move(op));
  std::lock_guard lock(state().mutex);
  event->stream = stream;
  event->seq = seq;
  event->clock = stream->clock;
  event->waits = stream->waits.load() != 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuEventQuery(CUevent handle) {
  ENTER(cuEventQuery);
  const EventPtr event = find_event(handle);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  if (event->shared->completed.load() < event->shared->recorded.load())
    return CUDA_ERROR_NOT_READY;
  std::lock_guard lock(state().mutex);
  merge(state().host, event->clock);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  ENTER(cuEventSynchronize);
  const EventPtr event = find_event(handle);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t number = event->shared->recorded.load();
  while (event->shared->completed.load() < number)
    usleep(20);
  std::lock_guard lock(state().mutex);
  merge(state().host, event->clock);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  ENTER_CONTEXT(cuStreamWaitEvent);
  const EventPtr event = find_event(handle);
  const StreamPtr stream = find_stream(context, stream_handle);
  if (!event || !stream)
    return CUDA_ERROR_INVALID_HANDLE;
  Stream::Op op;
  if (event->stream && !event->opened) {
    std::lock_guard lock(state().mutex);
    op.after.push_back({event->stream, event->seq});
    op.clock = event->clock;
    op.waits = event->waits;
    op.run = [](Stream&) {};
  } else {
    Shared* shared = event->shared;
    const uint64_t number = shared->recorded.load();
    op.waits = true;
    op.run = [event, shared, number](Stream& self) {
      while (shared->completed.load() < number && !self.abandoned.load())
        usleep(20);
    };
  }
  enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  ENTER_CONTEXT(cuIpcGetEventHandle);
  const EventPtr event = find_event(handle);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!event->interprocess || event->opened)
    return CUDA_ERROR_INVALID_VALUE;
  EventHandle bytes{};
  memcpy(bytes.magic, "softevnt", 8);
  bytes.process = process_id();
  snprintf(bytes.name, sizeof(bytes.name), "%s", event->name.c_str());
  memcpy(out, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  ENTER_CONTEXT(cuIpcOpenEventHandle);
  EventHandle bytes;
  memcpy(&bytes, &handle, sizeof(bytes));
  bytes.name[sizeof(bytes.name) - 1] = '\0';
  if (memcmp(bytes.magic, "softevnt", 8) != 0 || strchr(bytes.name, '/'))
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes.process == process_id())
    return CUDA_ERROR_INVALID_CONTEXT;
  Shared* shared = disabled("ipc-events-refused") ? nullptr : map_shared(bytes.name, O_RDWR);
  if (!shared)
    return CUDA_ERROR_MAP_FAILED;
  auto event = std::make_shared<Event>();
  event->shared = shared;
  event->interprocess = event->opened = true;
  event->name = bytes.name;
  *out = add(std::move(event));
  return CUDA_SUCCESS;
}
