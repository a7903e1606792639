// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Streams as threads, and operations on 64-bit words.
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "device.h"

namespace softcuda {
namespace {

using std::chrono::microseconds;

std::atomic<uint32_t> next_stream{1};

// A wait for what another process or a CPU does: nobody can wake us for that.
template <typename Done>
void poll_until(Stream& stream, Done done) {
  for (int i = 0; !done() && !stream.abandoned.load(); ++i) {
    if (i < 50)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(microseconds(20));
  }
}

thread_local sigjmp_buf* fault_target = nullptr;
struct sigaction previous_action;

void on_fault(int signal, siginfo_t* info, void* where) {
  if (fault_target)
    siglongjmp(*fault_target, 1);
  if (previous_action.sa_flags & SA_SIGINFO)
    previous_action.sa_sigaction(signal, info, where);
  else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    previous_action.sa_handler(signal);
  else
    ::signal(signal, SIG_DFL);
}

void catch_faults() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous_action);
    return true;
  }();
  (void)once;
}

}  // namespace

bool guarded(const std::function<void()>& work) {
  catch_faults();
  sigjmp_buf target;
  if (sigsetjmp(target, 1)) {
    fault_target = nullptr;
    return false;
  }
  fault_target = &target;
  work();
  fault_target = nullptr;
  return true;
}

void merge(Clock& into, const Clock& from) {
  for (const auto& [stream, seq] : from) {
    uint64_t& known = into[stream];
    known = std::max(known, seq);
  }
}

Stream::Stream(Context* owner, bool blocks) : context(owner), blocking(blocks), id(next_stream++) {
  thread = std::thread([this] { loop(); });
}

void Stream::loop() {
  pthread_setname_np(pthread_self(), "softcuda-stream");
  const long delay = env_number("SOFTCUDA_STREAM_DELAY_US", 0);
  const long slow = env_number("SOFTCUDA_COPY_DELAY_US", 0);
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stop || !queue.empty(); });
    if (queue.empty())
      return;
    Op op = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    const uint64_t seq = completed.load() + 1;
    for (const Dependency& dependency : op.after)
      dependency.stream->wait(dependency.seq);
    if (delay)
      std::this_thread::sleep_for(microseconds(delay));
    if (slow && op.slow)
      std::this_thread::sleep_for(microseconds(slow));
    race_execute(*this, op, seq);
    if (context->error.load() == CUDA_SUCCESS) {
      if (op.accesses.empty())
        op.run(*this);
      else if (!guarded([&] { op.run(*this); }))
        context->error.store(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    race_end(op);
    if (op.waits)
      --waits;
    lock.lock();
    completed.store(seq);
    changed.notify_all();
  }
}

void Stream::wait(uint64_t seq) {
  if (completed.load() >= seq)
    return;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return completed.load() >= seq; });
}

void Stream::shut_down() {
  {
    std::lock_guard lock(mutex);
    stop = true;
    abandoned.store(true);
    changed.notify_all();
  }
  if (thread.joinable())
    thread.join();
}

StreamPtr find_stream(Context* context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return context->legacy;
  if (handle == CU_STREAM_PER_THREAD)
    return context->per_thread;
  std::lock_guard lock(state().mutex);
  const auto found = state().streams.find(handle);
  return found == state().streams.end() ? nullptr : found->second;
}

uint64_t enqueue(const StreamPtr& stream, Stream::Op op) {
  Context* context = stream->context;
  std::lock_guard lock(state().mutex);
  const auto follow = [&](const StreamPtr& other) {
    if (const uint64_t seq = other->submitted.load(); other != stream && seq) {
      if (other->completed.load() < seq)
        op.after.push_back({other, seq});
      merge(op.clock, other->clock);
      if (other->waits.load())
        op.waits = true;
    }
  };
  // The legacy stream and the blocking streams wait for each other (CUDA Programming Guide,
  // "Implicit Synchronization").
  if (stream == context->legacy) {
    follow(context->per_thread);
    for (const auto& [handle, other] : state().streams) {
      if (other->blocking && other->context == context)
        follow(other);
    }
  } else if (stream->blocking) {
    follow(context->legacy);
  }
  merge(op.clock, state().host);
  merge(op.clock, stream->clock);
  std::lock_guard stream_lock(stream->mutex);
  const uint64_t seq = ++stream->submitted;
  op.clock[stream->id] = seq;
  stream->clock = op.clock;
  if (op.waits)
    ++stream->waits;
  race_begin(*stream, op, seq);
  stream->queue.push_back(std::move(op));
  stream->changed.notify_all();
  return seq;
}

void synchronise(const StreamPtr& stream) {
  Clock clock;
  uint64_t seq;
  {
    std::lock_guard lock(state().mutex);
    clock = stream->clock;
    seq = stream->submitted.load();
  }
  stream->wait(seq);
  std::lock_guard lock(state().mutex);
  merge(state().host, clock);
}

void synchronise_context(Context* context) {
  std::vector<StreamPtr> streams{context->legacy, context->per_thread};
  {
    std::lock_guard lock(state().mutex);
    for (const auto& [handle, stream] : state().streams) {
      if (stream->context == context)
        streams.push_back(stream);
    }
  }
  for (const auto& stream : streams)
    synchronise(stream);
}

