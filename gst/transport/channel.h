// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Packets with a descriptor between two processes: the project's only socket code.
//
// SOCK_SEQPACKET over Unix sockets (unix(7)): a packet arrives whole or not at all, its descriptor
// with it, and a truncated one says so. Nothing here blocks but Channel::connect, which returns as
// soon as the kernel has queued the connection or refused it.
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gst/base/error.h"
#include "gst/base/unique_fd.h"

namespace cudaipc {

// A place in the file system, or `@name` in the abstract namespace of the network namespace.
// At most 107 bytes (unix(7)).
class Address {
 public:
  static Result<Address> parse(const std::string& text);
  // A socket in a folder of this user alone, made if missing: $XDG_RUNTIME_DIR/cudaipc/, or
  // cudaipc-UID in the temporary folder where the user has no runtime folder.
  static Result<Address> default_for_user();
  // The same place as text, without touching the file system.
  static std::string default_text();

  const std::string& text() const { return text_; }
  bool abstract() const { return text_[0] == '@'; }

 private:
  explicit Address(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

struct Credentials {
  pid_t pid = -1;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
};

// Memory for one received packet, to be used again for the next one.
struct Packet {
  static constexpr size_t kCapacity = 64 * 1024;

  std::span<const std::byte> bytes() const { return {data.get(), size}; }

  std::unique_ptr<std::byte[]> data = std::make_unique<std::byte[]>(kCapacity);
  size_t size = 0;
  size_t n_fds = 0;  // that came along; all but the first are closed already
  UniqueFd fd;
};

enum class Sent { Yes, WouldBlock, Closed };
enum class Received { Yes, Nothing, Closed, Broken };  // Broken: truncated, or an unexpected error

// One side of a conversation. Thread-safe as far as the kernel is: one thread may receive while
// others send, whole packets do not mix. Move-only.
class Channel {
 public:
  Channel() = default;
  // Fault::System with errno in `code`: ENOENT and ECONNREFUSED mean that nobody listens (yet).
  static Result<Channel> connect(const Address& address);
  // For tests: both ends in one process.
  static Result<std::array<Channel, 2>> pair();

  // `fd` is borrowed and duplicated by the kernel; -1 for none.
  Sent send(std::span<const std::byte> packet, int fd = -1);
  Received receive(Packet& packet);
  // Of the peer at the time it connected (SO_PEERCRED).
  Result<Credentials> peer() const;
  // The peer closed its end or died. Packets it sent before may still be waiting.
  bool hung_up() const;
  int fd() const { return g_socket_get_fd(socket_.get()); }
  explicit operator bool() const { return socket_ != nullptr; }
  // Wakes whoever polls this channel, here and at the peer.
  void shutdown();

 private:
  friend class Listener;
  struct Unref {
    void operator()(GSocket* socket) const { g_object_unref(socket); }
  };
  explicit Channel(GSocket* socket) : socket_(socket) {}
  std::unique_ptr<GSocket, Unref> socket_;
};

// Holds an address. A file left by a sink that died is replaced; one that a live sink holds is
// not: a lock beside the socket (`ADDRESS.lock`, kept for good) decides, without a race.
class Listener {
 public:
  static Result<Listener> bind(const Address& address, mode_t mode = 0600);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  // An empty value: nobody is waiting any more.
  Result<std::optional<Channel>> accept();
  int fd() const { return channel_.fd(); }
  const Address& address() const { return address_; }

 private:
  Listener(Address address, Channel channel, UniqueFd lock)
      : address_(std::move(address)), channel_(std::move(channel)), lock_(std::move(lock)) {}
  Address address_;
  Channel channel_;
  UniqueFd lock_;
};

}  // namespace cudaipc
