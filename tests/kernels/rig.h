// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// One conversion on whatever CUDA device there is, judged by the oracle: bounds, guard bytes, bytes
// that were not written.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/converter.h"
#include "tests/oracle/oracle.h"

namespace cudaipc::test {

using kernels::Colour;
using kernels::Format;
using kernels::Matrix;
using kernels::Phase;
using kernels::Range;
using kernels::Siting;

// How planes lie. Offsets and strides are beyond what the vector kernels need, unless they say so.
struct Lie {
  const char* name;
  int64_t extra;   // bytes a row is longer than its picture; -1: to the next 256 and some
  int64_t offset;  // of each plane from a 256-byte boundary
  bool negative = false;
};
constexpr Lie kAligned{"aligned", -1, 0};
constexpr Lie kTight{"tight", 0, 0};
constexpr Lie kOdd{"odd", 1, 1};

struct Place {
  const Format* format;
  int width, height;
  int64_t offset[3] = {}, stride[3] = {};  // of the first row
  size_t size = 0;

  Place(const Format* f, int w, int h, const Lie& lie) : format(f), width(w), height(h) {
    constexpr int64_t kGuard = 256;
    int64_t at = 0;
    for (int k = 0; k < f->planes; ++k) {
      const int64_t row = f->row_bytes(k, w), rows = f->rows(k, h);
      // No two planes alike.
      const int64_t pitch = lie.extra < 0 ? (row + 255) / 256 * 256 + 64 * k : row + lie.extra;
      at = (at + kGuard + 255) / 256 * 256 + lie.offset;
      offset[k] = lie.negative ? at + (rows - 1) * pitch : at;
      stride[k] = lie.negative ? -pitch : pitch;
      at += rows * pitch;
    }
    size = static_cast<size_t>(at + kGuard);
  }
  kernels::Frame frame(CUdeviceptr base) const {
    kernels::Frame r;
    for (int k = 0; k < format->planes; ++k) {
      r.plane[k] = base + static_cast<CUdeviceptr>(offset[k]);
      r.stride[k] = stride[k];
    }
    return r;
  }
  // 1 for each byte that is picture.
  std::vector<uint8_t> mask() const {
    std::vector<uint8_t> m(size);
    for (int k = 0; k < format->planes; ++k) {
      for (int y = 0; y < format->rows(k, height); ++y)
        memset(&m[static_cast<size_t>(offset[k] + y * stride[k])], 1,
               static_cast<size_t>(format->row_bytes(k, width)));
    }
    return m;
  }
};

inline oracle::Colour oracle_colour(const Colour& c, const Siting& s) {
  static const std::map<Matrix, oracle::Matrix> matrices = {
      {Matrix::Rgb, oracle::Matrix::Rgb},
      {Matrix::Bt601, oracle::Matrix::Bt601},
      {Matrix::Bt709, oracle::Matrix::Bt709},
      {Matrix::Bt2020, oracle::Matrix::Bt2020},
      {Matrix::Smpte240m, oracle::Matrix::Smpte240m},
      {Matrix::Fcc, oracle::Matrix::Fcc}};
  return {matrices.at(c.matrix),
          c.range == Range::Full,
          {s.x == Phase::Even, s.y[1] == Phase::Even, s.y[0] == Phase::Odd}};
}

inline oracle::Picture oracle_picture(const Place& p, const uint8_t* bytes, const Colour& colour,
                                      const Siting& siting) {
  oracle::Picture o;
  o.format = p.format->name;
  o.width = p.width, o.height = p.height;
  o.colour = oracle_colour(colour, siting);
  for (int k = 0; k < p.format->planes; ++k) {
    o.plane[k] = bytes + p.offset[k];
    o.stride[k] = p.stride[k];
  }
  return o;
}

// The bound of an output of so many bits.
inline double bound(int bits) {
  return bits <= 8 ? 0.501 : bits <= 12 ? 0.505 : 0.55;
}

inline Colour default_colour(const Format& f, Range range = Range::Limited) {
  return f.rgb ? Colour{Matrix::Rgb, Range::Full} : Colour{Matrix::Bt709, range};
}

enum class Fill { Noise, Impulses, Steps };

struct Job {
  std::string from = "NV12", to = "RGBA";
  int width = 64, height = 32;  // of the destination
  Lie from_lie = kAligned, to_lie = kAligned;
  int crop_x = 0, crop_y = 0, more_x = 0, more_y = 0;  // the source is larger by offset and more
  Siting from_siting{}, to_siting{};
  // Unset: BT.709 limited, or full-range RGB.
  std::optional<Colour> from_colour{}, to_colour{};
  Fill fill = Fill::Noise;
  unsigned seed = 1;
};

inline std::ostream& operator<<(std::ostream& o, const Siting& s) {
  const char* names = "ceo";
  return o << names[static_cast<int>(s.x)] << names[static_cast<int>(s.y[0])]
           << names[static_cast<int>(s.y[1])];
}
inline std::ostream& operator<<(std::ostream& o, const Job& j) {
  o << j.from << " to " << j.to << ", " << j.width << "x" << j.height << ", " << j.from_lie.name
    << " to " << j.to_lie.name << ", crop " << j.crop_x << "," << j.crop_y << ", siting "
    << j.from_siting << " to " << j.to_siting << ", seed " << j.seed;
  for (const auto& c : {j.from_colour, j.to_colour}) {
    if (c)
      o << ", matrix " << static_cast<int>(c->matrix)
        << (c->range == Range::Full ? " full" : " limited");
  }
  return o;
}

struct Outcome {
  std::vector<uint8_t> in, out;
  bool vectorised = false;
};

class Rig {
 public:
  static Rig& get() {
    if (!the())
      the().reset(new Rig);
    return *the();
  }
  // Before the driver's own end.
  static void end() { the().reset(); }
  ~Rig() {
    {
      const ScopedContext scoped(*context_);
      for (const CUdeviceptr memory : memory_)
        cu().mem_free(memory);
      module_.reset();
    }
    destroy_(context_->handle);
  }

