// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The sink's record of one consumer: what it was told, what it holds, what it still has to be sent.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gst/share/page.h"
#include "gst/share/slots.h"
#include "gst/transport/channel.h"
#include "gst/wire/message.h"

namespace cudaipc {

// What a consumer's frames came to; `offered` = `sent` + the drops.
struct ConsumerStats {
  uint64_t id = 0;
  Credentials credentials;
  wire::SyncMode sync_mode = wire::SyncMode::Host;
  bool local = false;
  uint64_t offered = 0;         // frames the sink had for it since it joined
  uint64_t sent = 0;            // frames handed to its socket
  uint64_t dropped_share = 0;   // it held all it may hold
  uint64_t dropped_slots = 0;   // consumers together held all that the producer can spare
  uint64_t dropped_socket = 0;  // it did not read its socket
  uint32_t held = 0;
  uint32_t held_max = 0;
  uint64_t dropped() const { return dropped_share + dropped_slots + dropped_socket; }
};

// Everything of a consumer ends with this object: its leases return, its connection closes. Not
// thread-safe: guarded by the exporter's mutex, except the channel's receiving side, which is the
// exporter's own thread's.
class Consumer {
 public:
  enum class State { Joining, Active, Gone };
  enum class Room { Yes, ShareFull, SlotsFull };

  Consumer(uint64_t id, Channel channel, Credentials credentials, SharedPage page);

  // Takes back what the consumer is done with: reads its page, and in event mode its events.
  // Costs a few loads per held frame; never waits.
  void reap(SlotTable& slots);
  // Takes everything back, because the consumer is gone.
  void drop_leases(SlotTable& slots);
  // Whether it may be given `slot` now; `share` frames at once at most, and never so many slots
  // that fewer than `reserve` are left to the producer.
  Room room(const Slot& slot, const SlotTable& slots, uint32_t share, uint32_t reserve) const;

  // Tells it of a slot, once.
  Result<void> announce(const SlotPtr& slot, MemoryKind kind);
  bool announced(const Slot& slot) const { return announced_[slot.id] == slot.generation; }
  // Sends a frame in an announced slot; true: it has the lease. `must`: queues it where the socket
  // is full, otherwise that is a drop.
  bool send_frame(SlotTable& slots, const SlotPtr& slot, wire::Frame& frame, bool must);
  // Takes a slot out of use. With legacy memory `slot` is kept until the consumer confirms.
  void close_slot(const SlotPtr& slot, MemoryKind kind);
  void slot_closed(uint32_t id, uint64_t generation);
  void set_release_event(uint32_t id, uint64_t generation, Event event);

  // Sends a message that must not be lost: now, or when the consumer reads again. One that lets
  // too many pile up is given up (state Gone).
  void send(const wire::Bytes& packet, int fd = -1);
  // Sends what is queued as far as it goes.
  void flush();
  void activate(wire::SyncMode mode, bool local);
  bool joined() const { return joined_; }
  bool queued() const { return !outbox_.empty(); }
  void give_up(std::string why);

  const uint64_t id;
  Channel channel;
  SharedPage page;
  State state = State::Joining;
  std::chrono::steady_clock::time_point deadline;  // Joining: to be Active by then
  std::string gone_why;
  ConsumerStats stats;

 private:
  struct Queued {
    wire::Bytes packet;
    UniqueFd fd;
  };
  struct ReleaseEvent {
    uint64_t generation = 0;
    std::optional<Event> event;
  };

  std::array<uint64_t, wire::kMaxSlots> lease_{};      // sequence number held in a slot, or 0
  std::array<uint64_t, wire::kMaxSlots> announced_{};  // generation told of, or 0
  std::array<ReleaseEvent, wire::kMaxSlots> release_events_;
  std::bitset<wire::kMaxSlots> held_;
  std::deque<Queued> outbox_;
  std::vector<SlotPtr> closing_;
  wire::Bytes packet_;
  bool joined_ = false;  // it was active once, whatever became of it
};

}  // namespace cudaipc
