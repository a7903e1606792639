// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The CUDA context that an element shares with its neighbours, by GStreamer's context messages and
// queries.
#pragma once

#include "gst/base/thread.h"
#include "gst/context.h"

namespace cudaipc {

// Thread-safe: the element's streaming thread, state changes, and neighbours' queries.
class SharedContext {
 public:
  SharedContext() = default;
  SharedContext(const SharedContext&) = delete;
  SharedContext& operator=(const SharedContext&) = delete;
  ~SharedContext() { reset(); }

  // What is held, a neighbour's, the application's, else a new one, which is then held. `device`
  // -1: any; else one of another device is let go. Nothing is locked while others are asked.
  Result<ContextPtr> ensure(GstElement* element, int device);
  // For the element's set_context(): takes it if it is a CUDA context of this device.
  void take(GstElement* element, GstContext* context, int device);
  // Answers a neighbour's question for a CUDA context; false: it asked for something else, or there
  // is none yet.
  bool answer(GstElement* element, GstQuery* query);
  void replace(GstCudaContext* context);
  void reset() { replace(nullptr); }

 private:
  GstPtr<GstCudaContext> held(int device);

  Mutex mutex_;
  GstCudaContext* context_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace cudaipc
