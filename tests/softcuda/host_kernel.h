// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Compiles CUDA kernels for the CPU, so that the software device runs the very same sources.
//
// Build the .cu as C++ behind this header (SOFTCUDA_HOST is defined then) into a shared object, put
// SOFTCUDA_KERNEL(name) for each kernel at its end, and name the object in SOFTCUDA_KERNELS. No
// __shared__ memory and no barriers: threads run one after another.
#pragma once

#define SOFTCUDA_HOST 1

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#include <vector_functions.h>
#include <vector_types.h>

// CUDA has them in the global namespace.
using std::max;
using std::min;

// Coordinates of the thread that is being run.
inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

template <typename T>
T __ldg(const T* p) {
  return *p;
}
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
inline unsigned atomicAdd(unsigned* p, unsigned v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
inline void softcuda_delay_ns(unsigned long long ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

// What the device asks of a kernel (see module.cpp).
struct SoftcudaLaunch {
  unsigned grid[3];
  unsigned block[3];
};
// Memory that a launch touches.
struct SoftcudaSpan {
  uintptr_t address;
  size_t size;
  bool written;
};
// Bytes of a parameter, and whether it points to memory that is read (1) or written (2); or, for a
// structure of pointers, what lists the memory behind it (at most 16 spans).
struct SoftcudaParam {
  size_t size;
  int access;
  size_t (*spans)(const void*, SoftcudaSpan*);
};
// Specialise for a structure of pointers: static size_t list(const T&, SoftcudaSpan*).
template <typename T>
struct SoftcudaSpans;

namespace softcuda_host {

template <typename T>
constexpr SoftcudaParam describe() {
  if constexpr (std::is_pointer_v<T>)
    return {sizeof(T), std::is_const_v<std::remove_pointer_t<T>> ? 1 : 2, nullptr};
  else if constexpr (std::is_class_v<T>)
    return {sizeof(T), 0, [](const void* value, SoftcudaSpan* out) {
              return SoftcudaSpans<T>::list(*static_cast<const T*>(value), out);
            }};
  else
    return {sizeof(T), 0, nullptr};
}

template <auto F>
struct Kernel;

template <typename... A, void (*F)(A...)>
struct Kernel<F> {
  static void run(const SoftcudaLaunch* launch, void** params) {
    run_all(launch, params, std::index_sequence_for<A...>());
  }
  static const SoftcudaParam* parameters(size_t* count) {
    static const SoftcudaParam all[] = {describe<std::remove_cv_t<A>>()..., {}};
    *count = sizeof...(A);
    return all;
  }

 private:
  template <size_t... I>
  static void run_all(const SoftcudaLaunch* l, void** params, std::index_sequence<I...>) {
    const auto arguments = std::make_tuple(*static_cast<std::remove_cv_t<A>*>(params[I])...);
    gridDim = dim3(l->grid[0], l->grid[1], l->grid[2]);
    blockDim = dim3(l->block[0], l->block[1], l->block[2]);
    for (unsigned bz = 0; bz < l->grid[2]; ++bz)
      for (unsigned by = 0; by < l->grid[1]; ++by)
        for (unsigned bx = 0; bx < l->grid[0]; ++bx)
          for (unsigned tz = 0; tz < l->block[2]; ++tz)
            for (unsigned ty = 0; ty < l->block[1]; ++ty)
              for (unsigned tx = 0; tx < l->block[0]; ++tx) {
                blockIdx = {bx, by, bz};
                threadIdx = {tx, ty, tz};
                F(std::get<I>(arguments)...);
              }
  }
};

}  // namespace softcuda_host

#define SOFTCUDA_KERNEL(name)                                                    \
  extern "C" __attribute__((visibility("default"))) void softcuda_kernel_##name( \
      const SoftcudaLaunch* launch, void** params) {                             \
    softcuda_host::Kernel<&name>::run(launch, params);                           \
  }                                                                              \
  extern "C" __attribute__((visibility("default")))                              \
  const SoftcudaParam* softcuda_params_##name(size_t* count) {                   \
    return softcuda_host::Kernel<&name>::parameters(count);                      \
  }
