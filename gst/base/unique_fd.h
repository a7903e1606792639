// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Sole owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace cudaipc {

// Move-only; empty (-1) after a move. Wrap a descriptor on the line that receives it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    // close() is not retried: on Linux the descriptor is gone even after EINTR (close(2)).
    if (int old = std::exchange(fd_, fd); old >= 0)
      ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace cudaipc
