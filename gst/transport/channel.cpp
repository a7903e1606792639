// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Unix sockets through GIO.
#include "gst/transport/channel.h"

#include <fcntl.h>
#include <gio/gunixfdmessage.h>
#include <gio/gunixsocketaddress.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace cudaipc {
namespace {

constexpr size_t kMaxAddress = sizeof(sockaddr_un::sun_path) - 1;

struct ObjectUnref {
  void operator()(gpointer object) const { g_object_unref(object); }
};
template <typename T>
using ObjectPtr = std::unique_ptr<T, ObjectUnref>;

struct ErrorFree {
  void operator()(GError* error) const { g_error_free(error); }
};
using GErrorPtr = std::unique_ptr<GError, ErrorFree>;

Error from_gio(const char* what, const std::string& about, const GError* error, int code) {
  return {Fault::System, code, std::string(what) + " (" + about + "): " + error->message};
}

ObjectPtr<GSocketAddress> to_gio(const Address& address) {
  if (address.abstract())
    return ObjectPtr<GSocketAddress>(g_unix_socket_address_new_with_type(
        address.text().c_str() + 1, -1, G_UNIX_SOCKET_ADDRESS_ABSTRACT));
  return ObjectPtr<GSocketAddress>(g_unix_socket_address_new(address.text().c_str()));
}

Result<GSocket*> new_socket(const std::string& about) {
  GError* error = nullptr;
  GSocket* socket = g_socket_new(G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_SEQPACKET,
                                 G_SOCKET_PROTOCOL_DEFAULT, &error);
  if (!socket) {
    const int code = errno;
    GErrorPtr owned(error);
    return from_gio("socket", about, error, code);
  }
  g_socket_set_blocking(socket, FALSE);
  return socket;
}

std::string runtime_folder() {
  const char* runtime = g_getenv("XDG_RUNTIME_DIR");
  if (runtime && runtime[0] == '/')
    return std::string(runtime) + "/cudaipc";
  return std::string(g_get_tmp_dir()) + "/cudaipc-" + std::to_string(geteuid());
}

}  // namespace

Result<Address> Address::parse(const std::string& text) {
  const bool abstract = !text.empty() && text[0] == '@';
  if (text.empty() || text == "@")
    return Error{Fault::System, EINVAL, "the address is empty"};
  if (text.size() > kMaxAddress)
    return Error{Fault::System, ENAMETOOLONG,
                 "address '" + text + "' has " + std::to_string(text.size()) +
                     " bytes; a Unix socket address has at most " + std::to_string(kMaxAddress) +
                     ": choose a shorter path, or an abstract address (@name)"};
  if (!abstract && text.back() == '/')
    return Error{Fault::System, EISDIR, "address '" + text + "' names a folder"};
  return Address(text);
}

std::string Address::default_text() {
  return runtime_folder() + "/video.sock";
}

Result<Address> Address::default_for_user() {
  const std::string folder = runtime_folder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("mkdir", folder, errno);
  // In the world-writable temporary folder somebody else may have been first.
  struct stat st {};
  if (lstat(folder.c_str(), &st) != 0)
    return system_error("lstat", folder, errno);
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
    return Error{Fault::System, EPERM,
                 "folder '" + folder + "' is not this user's alone: set `address` to a place of " +
                     "your own"};
  return parse(folder + "/video.sock");
}

Result<Channel> Channel::connect(const Address& address) {
  auto socket = new_socket(address.text());
  if (!socket)
    return std::move(socket.error());
  Channel channel(*socket);
  auto target = to_gio(address);
  GError* error = nullptr;
  errno = 0;
  if (!g_socket_connect(channel.socket_.get(), target.get(), nullptr, &error)) {
    const int code = errno;
    GErrorPtr owned(error);
    return from_gio("connect", address.text(), error, code);
  }
  return channel;
}

Result<std::array<Channel, 2>> Channel::pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return system_error("socketpair", "", errno);
  std::array<Channel, 2> channels;
  for (int i = 0; i < 2; ++i) {
    GError* error = nullptr;
    GSocket* socket = g_socket_new_from_fd(fds[i], &error);
    if (!socket) {
      GErrorPtr owned(error);
      ::close(fds[i]);
      if (i == 0)
        ::close(fds[1]);
      return from_gio("socket from descriptor", "pair", error, 0);
    }
    g_socket_set_blocking(socket, FALSE);
    channels[i] = Channel(socket);
  }
  return channels;
}

Sent Channel::send(std::span<const std::byte> packet, int fd) {
  ObjectPtr<GSocketControlMessage> attached;
  if (fd >= 0) {
    attached.reset(g_unix_fd_message_new());
    GError* error = nullptr;
    if (!g_unix_fd_message_append_fd(G_UNIX_FD_MESSAGE(attached.get()), fd, &error)) {
      GErrorPtr owned(error);
      return Sent::Closed;
    }
  }
  GSocketControlMessage* messages[1] = {attached.get()};
  GOutputVector vector{packet.data(), packet.size()};
  GError* error = nullptr;
  if (g_socket_send_message(socket_.get(), nullptr, &vector, 1, fd >= 0 ? messages : nullptr,
                            fd >= 0 ? 1 : 0, G_SOCKET_MSG_NONE, nullptr, &error) >= 0)
    return Sent::Yes;
  GErrorPtr owned(error);
  // ETOOMANYREFS (too many descriptors in flight) passes as soon as the peer reads.
  return g_error_matches(error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK) || errno == ETOOMANYREFS
             ? Sent::WouldBlock
             : Sent::Closed;
}

