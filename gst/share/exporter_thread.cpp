// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The exporter's thread: who joins, who leaves, and what consumers say.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "gst/share/exporter.h"

namespace cudaipc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kJoinTimeout{5000};
constexpr milliseconds kRetireLook{50};  // leases on memory that is out of use end by GPU's hand
constexpr size_t kMaxConnections = 128;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool offers(uint32_t set, wire::SyncMode mode) {
  return (set & static_cast<uint32_t>(mode)) != 0;
}

std::string modes_text(uint32_t set) {
  std::string text;
  for (const auto mode : {wire::SyncMode::Semaphore, wire::SyncMode::Event, wire::SyncMode::Host}) {
    if (offers(set, mode))
      text += (text.empty() ? "" : ", ") + std::string(name_of(mode));
  }
  return text.empty() ? "none" : text;
}

Result<SharedPage> make_page(const ExporterConfig& config) {
  auto page = SharedPage::create();
  if (page && offers(config.sync_modes, wire::SyncMode::Semaphore))
    TRY(page->register_with(config.context));
  return page;
}

}  // namespace

void Exporter::run() {
  name_this_thread("cudaipc-sink");
  std::vector<pollfd> fds;
  std::vector<ConsumerPtr> polled;
  while (!stopping_.load()) {
    fds.assign({{wake_.get(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}});
    auto until = steady_clock::time_point::max();
    {
      MutexLock lock(mutex_);
      if (!retired_.empty()) {
        reap_all();
        collect_retired();
        if (!retired_.empty())
          until = steady_clock::now() + kRetireLook;
      }
      polled = consumers_;
      for (const auto& consumer : polled) {
        fds.push_back({consumer->channel.fd(),
                       static_cast<short>(POLLIN | (consumer->queued() ? POLLOUT : 0)), 0});
        if (consumer->state == Consumer::State::Joining)
          until = std::min(until, consumer->deadline);
      }
    }
    int timeout = -1;
    if (until != steady_clock::time_point::max())
      timeout = static_cast<int>(std::max<int64_t>(
          0, std::chrono::ceil<milliseconds>(until - steady_clock::now()).count()));
    if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR)
      break;  // EFAULT, EINVAL, ENOMEM: nothing that goes on would be right
    if (fds[0].revents) {
      uint64_t count;
      [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof(count));
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      if (fds[i + 2].revents & POLLOUT) {
        MutexLock lock(mutex_);
        polled[i]->flush();
      }
      if (fds[i + 2].revents & ~POLLOUT)
        serve(polled[i]);
    }
    if (fds[1].revents)
      accept_all();
    polled.clear();
    remove_gone();
  }
}

void Exporter::accept_all() {
  for (;;) {
    auto accepted = listener_->accept();
    if (!accepted) {
      // EMFILE and the like: the connection stays in the queue. Do not spin on it.
      config_.warn(accepted.error().message);
      pollfd p{wake_.get(), POLLIN, 0};
      poll(&p, 1, 100);
      return;
    }
    if (!*accepted)
      return;
    Channel channel = std::move(**accepted);
    auto credentials = channel.peer();
    const bool welcome = credentials && (credentials->uid == geteuid() || credentials->uid == 0);
    size_t connections = 0;
    {
      MutexLock lock(mutex_);
      connections = consumers_.size();
      if (!welcome || connections >= kMaxConnections)
        ++refused_;
    }
    if (!welcome || connections >= kMaxConnections) {
      // Not a byte for a stranger.
      config_.warn(!credentials ? credentials.error().message
                   : !welcome ? "refused a connection of user " + std::to_string(credentials->uid) +
                                    ", pid " + std::to_string(credentials->pid)
                              : "refused a connection: there are " + std::to_string(connections) +
                                    " already");
      continue;
    }
    auto page = make_page(config_);
    if (!page) {
      config_.warn("could not serve a consumer: " + page.error().message);
      continue;
    }
    auto consumer =
        std::make_shared<Consumer>(next_id_++, std::move(channel), *credentials, std::move(*page));
    consumer->deadline = steady_clock::now() + kJoinTimeout;
    wire::Hello hello;
    hello.driver_version = static_cast<uint32_t>(cu().version);
    hello.instance = instance_;
    hello.device = config_.device.uuid;
    hello.gpu = config_.device.gpu;
    hello.ipc_mode = config_.memory == MemoryKind::Vmm ? wire::IpcMode::Vmm : wire::IpcMode::Legacy;
    hello.sync_modes = config_.sync_modes;
    if (probe_event_)
      hello.probe_event = std::bit_cast<wire::CudaHandle>(probe_event_->handle());
    wire::Bytes packet;
    wire::encode(hello, packet);
    MutexLock lock(mutex_);
    consumer->send(packet, consumer->page.fd());
    consumers_.push_back(std::move(consumer));
  }
}

