// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Leases and messages of one consumer.
#include "gst/share/consumer.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>

namespace cudaipc {
namespace {

// Control messages are few and small; a peer with this many unread has stopped reading.
constexpr size_t kMaxQueued = 4 * wire::kMaxSlots;

wire::CudaHandle to_wire(const CUipcMemHandle& handle) {
  static_assert(sizeof(handle) == sizeof(wire::CudaHandle));
  return std::bit_cast<wire::CudaHandle>(handle);
}
wire::CudaHandle to_wire(const CUipcEventHandle& handle) {
  static_assert(sizeof(handle) == sizeof(wire::CudaHandle));
  return std::bit_cast<wire::CudaHandle>(handle);
}

}  // namespace

Consumer::Consumer(uint64_t id_, Channel channel_, Credentials credentials, SharedPage page_)
    : id(id_), channel(std::move(channel_)), page(std::move(page_)) {
  stats.id = id_;
  stats.credentials = credentials;
}

void Consumer::activate(wire::SyncMode mode, bool local) {
  stats.sync_mode = mode;
  stats.local = local;
  state = State::Active;
  joined_ = true;
}

void Consumer::reap(SlotTable& slots) {
  if (held_.none())
    return;
  for (size_t i = held_._Find_first(); i < held_.size(); i = held_._Find_next(i)) {
    // Equality, not order: the word is the peer's to write, and the only value that means
    // something is the number of the very frame it holds.
    if (page.released(static_cast<uint32_t>(i)) != lease_[i])
      continue;
    if (stats.sync_mode == wire::SyncMode::Event) {
      const ReleaseEvent& release = release_events_[i];
      if (!release.event || release.generation != announced_[i] ||
          release.event->query() == CUDA_ERROR_NOT_READY)
        continue;
    }
    lease_[i] = 0;
    held_.reset(i);
    slots.drop_lease(*slots.at(static_cast<uint32_t>(i)));
  }
  stats.held = static_cast<uint32_t>(held_.count());
}

void Consumer::drop_leases(SlotTable& slots) {
  for (size_t i = held_._Find_first(); i < held_.size(); i = held_._Find_next(i))
    slots.drop_lease(*slots.at(static_cast<uint32_t>(i)));
  held_.reset();
  lease_.fill(0);
  stats.held = 0;
  closing_.clear();
}

Consumer::Room Consumer::room(const Slot& slot, const SlotTable& slots, uint32_t share,
                              uint32_t reserve) const {
  if (stats.held >= share)
    return Room::ShareFull;
  if (slot.leases == 0 && slots.leased() + reserve >= slots.budget())
    return Room::SlotsFull;
  return Room::Yes;
}

Result<void> Consumer::announce(const SlotPtr& slot, MemoryKind kind) {
  wire::Slot message;
  message.slot = slot->id;
  message.generation = slot->generation;
  message.size = slot->memory.size();
  message.n_planes = slot->layout.n_planes;
  std::copy(slot->layout.planes.begin(), slot->layout.planes.end(), message.planes);
  message.local = stats.local;
  if (!stats.local && kind == MemoryKind::Legacy)
    message.memory = to_wire(slot->memory.handle());
  if (stats.sync_mode == wire::SyncMode::Event) {
    if (!slot->ready) {
      auto event = Event::create(slot->memory.context(), Event::Use::Interprocess);
      if (!event)
        return std::move(event.error()).with("slot " + std::to_string(slot->id));
      slot->ready.emplace(std::move(*event));
    }
    message.ready_event = to_wire(slot->ready->handle());
  }
  wire::encode(message, packet_);
  const bool with_fd = !stats.local && kind == MemoryKind::Vmm;
  send(packet_, with_fd ? slot->memory.descriptor() : -1);
  announced_[slot->id] = slot->generation;
  return {};
}

bool Consumer::send_frame(SlotTable& slots, const SlotPtr& slot, wire::Frame& frame, bool must) {
  // In order: a frame never overtakes a message that waits.
  if (queued())
    flush();
  frame.dropped = stats.dropped();
  wire::encode(frame, packet_);
  if (must) {
    send(packet_);
  } else if (const Sent sent = queued() ? Sent::WouldBlock : channel.send(packet_);
             sent == Sent::Closed) {
    give_up("connection closed");
  } else if (sent == Sent::WouldBlock) {
    ++stats.dropped_socket;
    return false;
  }
  if (state == State::Gone) {
    ++stats.dropped_socket;
    return false;
  }
  lease_[slot->id] = frame.seq;
  held_.set(slot->id);
  slots.add_lease(*slot);
  ++stats.sent;
  stats.held = static_cast<uint32_t>(held_.count());
  stats.held_max = std::max(stats.held_max, stats.held);
  return true;
}

void Consumer::close_slot(const SlotPtr& slot, MemoryKind kind) {
  if (!announced(*slot))
    return;
  wire::encode(wire::CloseSlot{slot->id, 0, slot->generation}, packet_);
  send(packet_);
  announced_[slot->id] = 0;
  release_events_[slot->id] = {};
  // Freeing legacy memory that a peer still maps is undefined (CUDA driver API,
  // cuIpcGetMemHandle); the physical memory behind a descriptor is counted by the driver.
  if (kind == MemoryKind::Legacy && !stats.local) {
    closing_.push_back(slot);
    // Confirmations may lag behind a quick series of caps changes on a busy machine; a peer that
    // owes this many does not confirm at all.
    if (closing_.size() > kMaxQueued)
      give_up("it does not close memory that is out of use");
  }
}

void Consumer::slot_closed(uint32_t slot, uint64_t generation) {
  std::erase_if(closing_,
                [&](const SlotPtr& s) { return s->id == slot && s->generation == generation; });
}

void Consumer::set_release_event(uint32_t slot, uint64_t generation, Event event) {
  if (announced_[slot] == generation)
    release_events_[slot] = {generation, std::move(event)};
}

void Consumer::send(const wire::Bytes& packet, int fd) {
  if (state == State::Gone)
    return;
  if (!queued()) {
    const Sent sent = channel.send(packet, fd);
    if (sent == Sent::Yes)
      return;
    if (sent == Sent::Closed)
      return give_up("connection closed");
  }
  if (outbox_.size() >= kMaxQueued)
    return give_up("it does not read its socket");
  UniqueFd copy(fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1);
  if (fd >= 0 && !copy)
    return give_up("no descriptor left for its messages: " + errno_text(errno));
  outbox_.push_back({packet, std::move(copy)});
}

void Consumer::flush() {
  while (!outbox_.empty() && state != State::Gone) {
    const Queued& next = outbox_.front();
    const Sent sent = channel.send(next.packet, next.fd.get());
    if (sent == Sent::WouldBlock)
      return;
    if (sent == Sent::Closed)
      return give_up("connection closed");
    outbox_.pop_front();
  }
}

void Consumer::give_up(std::string why) {
  if (state == State::Gone)
    return;
  state = State::Gone;
  gone_why = std::move(why);
  outbox_.clear();
}

}  // namespace cudaipc