  const std::shared_ptr<const kernels::Module>& module() const { return module_; }
  const ContextPtr& context() const { return context_; }

  CUdeviceptr device(int which, size_t size) {
    const ScopedContext scoped(*context_);
    if (size_[which] < size) {
      if (memory_[which])
        cu().mem_free(memory_[which]);
      size_[which] = size * 2;
      EXPECT_EQ(cu().mem_alloc(&memory_[which], size_[which]), CUDA_SUCCESS);
    }
    return memory_[which];
  }
  void copy(CUdeviceptr device, uint8_t* host, size_t size, bool to_device,
            CUstream stream = nullptr) {
    const ScopedContext scoped(*context_);
    CUDA_MEMCPY2D c{};
    c.WidthInBytes = c.srcPitch = c.dstPitch = size;
    c.Height = 1;
    c.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    c.srcHost = c.dstHost = host;
    c.srcDevice = c.dstDevice = device;
    EXPECT_EQ(cu().memcpy_2d_async(&c, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu().stream_synchronize(stream), CUDA_SUCCESS);
  }

  // Converts, and expects every promise to be kept. Failures beyond a few are counted only.
  Outcome run(const Job& j) {
    const Format *in = kernels::find_format(j.from), *out = kernels::find_format(j.to);
    const Colour from_colour = j.from_colour.value_or(default_colour(*in));
    const Colour to_colour = j.to_colour.value_or(default_colour(*out));
    const int width = j.crop_x + j.width + j.more_x, height = j.crop_y + j.height + j.more_y;
    const Place from(in, width, height, j.from_lie), to(out, j.width, j.height, j.to_lie);
    Outcome result;
    result.in = source(from, j);
    kernels::Picture a, b;
    a.format = in, b.format = out;
    a.width = width, a.height = height, b.width = j.width, b.height = j.height;
    a.colour = from_colour, b.colour = to_colour;
    a.siting = j.from_siting, b.siting = j.to_siting;
    auto converter = kernels::Converter::create(module_, a, b);
    if (!converter) {
      ADD_FAILURE() << j << ": " << converter.error().message;
      return result;
    }
    const CUdeviceptr src = device(0, from.size), dst = device(1, to.size);
    copy(src, result.in.data(), from.size, true);
    result.vectorised = converter->vectorised(from.frame(src), j.crop_x, j.crop_y, to.frame(dst));
    std::vector<uint8_t> other;
    for (const int poison : {0x5a, 0xa5}) {
      std::vector<uint8_t>& bytes = poison == 0x5a ? result.out : other;
      bytes.assign(to.size, static_cast<uint8_t>(poison));
      copy(dst, bytes.data(), to.size, true);
      auto done = converter->convert(from.frame(src), width, height, j.crop_x, j.crop_y,
                                     to.frame(dst), nullptr);
      if (!done)
        ADD_FAILURE() << j << ": " << done.error().message;
      copy(dst, bytes.data(), to.size, false);
    }
    const std::vector<uint8_t> mask = to.mask();
    for (size_t i = 0; i < to.size; ++i) {
      const bool right =
          mask[i] ? result.out[i] == other[i] : result.out[i] == 0x5a && other[i] == 0xa5;
      if (!right) {
        ADD_FAILURE() << j << ": byte " << i
                      << (mask[i] ? " was not written" : " is outside the picture and was written");
        break;
      }
    }
    const oracle::Components want = oracle::convert(
        oracle_picture(from, result.in.data(), from_colour, j.from_siting),
        {j.crop_x, j.crop_y, j.width, j.height}, j.to, oracle_colour(to_colour, j.to_siting));
    const oracle::Read got =
        oracle::read(oracle_picture(to, result.out.data(), to_colour, j.to_siting));
    const oracle::Verdict v = oracle::compare(got.components, want);
    double& worst = worst_[out->bits];
    worst = std::max(worst, v.max_error);
    if (v.max_error > bound(out->bits))
      ADD_FAILURE() << j << ": component " << v.component << " at " << v.x << "," << v.y << " is "
                    << v.got << ", exactly " << v.want
                    << (result.vectorised ? ", vector" : ", any");
    if (got.bad_padding)
      ADD_FAILURE() << j << ": " << got.bad_padding << " samples with wrong padding bits";
    return result;
  }

  double worst(int bits) { return worst_[bits]; }

 private:
  Rig() {
    EXPECT_TRUE(load_driver());
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(
        dlsym(library, "cuCtxCreate_v2"));
    destroy_ = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(library, "cuCtxDestroy_v2"));
    auto context = std::make_shared<Context>();
    EXPECT_EQ(create(&context->handle, 0, 0), CUDA_SUCCESS);
    context->device = 0;
    CUcontext popped;
    cu().ctx_pop_current(&popped);
    context_ = context;
    auto module = kernels::Module::load(context_);
    EXPECT_TRUE(module) << (module ? "" : module.error().message);
    module_ = *module;
  }
  static std::unique_ptr<Rig>& the() {
    static std::unique_ptr<Rig> rig;
    return rig;
  }