void Exporter::serve(const ConsumerPtr& consumer) {
  // A peer that never stops talking gets no more than its turn.
  for (int turn = 0; turn < 64; ++turn) {
    switch (consumer->channel.receive(packet_)) {
      case Received::Nothing:
        return;
      case Received::Closed: {
        MutexLock lock(mutex_);
        consumer->give_up("it left");
        return;
      }
      case Received::Broken: {
        MutexLock lock(mutex_);
        consumer->give_up("broken packet");
        return;
      }
      case Received::Yes:
        break;
    }
    if (auto handled = handle(consumer, packet_); !handled) {
      const Error& error = handled.error();
      if (error.fault != Fault::Closed)
        config_.warn("consumer " + std::to_string(consumer->id) + " (pid " +
                     std::to_string(consumer->stats.credentials.pid) +
                     ") was disconnected: " + error.message);
      MutexLock lock(mutex_);
      if (consumer->state == Consumer::State::Joining)
        ++refused_;
      consumer->give_up(error.message);
      return;
    }
  }
}

Result<void> Exporter::handle(const ConsumerPtr& consumer, Packet& packet) {
  auto message = wire::decode(packet.bytes(), packet.n_fds);
  if (!message)
    return std::move(message.error());
  bool active;
  {
    MutexLock lock(mutex_);
    active = consumer->state == Consumer::State::Active;
  }
  if (const auto* join_message = std::get_if<wire::Join>(&*message); join_message && !active)
    return join(consumer, *join_message);
  if (const auto* refused = std::get_if<wire::Refused>(&*message))
    return Error{Fault::Unsupported, 0, std::string(refused->text)};
  if (std::holds_alternative<wire::Unknown>(*message))
    return {};
  if (active) {
    if (const auto* closed = std::get_if<wire::SlotClosed>(&*message)) {
      MutexLock lock(mutex_);
      consumer->slot_closed(closed->slot, closed->generation);
      return {};
    }
    if (const auto* release = std::get_if<wire::ReleaseEvent>(&*message);
        release && consumer->stats.sync_mode == wire::SyncMode::Event) {
      // Opening takes a while; not under the lock.
      auto event = Event::open(config_.context, std::bit_cast<CUipcEventHandle>(release->event));
      if (!event)
        return std::move(event.error()).with("the consumer's release event");
      MutexLock lock(mutex_);
      consumer->set_release_event(release->slot, release->generation, std::move(*event));
      return {};
    }
  }
  return Error{Fault::Protocol, 0, "message out of turn"};
}

Error Exporter::refuse(Consumer& consumer, wire::Reason reason, const std::string& text) {
  wire::Bytes packet;
  wire::encode(wire::Refused{reason, 0, text}, packet);
  MutexLock lock(mutex_);
  consumer.send(packet);
  return {Fault::Unsupported, 0, text};
}

