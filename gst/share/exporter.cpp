// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The frame path of the sink: slots, offers, waits. The conversation is in exporter_thread.cpp.
#include "gst/share/exporter.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "gst/base/clock.h"

namespace cudaipc {
namespace {

using std::chrono::microseconds;

// How often a blocked producer looks at the consumers' pages: a GPU writes them, and nobody wakes
// us for that.
constexpr microseconds kLook{50};

// Exporters of this process, for importers that find themselves in it.
struct Registry {
  Mutex mutex;
  std::map<wire::Id, std::weak_ptr<Exporter>> exporters GUARDED_BY(mutex);
};
Registry& registry() {
  static Registry* const r = new Registry;  // not destroyed: importers may ask until the very end
  return *r;
}

wire::Id random_id() {
  wire::Id id{};
  size_t got = 0;
  while (got < id.size()) {
    const ssize_t n = getrandom(id.data() + got, id.size() - got, 0);
    if (n > 0)
      got += static_cast<size_t>(n);
  }
  return id;
}

Error cancelled() {
  return {Fault::Cancelled, 0, "cancelled"};
}

}  // namespace

uint32_t possible_sync_modes(const ContextPtr& context, const DeviceInfo& device) {
  uint32_t modes = static_cast<uint32_t>(wire::SyncMode::Host);
  if (Event::create(context, Event::Use::Interprocess))
    modes |= static_cast<uint32_t>(wire::SyncMode::Event);
  if (device.memory_operations && device.host_registration) {
    auto page = SharedPage::create();
    if (page && page->register_with(context))
      modes |= static_cast<uint32_t>(wire::SyncMode::Semaphore);
  }
  return modes;
}

Result<std::shared_ptr<Exporter>> Exporter::start(ExporterConfig config, Listener listener) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake)
    return system_error("eventfd", "", errno);
  config.max_slots = std::min(config.max_slots, wire::kMaxSlots);
  std::shared_ptr<Exporter> exporter(
      new Exporter(std::move(config), std::move(listener), std::move(wake)));
  if (exporter->config_.sync_modes & static_cast<uint32_t>(wire::SyncMode::Event)) {
    auto event = Event::create(exporter->config_.context, Event::Use::Interprocess);
    if (!event)
      return std::move(event.error()).with("sync-mode=event");
    exporter->probe_event_.emplace(std::move(*event));
  }
  {
    Registry& r = registry();
    MutexLock lock(r.mutex);
    r.exporters[exporter->instance_] = exporter;
  }
  exporter->thread_ = std::thread([e = exporter.get()] { e->run(); });
  return exporter;
}

Exporter::Exporter(ExporterConfig config, Listener listener, UniqueFd wake_fd)
    : config_(std::move(config)),
      instance_(random_id()),
      listener_(std::move(listener)),
      wake_(std::move(wake_fd)),
      slots_(config_.context, config_.memory, config_.max_slots) {}

Exporter::~Exporter() {
  stop();
}

void Exporter::stop() {
  if (!thread_.joinable())
    return;
  cancel(true);
  stopping_.store(true);
  wake();
  thread_.join();
  listener_.reset();
  {
    Registry& r = registry();
    MutexLock lock(r.mutex);
    r.exporters.erase(instance_);
  }
  std::vector<ConsumerPtr> leaving;
  {
    MutexLock lock(mutex_);
    for (const auto& consumer : consumers_)
      consumer->flush();
    leaving.swap(consumers_);
    num_consumers_.store(0);
    for (const auto& consumer : leaving)
      consumer->drop_leases(slots_);
  }
  // Streams may still have to write ready words into the pages that end here, and frames into the
  // slots: our own work, so the wait has an end.
  ScopedContext scoped(*config_.context);
  cu().ctx_synchronize();
  {
    // Consumers that have yet to look at frames cannot ask events that are gone.
    MutexLock lock(mutex_);
    for (const auto& consumer : leaving) {
      for (uint32_t i = 0; i < wire::kMaxSlots; ++i)
        consumer->page.set_ready(i, seq_);
    }
  }
  leaving.clear();
  probe_event_.reset();
  MutexLock lock(mutex_);
  collect_retired();
}

std::shared_ptr<Exporter::Generation> Exporter::new_generation(const Layout& layout) {
  MutexLock lock(mutex_);
  return std::make_shared<Generation>(shared_from_this(), next_generation_++, layout);
}

