// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What one process can be asked to do with its GPU, in the same words for this process and a peer.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "gst/base/unique_fd.h"

namespace cudaipc::test {

// a, b, c are the request's numbers; "value" is the answer's.
enum class Op : uint32_t {
  Init,           // context, stream, kernels; value: the device's ordinal
  Attribute,      // a: which; value
  Granularity,    // value
  Alloc,          // a: bytes; value: address
  AllocManaged,   // the same
  AllocPool,      // the same
  Free,           // a: address
  ExportLegacy,   // a: address; handle
  OpenLegacy,     // handle; value: address
  CloseLegacy,    // a: address
  CreateVmm,      // a: bytes; value: address, mapped and writable
  ExportVmm,      // a: address; descriptor
  ImportVmm,      // descriptor, a: bytes, b: writable; value: address
  FreeVmm,        // a: address, of CreateVmm or ImportVmm
  Retain,         // a: address
  DmaBuf,         // a: address, b: bytes; descriptor
  CreateEvent,    // value: event; handle
  OpenEvent,      // handle; value: event
  RecordEvent,    // a: event
  QueryEvent,     // a: event
  WaitEvent,      // a: event; enqueues
  DestroyEvent,   // a: event
  MapPage,        // descriptor: the semaphore page
  StorePage,      // a: index, b: value; by the CPU
  LoadPage,       // a: index; value
  WriteValue,     // a: index, b: value; enqueues
  WaitValue,      // a: index, b: value; enqueues
  Delay,          // a: nanoseconds; enqueues
  Fill,           // a: address, b: bytes, c: value; enqueues
  FillWords,      // a: address, b: bytes, c: 64-bit pattern; copies, synchronous
  Sum,            // a: address, b: bytes; enqueues, Synchronize says the sum
  Scan,           // a: address, b: bytes, c: 64-bit pattern; enqueues, the same
  Poke,           // a: address, b: value; enqueues
  Copy,           // a: address, b: bytes; a driver copy, value: sum of the bytes
  Copy2D,         // a: address, b: bytes; rows of 256 bytes, the same
  Synchronize,    // the stream; value: of the last Sum or Scan
  QueryStream,    //
  SyncContext,    //
  DestroyStream,  //
};

struct Handle {
  uint8_t bytes[64];
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));
static_assert(sizeof(Handle) == sizeof(CUipcEventHandle));

struct Request {
  Op op;
  uint64_t a, b, c;
  Handle handle;
};

constexpr int kHung = -1;  // no answer in time
constexpr int kDied = -2;

struct Answer {
  int code = CUDA_SUCCESS;
  unsigned long long value = 0;
  Handle handle{};
  UniqueFd fd;

  bool ok() const { return code == CUDA_SUCCESS; }
  std::string result() const;  // "CUDA_SUCCESS", "hung", "died"
};

// EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, answer)
#define EXPECT_CUDA(expected, answer) EXPECT_EQ(#expected, (answer).result())
#define EXPECT_OK(answer) EXPECT_CUDA(CUDA_SUCCESS, answer)
#define ASSERT_OK(answer) ASSERT_EQ("CUDA_SUCCESS", (answer).result())

// A process with a GPU.
class Party {
 public:
  virtual ~Party() = default;
  // Takes a copy of `fd`.
  virtual Answer call(const Request& request, int fd) = 0;

  Answer operator()(Op op, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
    return call({op, a, b, c, {}}, -1);
  }
  Answer operator()(Op op, const Handle& handle) { return call({op, 0, 0, 0, handle}, -1); }
  Answer operator()(Op op, const UniqueFd& fd, uint64_t a = 0, uint64_t b = 0) {
    return call({op, a, b, 0, {}}, fd.get());
  }
  // Enqueues, waits, and says the value.
  Answer sum(uint64_t address, uint64_t bytes) { return finish((*this)(Op::Sum, address, bytes)); }
  Answer scan(uint64_t address, uint64_t bytes, uint64_t pattern) {
    return finish((*this)(Op::Scan, address, bytes, pattern));
  }
  Answer fill(uint64_t address, uint64_t bytes, uint64_t value) {
    return finish((*this)(Op::Fill, address, bytes, value));
  }

 private:
  Answer finish(Answer enqueued) {
    return enqueued.ok() ? (*this)(Op::Synchronize) : std::move(enqueued);
  }
};

// This process.
class Gpu : public Party {
 public:
  ~Gpu() override;
  Answer call(const Request& request, int fd) override;

 private:
  CUresult run(const Request& request, int fd, Answer& answer);
  CUresult init(Answer& answer);
  CUresult map_vmm(CUmemGenericAllocationHandle handle, uint64_t bytes, bool writable,
                   Answer& answer);
  CUresult free_vmm(CUdeviceptr address);
  CUresult map_page(int fd);
  CUresult copy(CUdeviceptr address, uint64_t bytes, bool rows, Answer& answer);
  CUresult launch(const char* name, void** parameters, unsigned blocks);

  struct Vmm {
    CUmemGenericAllocationHandle handle;
    uint64_t bytes;
  };
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  unsigned long long* out_ = nullptr;  // what kernels say, in host memory
  volatile uint64_t* page_ = nullptr;
  CUdeviceptr page_on_device_ = 0;
  std::map<CUdeviceptr, Vmm> vmm_;
};

}  // namespace cudaipc::test
