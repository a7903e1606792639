// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// A second process of the test, which does with its GPU what it is asked.
//
// It is this program executed anew, because a forked child cannot use CUDA after cuInit.
#pragma once

#include <sys/types.h>

#include <string>

#include "gpu.h"

namespace cudaipc::test {

class Peer : public Party {
 public:
  // `place`: where it runs, before its first CUDA call: "here", "ipc", "net", "user", "shm", "all".
  explicit Peer(const std::string& place = "here");
  ~Peer() override { kill(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Why it could not go to its place, or empty.
  const std::string& obstacle() const { return obstacle_; }
  // Answers "hung", and kills the peer, after so long.
  void set_patience(int milliseconds) { patience_ = milliseconds; }
  Answer call(const Request& request, int fd) override;
  void kill();  // SIGKILL

 private:
  pid_t pid_ = -1;
  UniqueFd socket_;
  int patience_ = 20000;
  std::string obstacle_;
};

// For main(): serves and does not return if this process is a peer.
void serve_if_peer(int argc, char** argv);

}  // namespace cudaipc::test
