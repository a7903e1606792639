// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The frame path of the source: what the sink says, slots, waits, releases.
#include "gst/share/importer.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <thread>

#include "gst/share/exporter.h"

namespace cudaipc {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// --- Session and frames

Session::~Session() {
  // The last frame is back, but the GPU work that reads it may still run. The sink must not see
  // the connection end before, or it would write over what is being read. Our own work: it ends.
  const auto deadline = steady_clock::now() + milliseconds(1000);
  const auto settle = [&](const std::unique_ptr<ImportedSlot>& slot) {
    while (slot && !quiet(*slot) && steady_clock::now() < deadline)
      std::this_thread::sleep_for(microseconds(100));
  };
  std::for_each(slots.begin(), slots.end(), settle);
  std::for_each(closing.begin(), closing.end(), settle);
}

bool Session::quiet(const ImportedSlot& slot) const {
  if (slot.frames.load(std::memory_order_acquire) != 0)
    return false;
  const uint64_t seq = slot.released.load();
  if (seq == 0)
    return true;
  if (welcome.sync_mode == wire::SyncMode::Event)
    return slot.release->query() != CUDA_ERROR_NOT_READY;
  // A newer frame in the same slot number means that the sink saw the release.
  return page.released(slot.layout.slot) >= seq;
}

void ImportedFrame::let_go() {
  slot_->released.store(info_.seq, std::memory_order_relaxed);
  slot_->frames.store(0, std::memory_order_release);
  session_.reset();
}

ImportedFrame::~ImportedFrame() {
  if (!session_)
    return;
  // The sink asks the event as well, so it must have been recorded for this frame. Where that
  // fails the context is lost, and with it whatever could still read.
  if (session_->welcome.sync_mode == wire::SyncMode::Event)
    (void)slot_->release->record(CU_STREAM_PER_THREAD);
  session_->page.set_released(info_.slot, info_.seq);
  let_go();
}

void ImportedFrame::release(CUstream stream) {
  if (!session_)
    return;
  CUresult code = CUDA_SUCCESS;
  {
    ScopedContext scoped(*session_->context);
    code = scoped.result();
    if (code == CUDA_SUCCESS) {
      switch (session_->welcome.sync_mode) {
        case wire::SyncMode::Semaphore:
          code = cu().stream_write_value_64(stream, session_->page.released_address(info_.slot),
                                            info_.seq, CU_STREAM_WRITE_VALUE_DEFAULT);
          break;
        case wire::SyncMode::Event:
          code = cu().event_record(slot_->release->get(), stream);
          break;
        case wire::SyncMode::Host:
          code = cu().stream_synchronize(stream);
          break;
      }
    }
  }
  // A context that fails runs nothing that could still read the frame.
  if (code != CUDA_SUCCESS || session_->welcome.sync_mode != wire::SyncMode::Semaphore)
    session_->page.set_released(info_.slot, info_.seq);
  let_go();
}

// --- Importer

Result<std::unique_ptr<Importer>> Importer::create(MakeContext make_context) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake)
    return system_error("eventfd", "", errno);
  return std::unique_ptr<Importer>(new Importer(std::move(make_context), std::move(wake)));
}

Importer::~Importer() {
  disconnect();
}

void Importer::disconnect() {
  if (!session_)
    return;
  // Slots that no frame uses are closed now; the rest goes with the last frame.
  session_.reset();
  last_seq_ = 0;
}

void Importer::cancel(bool cancelled) {
  cancelled_.store(cancelled);
  if (cancelled) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof(one));
  } else {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof(count));
  }
}