Received Channel::receive(Packet& packet) {
  packet.size = 0;
  packet.n_fds = 0;
  packet.fd.reset();
  GInputVector vector{packet.data.get(), Packet::kCapacity};
  GSocketControlMessage** messages = nullptr;
  gint n_messages = 0;
  gint flags = G_SOCKET_MSG_NONE;
  GError* error = nullptr;
  const auto take = [&] {
    errno = 0;
    return g_socket_receive_message(socket_.get(), nullptr, &vector, 1, &messages, &n_messages,
                                    &flags, nullptr, &error);
  };
  gssize size = take();
  if (size < 0 && errno == ECONNRESET) {
    // The peer closed with packets of ours unread. The kernel says so once, ahead of what the peer
    // sent before: those packets are still there.
    g_clear_error(&error);
    size = take();
  }
  // GIO set close-on-exec while receiving. Own every descriptor before anything is judged.
  for (gint i = 0; i < n_messages; ++i) {
    ObjectPtr<GSocketControlMessage> message(messages[i]);
    if (!G_IS_UNIX_FD_MESSAGE(message.get()))
      continue;
    gint count = 0;
    gint* fds = g_unix_fd_message_steal_fds(G_UNIX_FD_MESSAGE(message.get()), &count);
    for (gint k = 0; k < count; ++k) {
      UniqueFd fd(fds[k]);
      if (packet.n_fds++ == 0)
        packet.fd = std::move(fd);
    }
    g_free(fds);
  }
  g_free(messages);
  if (size < 0) {
    GErrorPtr owned(error);
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
      return Received::Nothing;
    return g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED) ? Received::Closed
                                                                            : Received::Broken;
  }
  if (size == 0)
    return Received::Closed;
  if (flags & (MSG_TRUNC | MSG_CTRUNC))
    return Received::Broken;
  packet.size = static_cast<size_t>(size);
  return Received::Yes;
}

Result<Credentials> Channel::peer() const {
  // Not g_socket_get_credentials(): it does not tell the group.
  ucred raw{};
  socklen_t size = sizeof(raw);
  if (getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &raw, &size) != 0)
    return system_error("getsockopt", "SO_PEERCRED", errno);
  return Credentials{raw.pid, raw.uid, raw.gid};
}

bool Channel::hung_up() const {
  pollfd p{fd(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0;
}

void Channel::shutdown() {
  ::shutdown(fd(), SHUT_RDWR);
}

Result<Listener> Listener::bind(const Address& address, mode_t mode) {
  const std::string& text = address.text();
  UniqueFd lock;
  if (!address.abstract()) {
    const std::string lock_path = text + ".lock";
    lock.reset(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      const int code = errno;
      auto error = system_error("open", lock_path, code);
      if (code == ENOENT)
        error.message += ": the folder of address '" + text + "' does not exist, create it first";
      else if (code == EACCES)
        error.message += ": no permission to listen at '" + text + "'";
      return error;
    }
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return Error{Fault::System, EADDRINUSE,
                   "address '" + text + "' is taken by a live sink (" + lock_path +
                       " is locked): stop it or choose another address"};
    // The lock is ours, so a socket file here is a leftover, unless another program listens.
    struct stat st {};
    if (lstat(text.c_str(), &st) == 0) {
      if (!S_ISSOCK(st.st_mode))
        return Error{Fault::System, EEXIST, "address '" + text + "' is a file that is no socket"};
      auto probe = Channel::connect(address);
      if (probe || probe.error().code != ECONNREFUSED)
        return Error{Fault::System, EADDRINUSE,
                     "address '" + text + "' is taken by another live program"};
      if (unlink(text.c_str()) != 0)
        return system_error("unlink", text, errno);
    }
  }
  auto socket = new_socket(text);
  if (!socket)
    return std::move(socket.error());
  Channel channel(*socket);
  auto target = to_gio(address);
  GError* error = nullptr;
  errno = 0;
  if (!g_socket_bind(channel.socket_.get(), target.get(), FALSE, &error)) {
    const int code = errno;
    GErrorPtr owned(error);
    if (code == EADDRINUSE)
      return Error{Fault::System, code,
                   "address '" + text +
                       "' is taken by a live sink or another program: stop it or " +
                       "choose another address"};
    return from_gio("bind", text, error, code);
  }
  Listener listener(address, std::move(channel), std::move(lock));
  // Before listen(): nobody can have connected under the umask's mode.
  if (!address.abstract() && chmod(text.c_str(), mode) != 0)
    return system_error("chmod", text, errno);
  g_socket_set_listen_backlog(listener.channel_.socket_.get(), 64);
  if (!g_socket_listen(listener.channel_.socket_.get(), &error)) {
    const int code = errno;
    GErrorPtr owned(error);
    return from_gio("listen", text, error, code);
  }
  return listener;
}

Listener::~Listener() {
  // Under the lock, so the file is still the one made here.
  if (channel_ && lock_)
    unlink(address_.text().c_str());
}

Result<std::optional<Channel>> Listener::accept() {
  GError* error = nullptr;
  GSocket* socket = g_socket_accept(channel_.socket_.get(), nullptr, &error);
  if (!socket) {
    const int code = errno;
    GErrorPtr owned(error);
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
      return std::optional<Channel>();
    return from_gio("accept", address_.text(), error, code);
  }
  g_socket_set_blocking(socket, FALSE);
  return std::optional<Channel>(Channel(socket));
}

}  // namespace cudaipc
