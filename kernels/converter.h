// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Converting pictures in GPU memory: choose once per pair of formats, then one launch a frame.
//
// Needs no GStreamer. Nothing here waits for the GPU; convert() allocates nothing.
#pragma once

#include <memory>

#include "gst/cuda/resources.h"
#include "kernels/colour.h"
#include "kernels/format.h"

namespace cudaipc::kernels {

// Where chroma samples sit among the luma samples; only subsampled axes ask.
struct Siting {
  Phase x = Phase::Centred;
  Phase y[2] = {Phase::Centred, Phase::Centred};  // of Cb, of Cr
  friend constexpr bool operator==(const Siting&, const Siting&) = default;
};

// What the frames of a stream are.
struct Picture {
  const Format* format = nullptr;
  int width = 0, height = 0;  // in luma samples, at least 1
  Colour colour;
  Siting siting;
};

// Where a frame's planes are, in the format's own order: device addresses, bytes. Any alignment;
// planes on 16 bytes and strides of whole 16 bytes are fastest. Negative strides are right.
struct Frame {
  CUdeviceptr plane[3] = {};
  int64_t stride[3] = {};
};

// The kernels, loaded into a context. Shared by its converters; any thread.
class Module {
 public:
  // Unsupported where this GPU's architecture has no code in here.
  static Result<std::shared_ptr<const Module>> load(ContextPtr context);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  Result<CUfunction> function(const char* name) const;
  const ContextPtr& context() const { return context_; }

 private:
  Module(ContextPtr context, CUmodule module) : context_(std::move(context)), module_(module) {}
  ContextPtr context_;
  CUmodule module_;
};

// One conversion. Constant after create(): may be used by several threads and streams at once.
class Converter {
 public:
  // `to` has the size of the converted pictures, which is at most that of `from`. Unsupported: a
  // pair that no kernel makes.
  static Result<Converter> create(std::shared_ptr<const Module> module, const Picture& from,
                                  const Picture& to);

  // Enqueues the conversion of the rectangle at (x, y) of a source picture of `width` x `height`,
  // as large as the destination, which must lie inside it. The caller answers for the planes being
  // memory: `from` readable, `to` writable and not overlapping it, until the stream has passed.
  // Says whether a vector kernel does it: see vectorised().
  Result<bool> convert(const Frame& from, int width, int height, int x, int y, const Frame& to,
                       CUstream stream) const;
  // The same of whole pictures.
  Result<bool> convert(const Frame& from, const Frame& to, CUstream stream) const;

  // Whether convert() would take a kernel that moves words; the other takes any alignment.
  bool vectorised(const Frame& from, int x, int y, const Frame& to) const;

 private:
  // A kernel and what it is told, but for what depends on the frame.
  struct Kernel {
    CUfunction function = nullptr;
    int tile_width = 2, tile_height = 2;
    Params params{};
    bool swap_planes = false;  // chroma planes of the source in the other order
  };
  Converter() = default;
  void prepare_any();
  void prepare_vector(int kind);
  Params fill(const Kernel& kernel, const Frame& from, int width, int height, int x, int y,
              const Frame& to) const;
  bool takes(const Params& params) const;

  std::shared_ptr<const Module> module_;
  Picture from_, to_;
  Kernel any_, vector_;  // vector_ without a function where there is none
  uint8_t from_align_[3] = {}, to_align_[3] = {};
};

}  // namespace cudaipc::kernels
