// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Offers frames to any number of consumers, which come and go: the sink without GStreamer.
//
// Frames live in slots. A slot is held by the producing side (acquire to release), then leased by
// each consumer it was sent to; it is free when nobody has it. A consumer says in its shared page
// (wire::Page) that it is done, mostly by its GPU's own hand: there are no release messages, and
// the producer looks when it needs a slot. So no frame waits for a consumer, unless
// SlowConsumer::Block is asked for.
//
// One thread of its own ("cudaipc-sink") accepts, shakes hands, and notices who is gone. It never
// touches a frame: the streaming thread sends those itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gst/base/thread.h"
#include "gst/share/consumer.h"
#include "gst/share/slots.h"
#include "gst/transport/channel.h"

namespace cudaipc {

enum class SlowConsumer { Drop, Block };

struct ExporterConfig {
  ContextPtr context;
  DeviceInfo device;
  MemoryKind memory = MemoryKind::Vmm;
  uint32_t sync_modes = 0;  // set of wire::SyncMode to offer, best first is chosen
  uint32_t max_slots = 0;   // of all generations together
  SlowConsumer slow_consumer = SlowConsumer::Drop;
  // The number of active consumers changed; on the exporter's thread, no lock held.
  std::function<void(unsigned)> consumers_changed;
  // Something a person may want to know, at most once per event; no lock held.
  std::function<void(const std::string&)> warn;
};

struct ExporterStats {
  uint64_t frames = 0;  // offered by the sink
  uint32_t slots = 0;
  uint32_t slots_max = 0;
  uint64_t refused = 0;  // connections that did not become consumers
  std::vector<ConsumerStats> consumers;
  ConsumerStats departed;  // sums over those that left
};

// The modes this device can do, tried for real where the answer is not certain. Event is offered
// if an event can be exported.
uint32_t possible_sync_modes(const ContextPtr& context, const DeviceInfo& device);

class Exporter : public std::enable_shared_from_this<Exporter> {
 public:
  // Slots of one shape; they are free to go when this ends. May outlive stop().
  class Generation {
   public:
    Generation(std::shared_ptr<Exporter> exporter, uint64_t number, const Layout& layout)
        : exporter_(std::move(exporter)), number_(number), layout_(layout) {}
    ~Generation() { exporter_->retire(number_); }
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;
    const Layout& layout() const { return layout_; }
    // A slot to write, held until release(); an empty pointer: none is free. Any thread.
    Result<SlotPtr> acquire() { return exporter_->acquire(*this); }
    // Back from the producing side. Any thread.
    void release(Slot& slot) { exporter_->release(slot); }
    uint64_t number() const { return number_; }

   private:
    const std::shared_ptr<Exporter> exporter_;
    const uint64_t number_;
    const Layout layout_;
  };

  // Starts listening. Consumers may join from here on.
  static Result<std::shared_ptr<Exporter>> start(ExporterConfig config, Listener listener);
  ~Exporter();
  // Closes every connection, ends the thread. Slots stay valid for whoever holds them. Idempotent.
  void stop() EXCLUDES(mutex_);

  std::shared_ptr<Generation> new_generation(const Layout& layout);

  // The stream, in order; one thread at a time. Late joiners are told the latest of each.
  Result<void> set_caps(const std::string& caps) EXCLUDES(mutex_);
  void set_segment(const wire::Segment& segment) EXCLUDES(mutex_);
  void set_latency(uint64_t latency_ns) EXCLUDES(mutex_);
  Result<void> event(const wire::Event& event) EXCLUDES(mutex_);
  void eos() EXCLUDES(mutex_);
  // Sends the frame in `slot`, which `stream` completes, to every consumer that has room, and
  // counts a drop for the others. `frame` brings times, flags and metas; the rest is filled in.
  // Block: waits for room first. Fault::Cancelled: cancel(true) was called meanwhile.
  Result<void> offer(const SlotPtr& slot, wire::Frame& frame, CUstream stream) EXCLUDES(mutex_);
  // Waits until `count` consumers have joined; Fault::Cancelled as above.
  Result<void> wait_for_consumers(unsigned count) EXCLUDES(mutex_);
  // Any thread: ends waits, and keeps new ones from starting until cancel(false).
  void cancel(bool cancelled) EXCLUDES(mutex_);

