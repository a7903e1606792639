// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The device of the colour tests: one context, and a stream with memory for each working thread.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/converter.h"

namespace cudaipc::test {

using Bytes = std::vector<uint8_t>;

// Device memory that only ever grows, so that thousands of small cases do not allocate.
class Memory {
 public:
  ~Memory();
  // On a multiple of 256.
  CUdeviceptr at_least(size_t bytes);

 private:
  CUdeviceptr pointer_ = 0;
  size_t size_ = 0;
};

// What one thread works with. Copies are in the stream's order: a kernel waits for them.
struct Lane {
  Lane();
  void upload(CUdeviceptr to, const Bytes& from) const;  // `from` must live until wait()
  void download(Bytes& to, CUdeviceptr from) const;
  void wait() const;

  cudaipc::Stream stream;
  Memory source, target;
};

ContextPtr context();
std::shared_ptr<const kernels::Module> module();

// Calls work(lane, i) for i in 0..count-1, on as many threads as the machine has.
void for_each(size_t count, const std::function<void(Lane&, size_t)>& work);

// A failure of the running test, of which only the first few are printed. Any thread.
void fail(const std::string& text);

// CUDAIPC_EXHAUSTIVE=1: what takes too long without a GPU.
bool exhaustive();

}  // namespace cudaipc::test
