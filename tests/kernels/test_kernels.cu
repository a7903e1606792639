// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Kernels of the tests, for the GPU and, by host_kernel.h, for the software device.

// Waits that long on the stream.
extern "C" __global__ void delay_ns(unsigned long long ns) {
#ifdef SOFTCUDA_HOST
  softcuda_delay_ns(ns);
#else
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < ns);
#endif
}

__device__ inline unsigned pattern(unsigned seed, unsigned x, unsigned y) {
  return seed * 2654435761u + x * 7919u + y * 104729u;
}

// Writes the pattern of `seed` over rows of 32-bit words.
extern "C" __global__ void stamp(unsigned* p, unsigned pitch, unsigned words, unsigned rows,
                                 unsigned seed) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < words && y < rows)
    reinterpret_cast<unsigned*>(reinterpret_cast<char*>(p) + static_cast<size_t>(y) * pitch)[x] =
        pattern(seed, x, y);
}

// Counts the words that differ from it.
extern "C" __global__ void check_stamp(const unsigned* p, unsigned pitch, unsigned words,
                                       unsigned rows, unsigned seed,
                                       unsigned long long* mismatches) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < words && y < rows &&
      reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(p) +
                                        static_cast<size_t>(y) * pitch)[x] != pattern(seed, x, y))
    atomicAdd(mismatches, 1ull);
}

extern "C" __global__ void fill(unsigned char* p, unsigned long long n, unsigned value) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    p[i] = static_cast<unsigned char>(value);
}

extern "C" __global__ void sum(const unsigned char* p, unsigned long long n,
                               unsigned long long* out) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long total = 0;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    total += p[i];
  atomicAdd(out, total);
}

// Writes one byte.
extern "C" __global__ void poke(unsigned char* p, unsigned value) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *p = static_cast<unsigned char>(value);
}

// Counts aligned 64-bit words that equal `pattern64`.
extern "C" __global__ void scan(const unsigned char* p, unsigned long long n,
                                unsigned long long pattern64, unsigned long long* hits) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 8; i += step) {
    if (reinterpret_cast<const unsigned long long*>(p)[i] == pattern64)
      atomicAdd(hits, 1ull);
  }
}

#ifdef SOFTCUDA_HOST
SOFTCUDA_KERNEL(delay_ns)
SOFTCUDA_KERNEL(stamp)
SOFTCUDA_KERNEL(check_stamp)
SOFTCUDA_KERNEL(fill)
SOFTCUDA_KERNEL(sum)
SOFTCUDA_KERNEL(poke)
SOFTCUDA_KERNEL(scan)
#endif