  ExporterStats stats() EXCLUDES(mutex_);
  unsigned num_consumers() const { return num_consumers_.load(); }
  const wire::Id& instance() const { return instance_; }
  const ExporterConfig& config() const { return config_; }

  // For importers in this process: the exporter of that instance id, while it lives.
  static std::shared_ptr<Exporter> find_local(const wire::Id& instance);
  // The slot a local importer was told of; empty if it is gone.
  SlotPtr slot(uint32_t id, uint64_t generation) EXCLUDES(mutex_);

 private:
  using ConsumerPtr = std::shared_ptr<Consumer>;

  Exporter(ExporterConfig config, Listener listener, UniqueFd wake);
  Result<SlotPtr> acquire(const Generation& generation) EXCLUDES(mutex_);
  void release(Slot& slot) EXCLUDES(mutex_);
  void retire(uint64_t generation) EXCLUDES(mutex_);

  void reap_all() REQUIRES(mutex_);
  void collect_retired() REQUIRES(mutex_);
  void remove_slot(const SlotPtr& slot) REQUIRES(mutex_);
  // Frames that one consumer may hold, and slots that consumers leave to the producer: it can
  // always take a slot, whatever they do, as long as each has at most its share.
  uint32_t share() const REQUIRES(mutex_);
  uint32_t reserve() const REQUIRES(mutex_);
  bool everybody_has_room(const Slot& slot) REQUIRES(mutex_);
  Result<void> send_to_all(const SlotPtr& slot, wire::Frame& frame, CUstream stream)
      REQUIRES(mutex_);
  void broadcast() REQUIRES(mutex_);  // message_, to every active consumer

  void run();
  void wake();
  void accept_all();
  void serve(const ConsumerPtr& consumer);
  Result<void> handle(const ConsumerPtr& consumer, Packet& packet);
  Result<void> join(const ConsumerPtr& consumer, const wire::Join& message);
  Error refuse(Consumer& consumer, wire::Reason reason, const std::string& text);
  void remove_gone();

  const ExporterConfig config_;
  const wire::Id instance_;
  std::optional<Listener> listener_;  // the thread's
  UniqueFd wake_;
  std::optional<Event> probe_event_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> num_consumers_{0};
  Packet packet_;  // the thread's
  uint64_t next_id_ = 1;

  // Guards the slots and the consumers' records. Under it only non-blocking calls: sends, stream
  // enqueues, event queries; and at a pool's start the allocation of a slot.
  Mutex mutex_;
  std::condition_variable_any changed_;  // consumers_, cancelled_
  SlotTable slots_ GUARDED_BY(mutex_);
  std::vector<uint64_t> retired_ GUARDED_BY(mutex_);
  std::vector<ConsumerPtr> consumers_ GUARDED_BY(mutex_);
  uint64_t next_generation_ GUARDED_BY(mutex_) = 1;
  uint64_t seq_ GUARDED_BY(mutex_) = 0;
  uint32_t caps_serial_ GUARDED_BY(mutex_) = 0;
  uint32_t slots_max_ GUARDED_BY(mutex_) = 0;
  uint64_t refused_ GUARDED_BY(mutex_) = 0;
  ConsumerStats departed_ GUARDED_BY(mutex_);
  bool cancelled_ GUARDED_BY(mutex_) = false;
  wire::Bytes caps_ GUARDED_BY(mutex_);
  wire::Bytes segment_ GUARDED_BY(mutex_);
  wire::Bytes latency_ GUARDED_BY(mutex_);
  std::vector<wire::Bytes> tags_ GUARDED_BY(mutex_);
  bool at_eos_ GUARDED_BY(mutex_) = false;
  wire::Bytes message_ GUARDED_BY(mutex_);
};

}  // namespace cudaipc
