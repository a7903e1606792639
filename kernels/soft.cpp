// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The conversion kernels for the software device of the tests.
#include "tests/softcuda/host_kernel.h"
// Behind it, because that is what makes the kernels C++.
#include "kernels/format.h"
#include "kernels/params.h"

// The memory that a launch touches, plane by plane.
template <>
struct SoftcudaSpans<cudaipc::kernels::Params> {
  static size_t list(const cudaipc::kernels::Params& p, SoftcudaSpan* out);
};

#include "kernels/convert.cu"

size_t SoftcudaSpans<cudaipc::kernels::Params>::list(const cudaipc::kernels::Params& p,
                                                     SoftcudaSpan* out) {
  using namespace cudaipc::kernels;
  const auto add = [&](size_t n, const Surface& s, Storage storage, uint32_t planes, const Axis& x,
                       const Axis& y, bool target) {
    Format f{};
    f.storage = storage;
    f.sub_x = target ? x.target_sub : x.source_sub;
    f.sub_y = target ? y.target_sub : y.source_sub;
    const bool semi = storage == Storage::SemiPlanar8 || storage == Storage::SemiPlanar16;
    const bool planar = storage == Storage::Planar8 || storage == Storage::Planar16;
    const int count = semi ? 2 : planar && planes > 1 ? 3 : 1;
    const int width = target ? x.size : x.source_size, height = target ? y.size : y.source_size;
    for (int k = 0; k < count; ++k) {
      const auto base = reinterpret_cast<uintptr_t>(s.plane[k]);
      const int64_t last = (f.rows(k, height) - 1) * s.stride[k];
      const uintptr_t begin = base + static_cast<uintptr_t>(last < 0 ? last : 0);
      out[n++] = {begin, static_cast<size_t>((last < 0 ? -last : last) + f.row_bytes(k, width)),
                  target};
    }
    return n;
  };
  const size_t n = add(0, p.source, p.source_storage, p.source_planes, p.x, p.y, false);
  return add(n, p.target, p.target_storage, p.target_planes, p.x, p.y, true);
}