Result<SlotPtr> Exporter::acquire(const Generation& generation) {
  MutexLock lock(mutex_);
  reap_all();
  SlotPtr evicted;
  auto slot = slots_.acquire(generation.number(), generation.layout(), evicted);
  slots_max_ = std::max(slots_max_, slots_.size());
  if (evicted) {
    for (const auto& consumer : consumers_)
      consumer->close_slot(evicted, config_.memory);
  }
  return slot;
}

void Exporter::release(Slot& slot) {
  MutexLock lock(mutex_);
  slots_.release(slot);
  if (!retired_.empty())
    collect_retired();
}

void Exporter::retire(uint64_t generation) {
  MutexLock lock(mutex_);
  retired_.push_back(generation);
  reap_all();
  collect_retired();
  // Whatever is still leased is collected by the thread.
  if (!retired_.empty())
    wake();
}

void Exporter::reap_all() {
  for (const auto& consumer : consumers_)
    consumer->reap(slots_);
}

void Exporter::collect_retired() {
  std::erase_if(retired_, [this](uint64_t generation) REQUIRES(mutex_) {
    bool all = true;
    for (uint32_t i = 0; i < wire::kMaxSlots; ++i) {
      const SlotPtr& slot = slots_.at(i);
      if (!slot || slot->generation != generation)
        continue;
      if (SlotTable::idle(*slot))
        remove_slot(slot);
      else
        all = false;
    }
    return all;
  });
}

void Exporter::remove_slot(const SlotPtr& slot) {
  const SlotPtr removed = slots_.remove(slot->id);
  for (const auto& consumer : consumers_)
    consumer->close_slot(removed, config_.memory);
}

uint32_t Exporter::share() const {
  const uint32_t spare = slots_.budget() - reserve();
  const uint32_t active = std::max(1u, num_consumers_.load());
  return std::min(spare, std::max(2u, spare / active));
}

uint32_t Exporter::reserve() const {
  return std::clamp(slots_.budget() / 4, 1u, 4u);
}

void Exporter::broadcast() {
  for (const auto& consumer : consumers_) {
    if (consumer->state == Consumer::State::Active)
      consumer->send(message_);
    if (consumer->state == Consumer::State::Gone || consumer->queued())
      wake();
  }
}

Result<void> Exporter::set_caps(const std::string& caps) {
  if (caps.size() > wire::kMaxCaps)
    return Error{Fault::Unsupported, 0,
                 "caps of " + std::to_string(caps.size()) + " bytes are longer than the " +
                     std::to_string(wire::kMaxCaps) + " that can travel"};
  MutexLock lock(mutex_);
  wire::encode(wire::Caps{++caps_serial_, static_cast<uint32_t>(caps.size()), caps}, message_);
  caps_ = message_;
  broadcast();
  return {};
}

void Exporter::set_segment(const wire::Segment& segment) {
  MutexLock lock(mutex_);
  at_eos_ = false;
  wire::encode(segment, message_);
  segment_ = message_;
  broadcast();
}

void Exporter::set_latency(uint64_t latency_ns) {
  MutexLock lock(mutex_);
  wire::encode(wire::Latency{latency_ns}, message_);
  if (latency_ == message_)
    return;
  latency_ = message_;
  broadcast();
}

Result<void> Exporter::event(const wire::Event& event) {
  if (event.text.size() > wire::kMaxEvent)
    return Error{Fault::Unsupported, 0, "event of " + std::to_string(event.text.size()) + " bytes"};
  MutexLock lock(mutex_);
  wire::encode(event, message_);
  if (event.kind == wire::EventKind::Tag) {
    // Late joiners get the recent ones; a stream that sends tags for ever must not grow this.
    constexpr size_t kKept = 8;
    if (tags_.size() == kKept)
      tags_.erase(tags_.begin());
    tags_.push_back(message_);
  }
  broadcast();
  return {};
}

void Exporter::eos() {
  MutexLock lock(mutex_);
  at_eos_ = true;
  wire::encode(wire::Eos{seq_}, message_);
  broadcast();
}

bool Exporter::everybody_has_room(const Slot& slot) {
  reap_all();
  for (const auto& consumer : consumers_) {
    if (consumer->state != Consumer::State::Active)
      continue;
    if (consumer->queued())
      consumer->flush();
    if (consumer->queued() ||
        consumer->room(slot, slots_, share(), reserve()) != Consumer::Room::Yes)
      return false;
  }
  return true;
}