Result<void> Exporter::join(const ConsumerPtr& consumer, const wire::Join& join) {
  if (join.major != wire::kMajor)
    return refuse(*consumer, wire::Reason::Version,
                  "the consumer speaks protocol version " + std::to_string(join.major) +
                      ", the sink " + std::to_string(wire::kMajor));
  if (join.driver_version != static_cast<uint32_t>(cu().version))
    return refuse(*consumer, wire::Reason::Driver,
                  "the consumer has CUDA driver version " +
                      version_text(static_cast<int>(join.driver_version)) + ", the sink " +
                      version_text(cu().version) + ": use the same driver libraries on both sides");
  if (join.device != config_.device.uuid)
    return refuse(*consumer, wire::Reason::Device,
                  "the consumer uses device " + to_string(join.device) + ", the sink " +
                      to_string(config_.device.uuid));
  const bool local = join.instance == instance_;
  // One process cannot open its own event handles (CUDA_ERROR_INVALID_CONTEXT), so a local
  // consumer is synchronised otherwise even where event was asked for.
  const uint32_t offered =
      local ? config_.sync_modes | static_cast<uint32_t>(wire::SyncMode::Host) : config_.sync_modes;
  const uint32_t common = offered & join.sync_modes;
  wire::Welcome welcome;
  if (offers(common, wire::SyncMode::Semaphore))
    welcome.sync_mode = wire::SyncMode::Semaphore;
  else if (offers(common, wire::SyncMode::Event) && !local)
    welcome.sync_mode = wire::SyncMode::Event;
  else if (offers(common, wire::SyncMode::Host))
    welcome.sync_mode = wire::SyncMode::Host;
  else
    return refuse(*consumer, wire::Reason::Sync,
                  "no common sync-mode: the sink offers " + modes_text(offered) +
                      ", at the consumer work " + modes_text(join.sync_modes) +
                      ". IPC events need the same user and the same /dev/shm on both sides: set "
                      "sync-mode=auto on the sink");
  {
    MutexLock lock(mutex_);
    num_consumers_.fetch_add(1);
    welcome.share = share();
    welcome.next_seq = seq_ + 1;
    consumer->activate(welcome.sync_mode, local);
    wire::encode(welcome, message_);
    consumer->send(message_);
    for (const wire::Bytes* sticky : {&latency_, &caps_, &segment_}) {
      if (!sticky->empty())
        consumer->send(*sticky);
    }
    for (const auto& tag : tags_)
      consumer->send(tag);
    if (at_eos_) {
      wire::encode(wire::Eos{seq_}, message_);
      consumer->send(message_);
    }
    changed_.notify_all();
  }
  config_.consumers_changed(num_consumers_.load());
  return {};
}

void Exporter::remove_gone() {
  std::vector<ConsumerPtr> gone;
  bool active_left = false;
  {
    MutexLock lock(mutex_);
    const auto now = steady_clock::now();
    for (const auto& consumer : consumers_) {
      if (consumer->state == Consumer::State::Joining && now >= consumer->deadline) {
        ++refused_;
        consumer->give_up("it did not finish its greeting");
      }
      if (consumer->state != Consumer::State::Gone)
        continue;
      consumer->drop_leases(slots_);
      if (consumer->joined()) {
        num_consumers_.fetch_sub(1);
        active_left = true;
        departed_.offered += consumer->stats.offered;
        departed_.sent += consumer->stats.sent;
        departed_.dropped_share += consumer->stats.dropped_share;
        departed_.dropped_slots += consumer->stats.dropped_slots;
        departed_.dropped_socket += consumer->stats.dropped_socket;
      }
      gone.push_back(consumer);
    }
    if (gone.empty())
      return;
    std::erase_if(consumers_, [](const ConsumerPtr& consumer) {
      return consumer->state == Consumer::State::Gone;
    });
    collect_retired();
    changed_.notify_all();
  }
  if (active_left)
    config_.consumers_changed(num_consumers_.load());
  // A stream may still have to write into a page that ends here: our own work, soon done.
  ScopedContext scoped(*config_.context);
  cu().ctx_synchronize();
}

}  // namespace cudaipc
