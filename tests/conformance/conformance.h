// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What the conformance tests share.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "gpu.h"
#include "peer.h"

namespace cudaipc::test {

constexpr uint64_t kBytes = 2 << 20;  // the smallest VMM granularity, and a block of its own
constexpr uint64_t kSmall = 64 << 10;
constexpr uint64_t kPattern = 0x1122334455667788;
constexpr uint64_t kOther = 0x0102030405060708;
constexpr uint64_t sum_of(uint64_t pattern, uint64_t bytes) {
  uint64_t sum = 0;
  for (int i = 0; i < 8; ++i)
    sum += pattern >> (8 * i) & 0xff;
  return sum * (bytes / 8);
}

// This process's GPU.
Gpu& here();

// The semaphore page: a new memfd of zeros.
UniqueFd new_page();

inline void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Polls a call until it stops saying NOT_READY, for at most 10 s.
template <typename Call>
Answer poll_ready(Call call) {
  Answer answer = call();
  for (int i = 0; i < 10000 && answer.code == CUDA_ERROR_NOT_READY; ++i) {
    sleep_ms(1);
    answer = call();
  }
  return answer;
}

// Memory with kPattern in it, gone with its scope.
class Owned {
 public:
  Owned(Party& party, bool vmm, uint64_t bytes = kBytes) : party_(party), vmm_(vmm) {
    const Answer made = party(vmm ? Op::CreateVmm : Op::Alloc, bytes);
    EXPECT_OK(made);
    address_ = made.value;
    EXPECT_OK(party(Op::FillWords, address_, bytes, kPattern));
  }
  ~Owned() {
    if (address_) {
      EXPECT_OK(free());
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  uint64_t address() const { return address_; }
  Answer free() { return party_(vmm_ ? Op::FreeVmm : Op::Free, std::exchange(address_, 0)); }
  void forget() { address_ = 0; }  // its process was killed

  // Opens it in another process; the value is the address there.
  Answer open_in(Party& other, bool writable = true) {
    const Answer shared = party_(vmm_ ? Op::ExportVmm : Op::ExportLegacy, address_);
    EXPECT_OK(shared);
    return vmm_ ? other(Op::ImportVmm, shared.fd, kBytes, writable)
                : other(Op::OpenLegacy, shared.handle);
  }
  Answer close_in(Party& other, uint64_t there) {
    return other(vmm_ ? Op::FreeVmm : Op::CloseLegacy, there);
  }

 private:
  Party& party_;
  const bool vmm_;
  uint64_t address_ = 0;
};

}  // namespace cudaipc::test
