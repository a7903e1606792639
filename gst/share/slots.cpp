// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Choosing and making slots.
#include "gst/share/slots.h"

namespace cudaipc {

Result<SlotPtr> SlotTable::acquire(uint64_t generation, const Layout& layout, SlotPtr& evicted) {
  Slot* best = nullptr;
  uint32_t idle_elsewhere = wire::kMaxSlots;
  uint32_t vacant = wire::kMaxSlots;
  for (uint32_t i = 0; i < wire::kMaxSlots; ++i) {
    Slot* slot = slots_[i].get();
    if (!slot) {
      if (vacant == wire::kMaxSlots)
        vacant = i;
    } else if (idle(*slot)) {
      if (slot->generation != generation)
        idle_elsewhere = i;
      else if (!best || slot->used < best->used)
        best = slot;
    }
  }
  if (best) {
    best->held = true;
    return slots_[best->id];
  }
  if (size_ >= budget_) {
    if (idle_elsewhere == wire::kMaxSlots)
      return SlotPtr();
    evicted = remove(idle_elsewhere);
    vacant = idle_elsewhere;
  }
  auto memory = Allocation::create(context_, kind_, layout.size);
  if (!memory)
    return std::move(memory.error())
        .with("slot " + std::to_string(vacant) + ", " + std::to_string(layout.size) + " bytes, " +
              std::to_string(size_) + " of max-buffers=" + std::to_string(budget_) +
              " slots allocated");
  slots_[vacant] = std::make_shared<Slot>(vacant, generation, layout, std::move(*memory));
  slots_[vacant]->held = true;
  ++size_;
  return slots_[vacant];
}

SlotPtr SlotTable::remove(uint32_t id) {
  --size_;
  return std::move(slots_[id]);
}

}  // namespace cudaipc