bool idle(const StreamPtr& stream) {
  std::lock_guard lock(state().mutex);
  if (stream->completed.load() < stream->submitted.load())
    return false;
  merge(state().host, stream->clock);
  return true;
}

}  // namespace softcuda

using namespace softcuda;

namespace {

CUresult create_stream(CUstream* out, unsigned flags) {
  Context* context = current_context();
  if (!out || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>(context, flags == CU_STREAM_DEFAULT);
  *out = reinterpret_cast<CUstream>(stream.get());
  count_live(Kind::Stream, 1);
  std::lock_guard lock(state().mutex);
  state().streams[*out] = std::move(stream);
  return CUDA_SUCCESS;
}

CUresult destroy_stream(CUstream handle) {
  StreamPtr stream;
  {
    std::lock_guard lock(state().mutex);
    const auto found = state().streams.find(handle);
    if (found == state().streams.end())
      return CUDA_ERROR_INVALID_HANDLE;
    stream = found->second;
    state().streams.erase(found);
  }
  count_live(Kind::Stream, -1);
  stream->shut_down();
  return CUDA_SUCCESS;
}

template <typename Word>
CUresult write_value(CUstream handle, CUdeviceptr address, Word value) {
  Context* context = current_context();
  if (disabled("memops"))
    return CUDA_ERROR_NOT_SUPPORTED;
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  const RegionPtr region = find_region(address);
  if (!region || address % sizeof(Word))
    return CUDA_ERROR_INVALID_VALUE;
  Stream::Op op;
  op.run = [address, value, region](Stream&) {
    __atomic_store_n(reinterpret_cast<Word*>(address), value, __ATOMIC_RELEASE);
  };
  enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}

template <typename Word>
CUresult wait_value(CUstream handle, CUdeviceptr address, Word value, unsigned flags) {
  Context* context = current_context();
  if (disabled("memops"))
    return CUDA_ERROR_NOT_SUPPORTED;
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!find_region(address) || address % sizeof(Word))
    return CUDA_ERROR_INVALID_VALUE;
  Stream::Op op;
  op.waits = true;
  op.run = [address, value, flags](Stream& self) {
    poll_until(self, [&] {
      const Word now = __atomic_load_n(reinterpret_cast<Word*>(address), __ATOMIC_ACQUIRE);
      switch (flags & 3) {
        case CU_STREAM_WAIT_VALUE_EQ:
          return now == value;
        case CU_STREAM_WAIT_VALUE_AND:
          return (now & value) != 0;
        case CU_STREAM_WAIT_VALUE_NOR:
          return static_cast<Word>(~(now | value)) != 0;
        default:
          return static_cast<std::make_signed_t<Word>>(now - value) >= 0;
      }
    });
  };
  enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  ENTER_CONTEXT(cuStreamCreate);
  return create_stream(out, flags);
}

SOFTCUDA_EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int) {
  ENTER_CONTEXT(cuStreamCreateWithPriority);
  return create_stream(out, flags);
}

SOFTCUDA_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  ENTER(cuStreamDestroy_v2);
  return destroy_stream(handle);
}

SOFTCUDA_EXPORT CUresult softcuda_stream_destroy_v1(CUstream handle) __asm__("cuStreamDestroy");
CUresult softcuda_stream_destroy_v1(CUstream handle) {
  ENTER(cuStreamDestroy);
  return destroy_stream(handle);
}

SOFTCUDA_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  ENTER_CONTEXT(cuStreamSynchronize);
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream == context->legacy) {
    // Waits for the blocking streams too, like any operation on it.
    Stream::Op op;
    op.run = [](Stream&) {};
    enqueue(stream, std::move(op));
  }
  synchronise(stream);
  return context->error.load();
}

SOFTCUDA_EXPORT CUresult cuStreamQuery(CUstream handle) {
  ENTER_CONTEXT(cuStreamQuery);
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  return idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SOFTCUDA_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  ENTER_CONTEXT(cuStreamGetCtx);
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  ENTER_CONTEXT(cuLaunchHostFunc);
  const StreamPtr stream = find_stream(context, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  Stream::Op op;
  op.run = [function, data](Stream&) { function(data); };
  enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}

SOFTCUDA_EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
                                                 cuuint64_t value, unsigned) {
  ENTER_CONTEXT(cuStreamWriteValue64_v2);
  return write_value<uint64_t>(stream, address, value);
}

SOFTCUDA_EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                                 cuuint32_t value, unsigned) {
  ENTER_CONTEXT(cuStreamWriteValue32_v2);
  return write_value<uint32_t>(stream, address, value);
}

SOFTCUDA_EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address,
                                                cuuint64_t value, unsigned flags) {
  ENTER_CONTEXT(cuStreamWaitValue64_v2);
  return wait_value<uint64_t>(stream, address, value, flags);
}

SOFTCUDA_EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                                cuuint32_t value, unsigned flags) {
  ENTER_CONTEXT(cuStreamWaitValue32_v2);
  return wait_value<uint32_t>(stream, address, value, flags);
}