Result<bool> Importer::wait(int fd, steady_clock::time_point deadline) {
  for (;;) {
    if (cancelled_.load())
      return Error{Fault::Cancelled, 0, "cancelled"};
    pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
    int timeout = -1;
    if (deadline != steady_clock::time_point::max())
      timeout = static_cast<int>(std::clamp<int64_t>(
          std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count(), 0, 60'000));
    const int n = poll(fds, fd < 0 ? 1 : 2, timeout);
    if (n < 0 && errno != EINTR)
      return system_error("poll", "", errno);
    if (cancelled_.load())
      continue;
    if (n > 0 && fd >= 0 && fds[1].revents)
      return true;
    if (deadline != steady_clock::time_point::max() && steady_clock::now() >= deadline)
      return false;
  }
}

Result<void> Importer::receive(Channel& channel, steady_clock::time_point deadline) {
  for (;;) {
    auto waited = wait(channel.fd(), deadline);
    if (!waited)
      return std::move(waited.error());
    if (!*waited)
      return Error{Fault::Timeout, 0, "the sink does not answer"};
    switch (channel.receive(packet_)) {
      case Received::Yes:
        return {};
      case Received::Nothing:
        break;
      case Received::Closed:
        return Error{Fault::Closed, 0, "the sink closed the connection or died"};
      case Received::Broken:
        return Error{Fault::Protocol, 0, "broken packet from the sink"};
    }
  }
}

Result<Incoming> Importer::next() {
  for (;;) {
    close_quiet();
    TRY(receive(session_->channel, steady_clock::time_point::max()));
    auto message = wire::decode(packet_.bytes(), packet_.n_fds);
    if (!message)
      return std::move(message.error());
    if (const auto* m = std::get_if<wire::Frame>(&*message))
      return frame(*m);
    if (const auto* caps = std::get_if<wire::Caps>(&*message))
      return Incoming(*caps);
    if (const auto* segment = std::get_if<wire::Segment>(&*message))
      return Incoming(*segment);
    if (const auto* event = std::get_if<wire::Event>(&*message))
      return Incoming(*event);
    if (const auto* eos = std::get_if<wire::Eos>(&*message))
      return Incoming(*eos);
    if (const auto* latency = std::get_if<wire::Latency>(&*message))
      return Incoming(*latency);
    if (const auto* refused = std::get_if<wire::Refused>(&*message))
      return Error{Fault::Unsupported, 0, std::string(refused->text)};
    if (const auto* slot = std::get_if<wire::Slot>(&*message))
      TRY(open_slot(*slot));
    else if (const auto* closed = std::get_if<wire::CloseSlot>(&*message))
      TRY(close_slot(*closed));
    else if (!std::holds_alternative<wire::Unknown>(*message))
      return Error{Fault::Protocol, 0, "message out of turn"};
  }
}

Result<Incoming> Importer::frame(const wire::Frame& message) {
  const auto& slot = session_->slots[message.slot];
  if (!slot || slot->layout.generation != message.generation)
    return Error{Fault::Protocol, 0,
                 "frame in slot " + std::to_string(message.slot) + ", which was not announced"};
  if (slot->frames.load(std::memory_order_acquire) != 0)
    return Error{Fault::Protocol, 0,
                 "frame in slot " + std::to_string(message.slot) + ", which is still in use"};
  if (message.seq <= last_seq_)
    return Error{Fault::Protocol, 0, "frame numbers go backwards"};
  last_seq_ = message.seq;
  frames_.fetch_add(1, std::memory_order_relaxed);
  lost_.store(message.dropped, std::memory_order_relaxed);
  return Incoming(ImportedFrame(session_, *slot, message));
}

Result<void> Importer::wait_ready(const ImportedFrame& frame) {
  const Session& session = *frame.session_;
  const uint32_t slot = frame.info_.slot;
  // First without giving up the processor: frames are mostly complete, or about to be. Then at
  // growing intervals, looking for the sink's death from time to time.
  constexpr int kSpins = 64;
  const auto complete = [&]() -> Result<bool> {
    switch (session.welcome.sync_mode) {
      case wire::SyncMode::Semaphore:
        return session.page.ready(slot) >= frame.info_.seq;
      case wire::SyncMode::Event: {
        // A sink that stops says by its CPU that all is complete: its events go with it.
        if (session.page.ready(slot) >= frame.info_.seq)
          return true;
        if (!frame.slot_->ready)
          return false;
        const CUresult code = frame.slot_->ready->query();
        if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
          return cuda_error("event_query", code, "slot " + std::to_string(slot));
        return code == CUDA_SUCCESS;
      }
      case wire::SyncMode::Host:
        break;
    }
    return true;
  };
  auto nap = microseconds(20);
  for (int i = 0;; ++i) {
    auto done = complete();
    if (!done)
      return std::move(done.error());
    if (*done)
      return {};
    if (i < kSpins) {
      sched_yield();
      continue;
    }
    if (cancelled_.load())
      return Error{Fault::Cancelled, 0, "cancelled"};
    if (i % 8 == 0 && session.channel.hung_up()) {
      // It may have completed just before.
      done = complete();
      if (done && *done)
        return {};
      abandoned_.fetch_add(1);
      return Error{Fault::Closed, 0, "the sink died before the frame was complete"};
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 5 / 4, microseconds(200));
  }
}

Result<void> Importer::open_slot(const wire::Slot& message) {
  Session& session = *session_;
  const std::string about = "slot " + std::to_string(message.slot) + ", " +
                            std::to_string(message.size) +
                            " bytes, ipc-mode=" + name_of(session.hello.ipc_mode);
  if (session.slots[message.slot])
    return Error{Fault::Protocol, 0, "slot announced twice: " + about};
  const bool vmm = session.hello.ipc_mode == wire::IpcMode::Vmm;
  const bool local = message.local != 0;
  if (packet_.n_fds != (vmm && !local ? 1u : 0u) || local != (session.local != nullptr))
    return Error{Fault::Protocol, 0, "wrong kind of memory: " + about};
  auto slot = std::make_unique<ImportedSlot>();
  slot->layout = message;
  if (local) {
    slot->local = session.local->slot(message.slot, message.generation);
    if (!slot->local)
      return Error{Fault::Closed, 0, "the sink in this process is stopping"};
    slot->pointer = slot->local->memory.pointer();
  } else {
    auto mapping =
        vmm ? Mapping::import_vmm(session.context, std::move(packet_.fd), message.size)
            : Mapping::import_legacy(session.context, std::bit_cast<CUipcMemHandle>(message.memory),
                                     message.size);
    if (!mapping)
      return std::move(mapping.error())
          .with("could not open the sink's memory (" + about + "); try the other ipc-mode on the " +
                "sink");
    slot->mapping.emplace(std::move(*mapping));
    slot->pointer = slot->mapping->pointer();
  }
  if (session.welcome.sync_mode == wire::SyncMode::Event) {
    auto ready = Event::open(session.context, std::bit_cast<CUipcEventHandle>(message.ready_event));
    if (ready)
      slot->ready.emplace(std::move(*ready));
    else if (!session.channel.hung_up())
      return std::move(ready.error()).with("could not open the sink's event (" + about + ")");
    auto release = Event::create(session.context, Event::Use::Interprocess);
    if (!release)
      return std::move(release.error()).with(about);
    slot->release.emplace(std::move(*release));
    wire::encode(wire::ReleaseEvent{message.slot, 0, message.generation,
                                    std::bit_cast<wire::CudaHandle>(slot->release->handle())},
                 out_);
    // Where the sink has gone there is nobody to tell, but frames may still be in the socket: only
    // receiving finds the end.
    session.channel.send(out_);
  }
  session.slots[message.slot] = std::move(slot);
  return {};
}

Result<void> Importer::close_slot(const wire::CloseSlot& message) {
  auto& slot = session_->slots[message.slot];
  if (!slot || slot->layout.generation != message.generation)
    return Error{Fault::Protocol, 0, "a slot closed that was not open"};
  session_->closing.push_back(std::move(slot));
  return {};
}

void Importer::close_quiet() {
  Session& session = *session_;
  if (session.closing.empty())
    return;
  std::erase_if(session.closing, [&](std::unique_ptr<ImportedSlot>& slot) {
    if (!session.quiet(*slot))
      return false;
    const wire::SlotClosed message{slot->layout.slot, 0, slot->layout.generation};
    slot.reset();
    wire::encode(message, out_);
    // A full socket: the sink has not read hundreds of these, and gives up on us if it must.
    session.channel.send(out_);
    return true;
  });
}

ImporterStats Importer::stats() const {
  ImporterStats s;
  s.frames = frames_.load();
  s.lost = lost_.load();
  s.abandoned = abandoned_.load();
  s.ipc_mode = ipc_mode_.load();
  s.sync_mode = sync_mode_.load();
  s.local = local_.load();
  return s;
}

}  // namespace cudaipc
