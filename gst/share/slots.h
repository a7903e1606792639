// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The sink's slots: which memory there is, and which of it is free.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "gst/base/error.h"
#include "gst/cuda/resources.h"
#include "gst/wire/message.h"

namespace cudaipc {

// Where the planes of a frame lie in a slot. `size` is what the frame needs; the allocation is
// rounded up to granules.
struct Layout {
  uint32_t n_planes = 0;
  std::array<wire::Plane, wire::kMaxPlanes> planes{};
  size_t size = 0;
};

// Exportable memory for one frame. Shared by the exporter and by whatever wraps the memory for
// GStreamer, since either may be the last to need it. Its state belongs to the exporter's mutex.
struct Slot {
  Slot(uint32_t id_, uint64_t generation_, const Layout& layout_, Allocation memory_)
      : id(id_), generation(generation_), layout(layout_), memory(std::move(memory_)) {}

  const uint32_t id;
  const uint64_t generation;
  const Layout layout;
  const Allocation memory;

  std::optional<Event> ready;  // made when the first sync-mode=event consumer is told of the slot
  bool held = false;           // by the producing side: being written, or queued upstream
  uint32_t leases = 0;         // consumers that have the frame
  uint64_t used = 0;           // when it was last freed: the oldest is taken next
};
using SlotPtr = std::shared_ptr<Slot>;

// All slots of an exporter, of every generation, within one budget. Not thread-safe: the
// exporter's mutex guards it.
class SlotTable {
 public:
  SlotTable(ContextPtr context, MemoryKind kind, uint32_t budget)
      : context_(std::move(context)), kind_(kind), budget_(budget) {}

  // A free slot of the generation, marked held: the one free for longest, else a new one, else one
  // whose place an idle slot of another generation gives up (returned in `evicted`). An empty
  // pointer: all are in use. An error: CUDA could not allocate.
  Result<SlotPtr> acquire(uint64_t generation, const Layout& layout, SlotPtr& evicted);
  void release(Slot& slot) {
    slot.held = false;
    slot.used = ++clock_;
  }
  void add_lease(Slot& slot) {
    if (slot.leases++ == 0)
      ++leased_;
  }
  void drop_lease(Slot& slot) {
    if (--slot.leases == 0) {
      --leased_;
      slot.used = ++clock_;
    }
  }
  // Slots that at least one consumer has.
  uint32_t leased() const { return leased_; }
  uint32_t size() const { return size_; }
  uint32_t budget() const { return budget_; }
  const SlotPtr& at(uint32_t id) const { return slots_[id]; }
  // Takes a slot that nobody uses out of the table.
  SlotPtr remove(uint32_t id);
  static bool idle(const Slot& slot) { return !slot.held && slot.leases == 0; }

 private:
  const ContextPtr context_;
  const MemoryKind kind_;
  const uint32_t budget_;
  std::array<SlotPtr, wire::kMaxSlots> slots_;
  uint32_t size_ = 0;
  uint32_t leased_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace cudaipc
