// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// How the importer finds a sink and agrees with it.
#include <sys/random.h>

#include <bit>
#include <cerrno>

#include "gst/share/exporter.h"
#include "gst/share/importer.h"

namespace cudaipc {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kRetry{20};
constexpr milliseconds kGreeting{5000};

std::string version_text(uint32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Result<void> Importer::connect(const Address& address, steady_clock::time_point deadline) {
  for (;;) {
    auto channel = dial(address, deadline);
    if (!channel)
      return std::move(channel.error());
    auto greeted = greet(std::move(*channel), steady_clock::now() + kGreeting);
    // A sink that closes while greeting is one that is just stopping: the next may come.
    if (greeted || greeted.error().fault != Fault::Closed || steady_clock::now() >= deadline)
      return greeted;
    TRY(wait(-1, steady_clock::now() + kRetry));
  }
}

Result<Channel> Importer::dial(const Address& address, steady_clock::time_point deadline) {
  for (;;) {
    auto channel = Channel::connect(address);
    if (channel)
      return channel;
    const int code = channel.error().code;
    if (code != ENOENT && code != ECONNREFUSED && code != EAGAIN)
      return channel;
    if (steady_clock::now() >= deadline)
      return Error{Fault::Timeout, code,
                   "no sink listens at '" + address.text() + "' (" + errno_text(code) +
                       "): start the producer, or set the same `address` on both sides"};
    auto waited = wait(-1, std::min(deadline, steady_clock::now() + kRetry));
    if (!waited)
      return std::move(waited.error());
  }
}

Result<void> Importer::greet(Channel channel, steady_clock::time_point deadline) {
  TRY(receive(channel, deadline));
  auto message = wire::decode(packet_.bytes(), packet_.n_fds);
  if (!message)
    return std::move(message.error());
  if (const auto* refused = std::get_if<wire::Refused>(&*message))
    return Error{Fault::Unsupported, 0, std::string(refused->text)};
  const auto* received = std::get_if<wire::Hello>(&*message);
  if (!received)
    return Error{Fault::Protocol, 0, "the sink did not say hello"};
  const wire::Hello hello = *received;
  const auto refuse = [&](wire::Reason reason, const std::string& text) {
    wire::encode(wire::Refused{reason, 0, text}, out_);
    channel.send(out_);
    return Error{Fault::Unsupported, 0, text};
  };
  if (hello.major != wire::kMajor)
    return refuse(wire::Reason::Version, "the sink speaks protocol version " +
                                             std::to_string(hello.major) + ", this source " +
                                             std::to_string(wire::kMajor));
  if (hello.driver_version != static_cast<uint32_t>(cu().version))
    return refuse(wire::Reason::Driver, "the sink has CUDA driver version " +
                                            version_text(hello.driver_version) + ", this source " +
                                            version_text(static_cast<uint32_t>(cu().version)) +
                                            ": use the same driver libraries on both sides");
  auto page = SharedPage::open(std::move(packet_.fd));
  if (!page)
    return std::move(page.error());
  auto local = Exporter::find_local(hello.instance);
  auto context = make_context_(hello.device, local ? local->config().context : ContextPtr());
  if (!context) {
    refuse(wire::Reason::Device, context.error().message);
    return std::move(context.error());
  }
  auto modes = try_sync_modes(hello, *context, *page, local != nullptr);
  if (!modes)
    return std::move(modes.error());

  auto session = std::make_shared<Session>(std::move(channel), *context, std::move(*page), hello);
  session->local = local;
  wire::Join join;
  join.driver_version = static_cast<uint32_t>(cu().version);
  join.device = hello.device;
  join.sync_modes = *modes;
  if (local)
    join.instance = hello.instance;
  else if (getrandom(join.instance.data(), join.instance.size(), 0) < 0)
    return system_error("getrandom", "", errno);
  wire::encode(join, out_);
  if (session->channel.send(out_) != Sent::Yes)
    return Error{Fault::Closed, 0, "the sink closed the connection while greeting"};
  TRY(receive(session->channel, deadline));
  message = wire::decode(packet_.bytes(), packet_.n_fds);
  if (!message)
    return std::move(message.error());
  if (const auto* refused = std::get_if<wire::Refused>(&*message))
    return Error{Fault::Unsupported, 0, std::string(refused->text)};
  const auto* welcome = std::get_if<wire::Welcome>(&*message);
  if (!welcome || (static_cast<uint32_t>(welcome->sync_mode) & *modes) == 0)
    return Error{Fault::Protocol, 0, "the sink answered a greeting with something else"};
  session->welcome = *welcome;
  last_seq_ = 0;
  ipc_mode_.store(hello.ipc_mode);
  sync_mode_.store(welcome->sync_mode);
  local_.store(local != nullptr);
  session_ = std::move(session);
  return {};
}

Result<uint32_t> Importer::try_sync_modes(const wire::Hello& hello, const ContextPtr& context,
                                          SharedPage& page, bool local) {
  const auto bit = [](wire::SyncMode mode) { return static_cast<uint32_t>(mode); };
  uint32_t modes = bit(wire::SyncMode::Host);
  auto info = device_info_of(context->device);
  if (!info)
    return std::move(info.error());
  if (info->memory_operations && info->host_registration &&
      (hello.sync_modes & bit(wire::SyncMode::Semaphore))) {
    // Tried for real: the attributes are right on paper only on some virtual GPUs.
    if (page.register_with(context))
      modes |= bit(wire::SyncMode::Semaphore);
  }
  if (!local && (hello.sync_modes & bit(wire::SyncMode::Event))) {
    if (Event::open(context, std::bit_cast<CUipcEventHandle>(hello.probe_event)))
      modes |= bit(wire::SyncMode::Event);
  }
  return modes & (hello.sync_modes | (local ? bit(wire::SyncMode::Host) : 0));
}

}  // namespace cudaipc
