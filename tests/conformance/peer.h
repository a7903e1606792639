// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Two real processes for the conformance program: this one and itself again.
//
// A forked child cannot use CUDA after cuInit, so the peer is executed anew and told by name what
// to do. The two talk over a socket pair; a message is bytes and perhaps a descriptor.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace conformance {

class Link {
 public:
  explicit Link(int fd) : fd_(fd) {}
  Link(Link&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ~Link() {
    if (fd_ >= 0)
      close(fd_);
  }
  int fd() const { return fd_; }

  template <typename T>
  void send(const T& value, int descriptor = -1) const {
    iovec iov{const_cast<T*>(&value), sizeof(T)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      memcpy(CMSG_DATA(c), &descriptor, sizeof(int));
    }
    if (sendmsg(fd_, &message, MSG_NOSIGNAL) < 0)
      perror("conformance: sendmsg");
  }
  // False: the peer said nothing for 20 seconds, or is gone.
  template <typename T>
  bool receive(T& value, int* descriptor = nullptr) const {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, 20000) <= 0)
      return false;
    iovec iov{&value, sizeof(T)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(fd_, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof(T)))
      return false;
    if (cmsghdr* c = CMSG_FIRSTHDR(&message); c && descriptor)
      memcpy(descriptor, CMSG_DATA(c), sizeof(int));
    return true;
  }

 private:
  int fd_;
};

// The other process; killed with this object.
class Peer {
 public:
  explicit Peer(const std::string& role, const std::string& isolation = "")
      : link_(start(role, isolation)) {}
  ~Peer() { kill(); }
  const Link& link() const { return link_; }
  // Its exit status; -1: it had to be killed after 20 seconds.
  int wait() {
    for (int i = 0; i < 2000 && pid_ > 0; ++i) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      usleep(10000);
    }
    kill();
    return -1;
  }
  void kill() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int start(const std::string& role, const std::string& isolation) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
      abort();
    const std::string number = std::to_string(fds[1]);
    pid_ = fork();
    if (pid_ == 0) {
      fcntl(fds[1], F_SETFD, 0);
      execl("/proc/self/exe", "conformance", "--peer", role.c_str(), number.c_str(),
            isolation.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(fds[1]);
    return fds[0];
  }

  pid_t pid_ = -1;
  Link link_;
};

}  // namespace conformance
