// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Formats and colours to kernel parameters, and the choice of the kernel.
#include "kernels/converter.h"

#include <algorithm>
#include <cstring>

#include "kernels/table.h"

extern "C" const unsigned char cudaipc_kernels_image[];

namespace cudaipc::kernels {
namespace {

// --- The vector kernels

enum class Class { None, sp8, sp16, p8, p16, f8, f16, x4, x3, x10 };

Class class_of(const Format& f) {
  switch (f.storage) {
    case Storage::SemiPlanar8:
      return Class::sp8;
    case Storage::SemiPlanar16:
      return Class::sp16;
    case Storage::Planar8:
      if (f.planes == 1 || f.sub_x != f.sub_y)
        return Class::None;
      return f.sub_x ? Class::p8 : Class::f8;
    case Storage::Planar16:
      if (f.sub_x != f.sub_y)
        return Class::None;
      return f.sub_x ? Class::p16 : Class::f16;
    case Storage::Packed4x8:
      return Class::x4;
    case Storage::Packed3x8:
      return Class::x3;
    case Storage::Packed1010102:
      return Class::x10;
  }
  return Class::None;
}

enum class Kind { Expand, Repack, Reduce, Map };

struct Entry {
  Kind kind;
  Class from, to;
  int width, height;
  const char* name;
};

constexpr Entry kVectorKernels[] = {
#define ENTRY(kind, from, to, width, height, blocks) \
  {Kind::kind, Class::from, Class::to, width, height, "convert_" #from "_" #to},
    CUDAIPC_VECTOR_KERNELS(ENTRY)
#undef ENTRY
};

// What a tile's row takes of one plane, in bytes, is accessed in words of the largest power of two
// in it, up to 16.
uint8_t alignment(const Format& format, int plane, int tile_width) {
  const int64_t bytes = format.row_bytes(plane, tile_width);
  return static_cast<uint8_t>(std::min<int64_t>(bytes & -bytes, 16));
}

// --- Siting

// Weights, of 4, of the two chroma samples around luma sample `parity`: a luma sample 2i lies
// between chroma samples i-1 and i, 2i+1 between i and i+1; linear.
void up_weights(Phase phase, uint8_t (&up)[2][2]) {
  switch (phase) {
    case Phase::Centred:
      up[0][0] = 1, up[0][1] = 3, up[1][0] = 3, up[1][1] = 1;
      break;
    case Phase::Even:
      up[0][0] = 0, up[0][1] = 4, up[1][0] = 2, up[1][1] = 2;
      break;
    case Phase::Odd:
      up[0][0] = 2, up[0][1] = 2, up[1][0] = 4, up[1][1] = 0;
      break;
  }
}

// Weights, of 4, of luma samples 2i-1 to 2i+2 around chroma sample i: the mean of two, or 1-2-1.
void down_weights(Phase phase, uint8_t (&down)[4]) {
  constexpr uint8_t kWeights[3][4] = {{0, 2, 2, 0}, {1, 2, 1, 0}, {0, 1, 2, 1}};
  std::copy_n(kWeights[static_cast<int>(phase)], 4, down);
}

Phase phase_of(const Picture& picture, bool vertical, int component) {
  return vertical ? picture.siting.y[component] : picture.siting.x;
}

// The components of an axis in the order of the matrix; `order[k]` is the logical one (1 or 2).
Axis axis_of(const Picture& from, const Picture& to, bool vertical, const int (&from_order)[2],
             const int (&to_order)[2]) {
  Axis axis{};
  axis.size = vertical ? to.height : to.width;
  axis.source_size = vertical ? from.height : from.width;
  axis.source_sub = vertical ? from.format->sub_y : from.format->sub_x;
  axis.target_sub = vertical ? to.format->sub_y : to.format->sub_x;
  for (int k = 0; k < 2; ++k) {
    const Phase source = phase_of(from, vertical, from_order[k] - 1);
    up_weights(source, axis.up[k]);
    down_weights(phase_of(to, vertical, to_order[k] - 1), axis.down[k]);
    for (int d = 0; d < 2; ++d)
      axis.direct[k][d] = source == phase_of(to, vertical, to_order[d] - 1);
  }
  return axis;
}

// --- Order

// Place of logical component k in the matrix: planes are put in logical order instead.
int place(const Format& format, int k) {
  const bool planar = format.storage == Storage::Planar8 || format.storage == Storage::Planar16;
  return planar ? k : format.position[k];
}

// The logical components at the matrix's places 1 and 2, where they are chroma.
void chroma_order(const Format& format, int (&order)[2]) {
  order[0] = 1, order[1] = 2;
  for (int k = 1; k < 3; ++k) {
    if (format.subsampled())
      order[place(format, k) - 1] = k;
  }
}

Surface surface_of(const Format& format, const Frame& frame) {
  Surface s{};
  for (int k = 0; k < 3; ++k) {
    const int plane = format.planes == 3 ? format.position[k] : std::min<int>(k, format.planes - 1);
    s.plane[k] = reinterpret_cast<unsigned char*>(frame.plane[plane]);
    s.stride[k] = frame.stride[plane];
  }
  return s;
}

// What the kinds of table.h take for granted, but for what depends on the frame.
bool suits(Kind kind, const Params& p, const Format& out) {
  for (const Axis* axis : {&p.x, &p.y}) {
    // Both components at one place, none behind its pair of luma samples.
    if ((axis->source_sub && memcmp(axis->up[0], axis->up[1], sizeof(axis->up[0])) != 0) ||
        (axis->target_sub && (memcmp(axis->down[0], axis->down[1], sizeof(axis->down[0])) != 0 ||
                              axis->down[0][3] != 0)))
      return false;
  }
  switch (kind) {
    case Kind::Expand:
      return out.rgb;
    case Kind::Repack:
      return p.m[0][1] == 0 && p.m[0][2] == 0;
    case Kind::Reduce:
    case Kind::Map:
      break;
  }
  return true;
}

const Entry* find_entry(const Params& p, const Format& in, const Format& out) {
  if (in.alpha_first)
    return nullptr;
  const Class a = class_of(in), b = class_of(out);
  for (const Entry& entry : kVectorKernels) {
    if (entry.from == a && entry.to == b)
      return suits(entry.kind, p, out) ? &entry : nullptr;
  }
  return nullptr;
}

// Whether the vector kernels can address a picture of `height` rows from pixel (x, y) on.
bool aligned(const Surface& s, const Format& format, int height, int x, int y,
             const uint8_t (&align)[3]) {
  const bool semi =
      format.storage == Storage::SemiPlanar8 || format.storage == Storage::SemiPlanar16;
  for (int k = 0; k < format.planes; ++k) {
    const bool sub = k > 0 && format.sub_x;
    // A pair is as wide as two luma samples.
    const int64_t bytes = semi ? format.row_bytes(0, x) : format.row_bytes(0, sub ? x / 2 : x);
    const int64_t row = k > 0 && format.sub_y ? y / 2 : y;
    const auto address =
        reinterpret_cast<uintptr_t>(s.plane[k]) + static_cast<uintptr_t>(row * s.stride[k] + bytes);
    if ((address | static_cast<uintptr_t>(s.stride[k])) & (align[k] - 1u))
      return false;
    // 32-bit offsets.
    if (s.stride[k] <= 0 || s.stride[k] * format.rows(k, height) > UINT32_MAX)
      return false;
  }
  return true;
}

}  // namespace

// --- Module

Result<std::shared_ptr<const Module>> Module::load(ContextPtr context) {
  ScopedContext scoped(*context);
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  CUmodule module = nullptr;
  const CUresult code = cu().module_load_data(&module, cudaipc_kernels_image);
  if (code == CUDA_ERROR_NO_BINARY_FOR_GPU || code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return Error{Fault::Unsupported, code,
                 "the conversion kernels have no code for this GPU: build with a CUDA Toolkit that "
                 "knows it (" +
                     cuda_error("module_load_data", code).message + ")"};
  if (code != CUDA_SUCCESS)
    return cuda_error("module_load_data", code, "conversion kernels");
  return std::shared_ptr<const Module>(new Module(std::move(context), module));
}

Module::~Module() {
  ScopedContext scoped(*context_);
  cu().module_unload(module_);
}

Result<CUfunction> Module::function(const char* name) const {
  ScopedContext scoped(*context_);
  CUfunction function = nullptr;
  if (const CUresult code = cu().module_get_function(&function, module_, name);
      code != CUDA_SUCCESS)
    return cuda_error("module_get_function", code, name);
  return function;
}

// --- Converter

void Converter::prepare_any() {
  const Format &in = *from_.format, &out = *to_.format;
  Params& p = any_.params;
  int in_order[2], out_order[2];
  chroma_order(in, in_order);
  chroma_order(out, out_order);
  p.x = axis_of(from_, to_, false, in_order, out_order);
  p.y = axis_of(from_, to_, true, in_order, out_order);
  p.source_storage = in.storage;
  p.target_storage = out.storage;
  p.source_planes = in.planes;
  p.target_planes = out.gray() ? 1 : 3;
  p.source_shift = in.shift;
  p.target_shift = out.shift;
  p.mask = (((1u << in.bits) - 1) << in.shift) * 0x10001u;
  p.source_rotate = in.alpha_first ? 8 : 0;
  p.target_rotate = out.alpha_first ? 8 : 0;
  p.max = (1u << out.bits) - 1;

  const Affine map = conversion(from_.colour, in.bits, to_.colour, out.bits);
  for (int i = 0; i < 3; ++i) {
    float(&row)[4] = p.m[place(out, i)];
    for (int j = 0; j < 3; ++j) {
      const bool absent = in.gray() && j > 0;
      p.centre[place(in, j)] = absent ? 0 : static_cast<float>(map.centre[j]);
      row[place(in, j)] = absent ? 0 : static_cast<float>(map.m[i][j]);
    }
    row[3] = static_cast<float>(map.offset[i]);
  }

  const int alpha_bits = out.storage == Storage::Packed1010102 ? 2 : 8;
  p.alpha_max = (1u << alpha_bits) - 1;
  if (in.alpha_bits && out.alpha_bits)
    p.alpha_scale = static_cast<float>(max_code(out.alpha_bits) / max_code(in.alpha_bits));
  else
    p.alpha_offset = static_cast<float>(p.alpha_max);  // opaque; padding is all ones, too
}

void Converter::prepare_vector(int chosen) {
  const auto kind = static_cast<Kind>(chosen);
  const Format &in = *from_.format, &out = *to_.format;
  Params& p = vector_.params;
  p = any_.params;
  const double scale = 1.0 / (1 << in.shift), unit = 1 / max_code(out.bits);
  p.scale = static_cast<float>(scale);
  p.max_float = static_cast<float>(p.max);
  p.last_float = 8388608.0f;
  if (out.storage == Storage::Packed4x8 && class_of(in) != Class::x4 && class_of(in) != Class::x10)
    p.last_float += static_cast<float>(p.alpha_max << 8);
  // Bytes 0 and 1 hold the first two components, 4 and 5 the last and alpha.
  p.selector = out.alpha_first ? 0x4105 : 0x5410;

  const Affine map = conversion(from_.colour, in.bits, to_.colour, out.bits);
  for (int i = 0; i < 3; ++i) {
    float(&row)[4] = p.unit[place(out, i)];
    // A chroma filter's weights, of which the last is 1, add up to this.
    const double sum = kind == Kind::Reduce && i > 0
                           ? (p.x.down[0][0] ? 4.0 : 2.0) * (p.y.down[0][0] ? 4.0 : 2.0)
                           : 1.0;
    double constant = map.offset[i];
    for (int j = 0; j < 3; ++j) {
      // What a chroma filter sums up is too much to centre each.
      if (kind == Kind::Reduce)
        constant -= map.m[i][j] * map.centre[j];
      row[place(in, j)] = static_cast<float>(map.m[i][j] * unit / sum);
    }
    row[3] = static_cast<float>(constant * unit);
  }
  for (int j = 0; j < 3; ++j)
    p.bias[place(in, j)] = static_cast<float>(8388608.0 + map.centre[j] * (1 << in.shift));
  p.luma = static_cast<float>(map.m[0][0] * unit * scale);
  p.left = p.x.down[0][0] ? 1.0f : 0.0f;
  p.centre_x = p.x.down[0][0] ? 2.0f : 1.0f;
  if (kind != Kind::Expand)
    return;

  p.chroma_scale = p.scale / 16;
  p.chroma_bias = -(8388608.0f * p.chroma_scale + p.centre[1]);
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 2; ++c) {
      p.weights[r][c] = 0;
      for (int n = 0; n < 4; ++n)
        p.weights[r][c] |= static_cast<uint32_t>(p.y.up[0][r][n / 2] * p.x.up[0][c][n % 2])
                           << (8 * n);
    }
  }
  // Red takes Cr, blue Cb.
  const bool red_first = place(out, 0) == 0;
  int a = place(in, red_first ? 2 : 1), b = 3 - a;  // stored places of what first and last take
  if (in.planes == 3 && a == 2) {
    vector_.swap_planes = true;
    for (int i = 0; i < 3; ++i) {
      std::swap(p.m[i][1], p.m[i][2]);
      std::swap(p.unit[i][1], p.unit[i][2]);
    }
    std::swap(a, b);
  }
  p.swap = a == 2;
  p.constant = p.unit[0][3];
  p.first0 = p.unit[0][a];
  p.middle0 = p.unit[1][a];
  p.middle1 = p.unit[1][b];
  p.last1 = p.unit[2][b];
}

Result<Converter> Converter::create(std::shared_ptr<const Module> module, const Picture& from,
                                    const Picture& to) {
  const Format &in = *from.format, &out = *to.format;
  if (!out.target)
    return Error{Fault::Unsupported, 0, std::string(out.name) + " cannot be written"};
  Converter c;
  c.from_ = from;
  c.to_ = to;
  auto any = module->function("convert_any");
  if (!any)
    return std::move(any.error());
  c.any_.function = *any;
  c.prepare_any();
  if (const Entry* entry = find_entry(c.any_.params, in, out)) {
    auto function = module->function(entry->name);
    if (!function)
      return std::move(function.error());
    c.vector_.function = *function;
    c.vector_.tile_width = entry->width;
    c.vector_.tile_height = entry->height;
    c.prepare_vector(static_cast<int>(entry->kind));
    for (int k = 0; k < 3; ++k) {
      c.from_align_[k] = alignment(in, k, entry->width);
      c.to_align_[k] = alignment(out, k, entry->width);
    }
  }
  c.module_ = std::move(module);
  return c;
}

Params Converter::fill(const Kernel& kernel, const Frame& from, int width, int height, int x, int y,
                       const Frame& to) const {
  Params p = kernel.params;
  p.source = surface_of(*from_.format, from);
  p.target = surface_of(*to_.format, to);
  if (kernel.swap_planes) {
    std::swap(p.source.plane[1], p.source.plane[2]);
    std::swap(p.source.stride[1], p.source.stride[2]);
  }
  p.x.source_size = width;
  p.y.source_size = height;
  p.x.offset = x;
  p.y.offset = y;
  // Between two samples of the source there is none at the same place.
  if (x & 1)
    memset(p.x.direct, 0, sizeof(p.x.direct));
  if (y & 1)
    memset(p.y.direct, 0, sizeof(p.y.direct));
  return p;
}

// Whether the vector kernel can do this frame.
bool Converter::takes(const Params& p) const {
  for (const Axis* axis : {&p.x, &p.y}) {
    if (axis->source_sub && (axis->offset & 1))
      return false;
    if (axis->source_sub && axis->target_sub && !axis->direct[0][0])
      return false;
  }
  return aligned(p.source, *from_.format, p.y.source_size, p.x.offset, p.y.offset, from_align_) &&
         aligned(p.target, *to_.format, p.y.size, 0, 0, to_align_);
}

bool Converter::vectorised(const Frame& from, int x, int y, const Frame& to) const {
  return vector_.function && takes(fill(vector_, from, from_.width, from_.height, x, y, to));
}

Result<bool> Converter::convert(const Frame& from, int width, int height, int x, int y,
                                const Frame& to, CUstream stream) const {
  if (x < 0 || y < 0 || x > width - to_.width || y > height - to_.height)
    return Error{Fault::Unsupported, 0,
                 "the rectangle of " + std::to_string(to_.width) + "x" +
                     std::to_string(to_.height) + " at " + std::to_string(x) + "," +
                     std::to_string(y) + " is not inside the picture of " + std::to_string(width) +
                     "x" + std::to_string(height)};
  const Kernel* kernel = &any_;
  Params p;
  if (vector_.function) {
    p = fill(vector_, from, width, height, x, y, to);
    if (takes(p))
      kernel = &vector_;
  }
  if (kernel == &any_)
    p = fill(any_, from, width, height, x, y, to);
  constexpr int kBlockWidth = 32, kBlockHeight = kBlockThreads / kBlockWidth;
  const auto blocks = [](int size, int per) {
    return static_cast<unsigned>((size + per - 1) / per);
  };
  void* arguments[] = {&p};
  ScopedContext scoped(*module_->context());
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  TRY_CU(launch_kernel, kernel->function, blocks(to_.width, kernel->tile_width * kBlockWidth),
         blocks(to_.height, kernel->tile_height * kBlockHeight), 1, kBlockWidth, kBlockHeight, 1, 0,
         stream, arguments, nullptr);
  return kernel == &vector_;
}

Result<bool> Converter::convert(const Frame& from, const Frame& to, CUstream stream) const {
  return convert(from, from_.width, from_.height, 0, 0, to, stream);
}

}  // namespace cudaipc::kernels
