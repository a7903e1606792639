// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Mutex and lock with clang's thread-safety annotations, so that "guarded by" is checked by the
// compiler (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html), and thread names.
#pragma once

#include <pthread.h>

#include <mutex>

#if defined(__clang__)
#define CUDAIPC_TSA(x) __attribute__((x))
#else
#define CUDAIPC_TSA(x)
#endif

#define GUARDED_BY(mutex) CUDAIPC_TSA(guarded_by(mutex))
#define REQUIRES(mutex) CUDAIPC_TSA(requires_capability(mutex))
#define EXCLUDES(mutex) CUDAIPC_TSA(locks_excluded(mutex))

namespace cudaipc {

class CUDAIPC_TSA(capability("mutex")) Mutex {
 public:
  void lock() CUDAIPC_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() CUDAIPC_TSA(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class CUDAIPC_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CUDAIPC_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() CUDAIPC_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// At most 15 bytes (pthread_setname_np(3)).
inline void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace cudaipc
