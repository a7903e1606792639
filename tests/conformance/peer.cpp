// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Requests and answers over a socket pair, with descriptors; and the places a peer can go to.
#include "peer.h"

#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "gst/base/error.h"

namespace cudaipc::test {
namespace {

constexpr char kSocketVariable[] = "CONFORMANCE_SOCKET";
constexpr char kPeerOption[] = "--peer=";
constexpr uid_t kNobody = 65534;

// What goes over the socket for an Answer.
struct WireAnswer {
  int code;
  int error;  // errno of the way to the place
  unsigned long long value;
  Handle handle;
};

bool send_message(int socket, const void* data, size_t size, int fd) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

bool receive_message(int socket, void* data, size_t size, UniqueFd& fd) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(size))
    return false;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header && header->cmsg_type == SCM_RIGHTS) {
    int received;
    memcpy(&received, CMSG_DATA(header), sizeof(int));
    fd.reset(received);
  }
  return true;
}

bool own_shm() {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") == 0;
}

// The rest of the program is the first process of a new PID namespace.
bool own_pids() {
  if (unshare(CLONE_NEWPID) != 0)
    return false;
  const pid_t child = fork();
  if (child > 0) {
    int status;
    waitpid(child, &status, 0);
    _exit(0);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child == 0;
}

bool go_to(const std::string& place) {
  if (place == "ipc")
    return unshare(CLONE_NEWIPC) == 0;
  if (place == "net")
    return unshare(CLONE_NEWNET) == 0;
  if (place == "shm")
    return unshare(CLONE_NEWNS) == 0 && own_shm();
  if (place == "all")
    return unshare(CLONE_NEWNS | CLONE_NEWIPC) == 0 && own_shm() && own_pids() &&
           mount("proc", "/proc", "proc", 0, nullptr) == 0;
  if (place == "user")
    // Dumpable, as a program that this user had started.
    return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0 &&
           prctl(PR_SET_DUMPABLE, 1) == 0;
  return true;
}

[[noreturn]] void serve(int socket, const std::string& place) {
  WireAnswer hello{};
  if (!go_to(place))
    hello.error = errno;
  // Never destroyed: a peer ends at once, whatever its GPU is doing.
  Gpu& gpu = *new Gpu;
  if (!hello.error)
    hello.code = gpu.call({Op::Init, 0, 0, 0, {}}, -1).code;
  send_message(socket, &hello, sizeof(hello), -1);
  for (;;) {
    Request request;
    UniqueFd fd;
    if (!receive_message(socket, &request, sizeof(request), fd))
      _exit(0);
    const Answer answer = gpu.call(request, fd.get());
    const WireAnswer wire{answer.code, 0, answer.value, answer.handle};
    send_message(socket, &wire, sizeof(wire), answer.fd.get());
  }
}

}  // namespace

Peer::Peer(const std::string& place) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    ADD_FAILURE() << "socketpair: " << errno_text(errno);
    return;
  }
  socket_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  const std::string option = kPeerOption + place;
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int kept = dup(theirs.get());  // without close-on-exec
    setenv(kSocketVariable, std::to_string(kept).c_str(), 1);
    execl("/proc/self/exe", "conformance", option.c_str(), nullptr);
    _exit(127);
  }
  WireAnswer hello{};
  UniqueFd none;
  pollfd poller{socket_.get(), POLLIN, 0};
  if (poll(&poller, 1, patience_) != 1 ||
      !receive_message(socket_.get(), &hello, sizeof(hello), none))
    ADD_FAILURE() << "the peer did not start";
  if (hello.error)
    obstacle_ = "not permitted to start a peer at \"" + place + "\": " + errno_text(hello.error);
  Answer answer;
  answer.code = hello.code;
  EXPECT_OK(answer);
}

Answer Peer::call(const Request& request, int fd) {
  Answer answer;
  pollfd poller{socket_.get(), POLLIN, 0};
  WireAnswer wire;
  if (!send_message(socket_.get(), &request, sizeof(request), fd)) {
    answer.code = kDied;
  } else if (poll(&poller, 1, patience_) != 1) {
    kill();
    answer.code = kHung;
  } else if (!receive_message(socket_.get(), &wire, sizeof(wire), answer.fd)) {
    answer.code = kDied;
  } else {
    answer.code = wire.code;
    answer.value = wire.value;
    answer.handle = wire.handle;
  }
  return answer;
}

void Peer::kill() {
  if (pid_ <= 0)
    return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void serve_if_peer(int argc, char** argv) {
  const char* const socket = getenv(kSocketVariable);
  const std::string option = argc > 1 ? argv[1] : "";
  if (socket && option.starts_with(kPeerOption))
    serve(atoi(socket), option.substr(strlen(kPeerOption)));
}

}  // namespace cudaipc::test
