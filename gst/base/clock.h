// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The clock that all processes of a machine share.
#pragma once

#include <time.h>

#include <cstdint>

namespace cudaipc {

// CLOCK_MONOTONIC in nanoseconds: comparable between processes, untouched by the wall clock.
inline uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace cudaipc
