// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// What a test may ask the software CUDA device beyond CUDA; find these by dlsym() on libcuda.so.1.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Calls of one entry point so far, by this process, or by its threads of one name.
uint64_t softcuda_calls(const char* function);
uint64_t softcuda_calls_on_thread(const char* thread, const char* function);
// Makes the n-th call from now on fail with `code`; n 0: none.
void softcuda_fail_next(const char* function, uint64_t n, int code);
// Objects alive: contexts, streams, events, memory, host memory, registrations, mappings, ...
uint64_t softcuda_live_objects(void);
uint64_t softcuda_violations(void);
// Bytes of device memory that this process allocated.
uint64_t softcuda_memory_in_use(void);

#ifdef __cplusplus
}
#endif
