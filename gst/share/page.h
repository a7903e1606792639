// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The page of 64-bit words that both sides of one conversation read and write (wire::Page).
#pragma once

#include <optional>

#include "gst/base/error.h"
#include "gst/base/unique_fd.h"
#include "gst/cuda/resources.h"
#include "gst/wire/message.h"

namespace cudaipc {

// A sealed memfd page, mapped; optionally known to the device. Words are written by streams of
// either process and by either CPU, and read by both: access them through here only. Thread-safe.
class SharedPage {
 public:
  // The sink's side: makes the file and seals it against resizing (memfd_create(2)), so that no
  // peer can turn an access into SIGBUS.
  static Result<SharedPage> create();
  // The source's side: refuses a file that is not one sealed page.
  static Result<SharedPage> open(UniqueFd fd);
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&&) = delete;
  ~SharedPage();

  // Makes the page known to the device; then the addresses below are valid.
  Result<void> register_with(ContextPtr context);
  bool registered() const { return registration_.has_value(); }
  CUdeviceptr ready_address(uint32_t slot) const {
    return registration_->pointer() + offsetof(wire::Page, ready) + slot * sizeof(uint64_t);
  }
  CUdeviceptr released_address(uint32_t slot) const {
    return registration_->pointer() + offsetof(wire::Page, released) + slot * sizeof(uint64_t);
  }

  uint64_t ready(uint32_t slot) const { return load(page_->ready[slot]); }
  uint64_t released(uint32_t slot) const { return load(page_->released[slot]); }
  void set_ready(uint32_t slot, uint64_t seq) { store(page_->ready[slot], seq); }
  void set_released(uint32_t slot, uint64_t seq) { store(page_->released[slot], seq); }

  int fd() const { return fd_.get(); }

 private:
  SharedPage(UniqueFd fd, wire::Page* page) : fd_(std::move(fd)), page_(page) {}
  static Result<SharedPage> map(UniqueFd fd);
  static uint64_t load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  static void store(uint64_t& word, uint64_t value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
  }

  UniqueFd fd_;
  wire::Page* page_ = nullptr;
  std::optional<HostRegistration> registration_;
};

}  // namespace cudaipc