Result<void> Exporter::offer(const SlotPtr& slot, wire::Frame& frame, CUstream stream) {
  ScopedContext scoped(*config_.context);
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  bool synchronised = false;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (config_.slow_consumer == SlowConsumer::Block) {
        while (!everybody_has_room(*slot)) {
          if (cancelled_)
            return cancelled();
          changed_.wait_for(mutex_, kLook);
        }
      } else {
        reap_all();
      }
      const bool host =
          std::any_of(consumers_.begin(), consumers_.end(), [](const ConsumerPtr& consumer) {
            return consumer->state == Consumer::State::Active &&
                   consumer->stats.sync_mode == wire::SyncMode::Host;
          });
      if (!host || synchronised)
        return send_to_all(slot, frame, stream);
    }
    // Somebody takes complete frames only: that is what sync-mode=host means. Not under the lock.
    TRY_CU(stream_synchronize, stream);
    synchronised = true;
  }
}

Result<void> Exporter::send_to_all(const SlotPtr& slot, wire::Frame& frame, CUstream stream) {
  const bool block = config_.slow_consumer == SlowConsumer::Block;
  frame.slot = slot->id;
  frame.generation = slot->generation;
  frame.caps_serial = caps_serial_;
  frame.seq = ++seq_;
  at_eos_ = false;
  const uint32_t may_hold = share();
  bool record = false;
  for (const auto& consumer : consumers_) {
    if (consumer->state != Consumer::State::Active)
      continue;
    if (!consumer->announced(*slot))
      TRY(consumer->announce(slot, config_.memory));
    record |= consumer->stats.sync_mode == wire::SyncMode::Event;
  }
  if (record) {
    if (const CUresult code = slot->ready->record(stream); code != CUDA_SUCCESS)
      return cuda_error("event_record", code, "slot " + std::to_string(slot->id));
  }
  for (const auto& consumer : consumers_) {
    if (consumer->state != Consumer::State::Active)
      continue;
    ++consumer->stats.offered;
    switch (consumer->room(*slot, slots_, may_hold, reserve())) {
      case Consumer::Room::ShareFull:
        ++consumer->stats.dropped_share;
        continue;
      case Consumer::Room::SlotsFull:
        ++consumer->stats.dropped_slots;
        continue;
      case Consumer::Room::Yes:
        break;
    }
    if (consumer->stats.sync_mode == wire::SyncMode::Semaphore) {
      if (const CUresult code =
              cu().stream_write_value_64(stream, consumer->page.ready_address(slot->id), frame.seq,
                                         CU_STREAM_WRITE_VALUE_DEFAULT);
          code != CUDA_SUCCESS)
        return cuda_error("stream_write_value_64", code, "slot " + std::to_string(slot->id));
    }
    frame.sent_ns = monotonic_ns();
    consumer->send_frame(slots_, slot, frame, block);
    if (consumer->state == Consumer::State::Gone || consumer->queued())
      wake();
  }
  return {};
}

Result<void> Exporter::wait_for_consumers(unsigned count) {
  MutexLock lock(mutex_);
  while (num_consumers_.load() < count) {
    if (cancelled_)
      return cancelled();
    changed_.wait(mutex_);
  }
  return {};
}

void Exporter::cancel(bool value) {
  MutexLock lock(mutex_);
  cancelled_ = value;
  changed_.notify_all();
}

ExporterStats Exporter::stats() {
  MutexLock lock(mutex_);
  reap_all();
  ExporterStats s;
  s.frames = seq_;
  s.slots = slots_.size();
  s.slots_max = slots_max_;
  s.refused = refused_;
  s.departed = departed_;
  for (const auto& consumer : consumers_) {
    if (consumer->state == Consumer::State::Active)
      s.consumers.push_back(consumer->stats);
  }
  return s;
}

std::shared_ptr<Exporter> Exporter::find_local(const wire::Id& instance) {
  Registry& r = registry();
  MutexLock lock(r.mutex);
  const auto found = r.exporters.find(instance);
  return found == r.exporters.end() ? nullptr : found->second.lock();
}

SlotPtr Exporter::slot(uint32_t id, uint64_t generation) {
  MutexLock lock(mutex_);
  if (id >= wire::kMaxSlots)
    return {};
  const SlotPtr& slot = slots_.at(id);
  return slot && slot->generation == generation ? slot : SlotPtr();
}

void Exporter::wake() {
  const uint64_t one = 1;
  // A full counter means that the thread will wake anyway.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

}  // namespace cudaipc
