// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Receives frames from an exporter: the source without GStreamer.
//
// A frame's memory is opened once per slot and kept until the sink takes the slot out of use. The
// promise to give a frame back is an object: dropping it, on any thread, returns the slot.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gst/base/thread.h"
#include "gst/share/page.h"
#include "gst/share/slots.h"
#include "gst/transport/channel.h"
#include "gst/wire/message.h"

namespace cudaipc {

class Exporter;

// A slot of the sink, opened here; owned by the session.
struct ImportedSlot {
  wire::Slot layout;
  CUdeviceptr pointer = 0;
  std::optional<Mapping> mapping;     // or, in the sink's own process,
  SlotPtr local;                      // the slot itself
  std::optional<Event> ready;         // sync-mode=event: the sink's
  std::optional<Event> release;       // sync-mode=event: ours
  std::atomic<uint32_t> frames{0};    // of ours that are in it: 0 or 1
  std::atomic<uint64_t> released{0};  // sequence number last given back
};

// One conversation: what the importer and its frames share. Frames may outlive the importer; the
// connection stays open until the last one is back, so that the sink does not reuse their slots.
class Session {
 public:
  Session(Channel channel_, ContextPtr context_, SharedPage page_, wire::Hello hello_)
      : channel(std::move(channel_)),
        context(std::move(context_)),
        page(std::move(page_)),
        hello(hello_) {}
  ~Session();

  // Whether this process's GPU work on the frame last held in the slot is over.
  bool quiet(const ImportedSlot& slot) const;

  Channel channel;
  const ContextPtr context;
  SharedPage page;
  const wire::Hello hello;
  wire::Welcome welcome;
  std::shared_ptr<Exporter> local;  // the sink, where it lives in this process
  // By slot number; used by the importer's thread only.
  std::array<std::unique_ptr<ImportedSlot>, wire::kMaxSlots> slots;
  // Out of use at the sink, not yet quiet here.
  std::vector<std::unique_ptr<ImportedSlot>> closing;
};

// A frame, leased from the sink until this object is released or ends. Move-only.
class ImportedFrame {
 public:
  ImportedFrame(std::shared_ptr<Session> session, ImportedSlot& slot, const wire::Frame& frame)
      : session_(std::move(session)), slot_(&slot), info_(frame) {
    slot.frames.store(1, std::memory_order_relaxed);
  }
  ImportedFrame(ImportedFrame&&) noexcept = default;
  ImportedFrame& operator=(ImportedFrame&&) = delete;
  // Gives the frame back as unread: nothing was enqueued that reads it.
  ~ImportedFrame();

  // `info().metas` is valid until the importer's next call only.
  const wire::Frame& info() const { return info_; }
  const wire::Slot& layout() const { return slot_->layout; }
  CUdeviceptr pointer() const { return slot_->pointer; }
  // Gives the frame back as soon as `stream` has done what was enqueued on it so far (host mode:
  // waits for that). Any thread.
  void release(CUstream stream);

 private:
  friend class Importer;
  void let_go();
  std::shared_ptr<Session> session_;  // empty: moved from, or given back
  ImportedSlot* slot_;
  wire::Frame info_;
};

// What the sink says, in stream order. Views are valid until the importer's next call.
using Incoming =
    std::variant<wire::Caps, wire::Segment, wire::Event, wire::Eos, wire::Latency, ImportedFrame>;

struct ImporterStats {
  uint64_t frames = 0;     // received
  uint64_t lost = 0;       // of ours that the sink dropped
  uint64_t abandoned = 0;  // received, but the sink died before they were complete
  wire::IpcMode ipc_mode = wire::IpcMode::Vmm;
  wire::SyncMode sync_mode = wire::SyncMode::Host;
  bool local = false;
};

class Importer {
 public:
  // Makes the context on the device with this UUID; called once per connection, while connecting.
  // `local`: the sink lives in this process, with this context.
  using MakeContext =
      std::function<Result<ContextPtr>(const Uuid& device, const ContextPtr& local)>;

  static Result<std::unique_ptr<Importer>> create(MakeContext make_context);
  ~Importer();

  // Connects and shakes hands; nobody listening yet is tried again until `deadline`. One thread at
  // a time calls connect(), next() and wait_ready(). Fault::Cancelled: see cancel().
  Result<void> connect(const Address& address, std::chrono::steady_clock::time_point deadline);
  void disconnect();
  bool connected() const { return session_ != nullptr; }

  // The next thing the sink says; waits for it. Fault::Closed: the sink is gone.
  Result<Incoming> next();
  // Waits on this thread until the frame is complete. Fault::Closed: the sink died before.
  Result<void> wait_ready(const ImportedFrame& frame);
  // Any thread: ends waits at once, and keeps new ones from starting until cancel(false).
  void cancel(bool cancelled);

  ImporterStats stats() const;
  const ContextPtr& context() const { return session_->context; }

 private:
  Importer(MakeContext make_context, UniqueFd wake)
      : make_context_(std::move(make_context)), wake_(std::move(wake)) {}

  Result<Channel> dial(const Address& address, std::chrono::steady_clock::time_point deadline);
  Result<void> greet(Channel channel, std::chrono::steady_clock::time_point deadline);
  Result<uint32_t> try_sync_modes(const wire::Hello& hello, const ContextPtr& context,
                                  SharedPage& page, bool local);
  // Waits until there is a packet, then takes it.
  Result<void> receive(Channel& channel, std::chrono::steady_clock::time_point deadline);
  // Waits for a descriptor; false: `deadline` passed.
  Result<bool> wait(int fd, std::chrono::steady_clock::time_point deadline);
  Result<void> open_slot(const wire::Slot& message);
  Result<void> close_slot(const wire::CloseSlot& message);
  void close_quiet();
  Result<Incoming> frame(const wire::Frame& message);

  const MakeContext make_context_;
  const UniqueFd wake_;
  std::atomic<bool> cancelled_{false};
  std::shared_ptr<Session> session_;
  Packet packet_;
  wire::Bytes out_;
  uint64_t last_seq_ = 0;
  std::atomic<uint64_t> frames_{0}, lost_{0}, abandoned_{0};
  std::atomic<wire::IpcMode> ipc_mode_{wire::IpcMode::Vmm};
  std::atomic<wire::SyncMode> sync_mode_{wire::SyncMode::Host};
  std::atomic<bool> local_{false};
};

}  // namespace cudaipc