  static std::vector<uint8_t> source(const Place& p, const Job& j) {
    std::vector<uint8_t> bytes(p.size);
    std::mt19937 generator(j.seed);
    if (j.fill == Fill::Noise) {
      for (uint8_t& b : bytes)
        b = static_cast<uint8_t>(generator() >> 24);
    } else {
      // Bytes that stand out against mid grey, at every parity over the seeds.
      const auto n = static_cast<unsigned>(j.seed);
      for (int k = 0; k < p.format->planes; ++k) {
        const int64_t row = p.format->row_bytes(k, p.width);
        for (int y = 0; y < p.format->rows(k, p.height); ++y) {
          for (int64_t x = 0; x < row; ++x) {
            const auto i = static_cast<unsigned>(x) + n, r = static_cast<unsigned>(y) + n / 3;
            const bool high =
                j.fill == Fill::Impulses ? i % 11 == 0 && r % 5 == 0 : (i / 13 + r / 7) % 2 == 0;
            bytes[static_cast<size_t>(p.offset[k] + y * p.stride[k] + x)] = high ? 230 : 40;
          }
        }
      }
    }
    // Codes of 10 and 12 bits in the low bits of their words.
    if (p.format->storage == kernels::Storage::Planar16 && p.format->bits < 16) {
      for (int k = 0; k < p.format->planes; ++k) {
        for (int y = 0; y < p.format->rows(k, p.height); ++y) {
          for (int64_t x = 1; x < p.format->row_bytes(k, p.width); x += 2)
            bytes[static_cast<size_t>(p.offset[k] + y * p.stride[k] + x)] &=
                static_cast<uint8_t>((1 << (p.format->bits - 8)) - 1);
        }
      }
    }
    return bytes;
  }

  ContextPtr context_;
  std::shared_ptr<const kernels::Module> module_;
  CUdeviceptr memory_[2] = {};
  size_t size_[2] = {};
  std::map<int, double> worst_;
  CUresult (*destroy_)(CUcontext) = nullptr;
};

}  // namespace cudaipc::test
