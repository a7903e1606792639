// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The sink's buffer pool: buffers whose memory is a slot, for upstream to write into.
#pragma once

#include <gst/cuda/gstcudabufferpool.h>

#include <functional>
#include <memory>

#include "gst/context.h"
#include "gst/share/exporter.h"

namespace cudaipc {

// Hears of what went wrong in a pool, on the thread that wanted a buffer.
using PoolError = std::function<void(const Error&)>;

// A GstCudaBufferPool subclass with the exporter's context, or upstream elements would not take
// it. Each start of the pool is a generation of slots. A buffer that comes back frees its slot for
// the producing side; it is handed out again when no consumer has it either. Never waits for a
// consumer; waits only while upstream itself holds every buffer.
GstBufferPool* new_pool(std::shared_ptr<Exporter> exporter, PoolError error);

// The slot behind a buffer of one of the exporter's pools, if the planes lie where the slot's
// layout says; otherwise empty.
SlotPtr slot_of(GstBuffer* buffer, const Exporter& exporter);

}  // namespace cudaipc
