// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// One frame through the converter.
#include "gst/frame_converter.h"

#include <gst/cuda/gstcudamemory.h>

#include <algorithm>

#include "gst/context.h"
#include "gst/memory.h"

namespace cudaipc {
namespace {

constexpr size_t kUploads = 3;  // frames of system memory in flight

kernels::Frame frame_at(const GstVideoInfo& placed, CUdeviceptr base) {
  kernels::Frame frame;
  for (guint k = 0; k < std::min(3u, GST_VIDEO_INFO_N_PLANES(&placed)); ++k) {
    frame.plane[k] = base + placed.offset[k];
    frame.stride[k] = placed.stride[k];
  }
  return frame;
}

// Makes `later` wait, on the GPU, for what `earlier` holds now.
Result<void> order(const Event& event, CUstream earlier, CUstream later) {
  if (earlier == later)
    return {};
  if (const CUresult code = event.record(earlier); code != CUDA_SUCCESS)
    return cuda_error("event_record", code);
  TRY_CU(stream_wait_event, later, event.get(), 0);
  return {};
}

// Device memory for a frame, made when it is first needed.
Result<CUdeviceptr> staged(CUdeviceptr& pointer, const GstVideoInfo& placed) {
  if (!pointer)
    TRY_CU(mem_alloc, &pointer, GST_VIDEO_INFO_SIZE(&placed));
  return CUdeviceptr{pointer};
}

}  // namespace

// A buffer mapped for the length of a scope, and where its planes are.
class FrameConverter::Mapped {
 public:
  explicit Mapped(GstBuffer* buffer) : buffer_(buffer) {}
  // `frame`: what the picture is if the buffer does not say. Every plane's rows are inside the
  // memory, or the error says which is not.
  Result<void> open(const VideoPicture& frame, bool write) {
    TRY(map(frame, write));
    return find_planes(frame);
  }
  ~Mapped() {
    if (memory_)
      gst_memory_unmap(memory_, &info_);
    else if (mapped_)
      gst_buffer_unmap(buffer_, &info_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  GstMemory* memory() const { return memory_; }  // in CUDA memory
  const kernels::Frame& frame() const { return frame_; }
  int width() const { return width_; }
  int height() const { return height_; }
  // Copies by the GPU go forward only.
  bool forward() const {
    for (const int64_t stride : frame_.stride) {
      if (stride < 0)
        return false;
    }
    return true;
  }
  Planes planes() const {
    Planes p;
    p.type = memory_ ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    for (int k = 0; k < 3; ++k) {
      p.address[k] = static_cast<uintptr_t>(frame_.plane[k]);
      p.stride[k] = static_cast<size_t>(frame_.stride[k]);
    }
    return p;
  }

 private:
  Result<void> map(const VideoPicture& frame, bool write) {
    const auto flags = static_cast<GstMapFlags>(write ? GST_MAP_WRITE : GST_MAP_READ);
    if (frame.cuda) {
      if (gst_buffer_n_memory(buffer_) != 1 ||
          !gst_is_cuda_memory(gst_buffer_peek_memory(buffer_, 0)))
        return Error{Fault::Unsupported, 0,
                     "the caps say CUDA memory, the buffer is not one CUDA memory"};
      GstMemory* memory = gst_buffer_peek_memory(buffer_, 0);
      if (!gst_memory_map(memory, &info_, static_cast<GstMapFlags>(flags | GST_MAP_CUDA)))
        return Error{Fault::System, 0, "the CUDA memory could not be mapped"};
      memory_ = memory;
      return {};
    }
    mapped_ = gst_buffer_map(buffer_, &info_, flags);
    if (!mapped_)
      return Error{Fault::System, 0, "the buffer could not be mapped"};
    return {};
  }

  Result<void> find_planes(const VideoPicture& frame) {
    const kernels::Format& format = *frame.picture.format;
    width_ = frame.picture.width;
    height_ = frame.picture.height;
    const gsize* offset = frame.info.offset;
    const gint* stride = frame.info.stride;
    if (const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer_)) {
      if (meta->format != GST_VIDEO_INFO_FORMAT(&frame.info) || meta->n_planes != format.planes)
        return Error{Fault::Unsupported, 0,
                     std::string("the buffer's video meta says ") +
                         gst_video_format_to_string(meta->format) + ", the caps " + format.name};
      if (meta->width < 1 || meta->height < 1 || meta->width > G_MAXINT / 8 ||
          meta->height > G_MAXINT / 8)
        return Error{Fault::Unsupported, 0, "the buffer's video meta has an impossible size"};
      offset = meta->offset;
      stride = meta->stride;
      width_ = static_cast<int>(meta->width);
      height_ = static_cast<int>(meta->height);
    } else if (memory_) {
      // Pitches are the memory's own.
      const GstVideoInfo& own = GST_CUDA_MEMORY_CAST(memory_)->info;
      if (GST_VIDEO_INFO_FORMAT(&own) == GST_VIDEO_INFO_FORMAT(&frame.info) &&
          GST_VIDEO_INFO_WIDTH(&own) == width_ && GST_VIDEO_INFO_HEIGHT(&own) == height_) {
        offset = own.offset;
        stride = own.stride;
      }
    }
    for (int k = 0; k < format.planes; ++k) {
      const int64_t last = static_cast<int64_t>(format.rows(k, height_) - 1) * stride[k];
      const int64_t low = std::min<int64_t>(last, 0);
      const int64_t high = std::max<int64_t>(last, 0) + format.row_bytes(k, width_);
      if (offset[k] > info_.size || static_cast<int64_t>(offset[k]) + low < 0 ||
          static_cast<int64_t>(offset[k]) + high > static_cast<int64_t>(info_.size))
        return Error{
            Fault::Unsupported, 0,
            "plane " + std::to_string(k) + " (offset " + std::to_string(offset[k]) + ", stride " +
                std::to_string(stride[k]) + ", " + std::to_string(format.rows(k, height_)) +
                " rows of " + std::to_string(format.row_bytes(k, width_)) +
                " bytes) is not inside the memory of " + std::to_string(info_.size) + " bytes"};
      frame_.plane[k] = reinterpret_cast<CUdeviceptr>(info_.data) + offset[k];
      frame_.stride[k] = stride[k];
    }
    return {};
  }

  GstBuffer* const buffer_;
  GstMemory* memory_ = nullptr;
  bool mapped_ = false;
  GstMapInfo info_{};
  kernels::Frame frame_;
  int width_ = 0, height_ = 0;
};

// --- Making and changing

Result<std::unique_ptr<FrameConverter>> FrameConverter::create(ContextPtr context) {
  auto module = kernels::Module::load(context);
  if (!module)
    return std::move(module.error());
  auto stream = Stream::create(context);
  if (!stream)
    return std::move(stream.error());
  auto before = Event::create(context, Event::Use::Local);
  if (!before)
    return std::move(before.error());
  auto after = Event::create(context, Event::Use::Local);
  if (!after)
    return std::move(after.error());
  auto used = Event::create(context, Event::Use::Local);
  if (!used)
    return std::move(used.error());
  return std::unique_ptr<FrameConverter>(new FrameConverter(std::move(context), *module,
                                                            std::move(*stream), std::move(*before),
                                                            std::move(*after), std::move(*used)));
}

FrameConverter::FrameConverter(ContextPtr context, std::shared_ptr<const kernels::Module> module,
                               Stream stream, Event before, Event after, Event used)
    : context_(std::move(context)),
      module_(std::move(module)),
      stream_(std::move(stream)),
      before_(std::move(before)),
      after_(std::move(after)),
      used_(std::move(used)) {}

FrameConverter::~FrameConverter() {
  // Kernels in flight need the module.
  drop_staging();
}

// Which streams of other elements our work went to is not kept: they may be gone.
void FrameConverter::drop_staging() {
  ScopedContext scoped(*context_);
  cu().ctx_synchronize();
  uploads_.reset();
  download_.reset();
  for (CUdeviceptr* pointer : {&staged_from_, &staged_to_}) {
    if (*pointer)
      cu().mem_free(*pointer);
    *pointer = 0;
  }
  staged_once_ = false;
}

Result<void> FrameConverter::set_pictures(const VideoPicture& from, const VideoPicture& to) {
  converter_.reset();
  drop_staging();
  from_ = from;
  to_ = to;
  device_from_ = from.info;
  device_to_ = to.info;
  place(device_from_);
  place(device_to_);
  same_ = same_picture(from, to);
  auto converter = kernels::Converter::create(module_, from.picture, to.picture);
  if (!converter)
    return std::move(converter.error());
  converter_.emplace(std::move(*converter));
  return {};
}

// Frames in system memory may be larger than the caps say, and show a part.
void FrameConverter::fit(const Mapped& in) {
  GstVideoInfo& placed = device_from_;
  if (GST_VIDEO_INFO_WIDTH(&placed) == in.width() && GST_VIDEO_INFO_HEIGHT(&placed) == in.height())
    return;
  drop_staging();
  gst_video_info_set_format(&placed, GST_VIDEO_INFO_FORMAT(&from_.info),
                            static_cast<guint>(in.width()), static_cast<guint>(in.height()));
  place(placed);
}

// --- A frame

Result<FrameConverter::Crop> FrameConverter::crop_of(GstBuffer* buffer, const Mapped& in) const {
  const auto size = [](int w, int h) { return std::to_string(w) + "x" + std::to_string(h); };
  const int width = from_.picture.width, height = from_.picture.height;
  const GstVideoCropMeta* meta = gst_buffer_get_video_crop_meta(buffer);
  if (meta &&
      (meta->width != static_cast<guint>(width) || meta->height != static_cast<guint>(height)))
    return Error{Fault::Unsupported, 0,
                 "the buffer's crop is " +
                     size(static_cast<int>(meta->width), static_cast<int>(meta->height)) +
                     ", the caps say " + size(width, height) + ", and this element does not scale"};
  const int64_t x = meta ? meta->x : 0, y = meta ? meta->y : 0;
  if (x + width > in.width() || y + height > in.height())
    return Error{Fault::Unsupported, 0,
                 "a picture of " + size(width, height) + " at " + std::to_string(x) + "," +
                     std::to_string(y) + " is not inside the frame of " +
                     size(in.width(), in.height())};
  // Else the first row shown would be the other field's, or its chroma would.
  const bool chroma = from_.picture.format->sub_y || to_.picture.format->sub_y;
  if (from_.interlaced && y % (chroma ? 4 : 2) != 0)
    return Error{Fault::Unsupported, 0,
                 "the crop of interlaced frames begins at row " + std::to_string(y) +
                     ", which is not the first of a pair of lines of the first field"};
  return Crop{static_cast<int>(x), static_cast<int>(y)};
}

Result<void> FrameConverter::convert(GstBuffer* in_buffer, GstBuffer* out_buffer,
                                     ConvertCounters& counters) {
  Mapped in(in_buffer), out(out_buffer);
  if (auto opened = in.open(from_, false); !opened)
    return std::move(opened.error()).with("input");
  if (auto opened = out.open(to_, true); !opened)
    return std::move(opened.error()).with("output");
  // Its planes were checked for the size that it says it has.
  if (out.width() < to_.picture.width || out.height() < to_.picture.height)
    return Error{Fault::Unsupported, 0,
                 "the output buffer holds " + std::to_string(out.width()) + "x" +
                     std::to_string(out.height()) + ", less than the caps say"};
  for (const Mapped* mapped : {&in, &out}) {
    if (mapped->memory() &&
        GST_CUDA_MEMORY_CAST(mapped->memory())->context != gst_context(context_))
      return Error{Fault::Unsupported, 0, "the buffers are of two CUDA contexts"};
  }
  auto crop = crop_of(in_buffer, in);
  if (!crop)
    return std::move(crop.error());
  return process(in, *crop, out, counters);
}

Result<void> FrameConverter::process(const Mapped& in, Crop crop, const Mapped& out,
                                     ConvertCounters& counters) {
  ScopedContext scoped(*context_);
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  const CUstream reads = in.memory() ? stream_of(in.memory()) : stream_.get();
  const CUstream stream = out.memory() ? stream_of(out.memory()) : reads;
  const bool copies = same_ && crop.x == 0 && crop.y == 0 && in.width() == to_.picture.width &&
                      in.height() == to_.picture.height && (!in.memory() || in.forward()) &&
                      (!out.memory() || out.forward());
  if (in.memory())
    TRY(order(before_, reads, stream));
  else
    fit(in);
  if (copies) {
    TRY(move(in, out, stream));
    ++counters.copied;
  } else {
    TRY(run_kernel(in, crop, out, stream, counters));
  }
  if (in.memory())
    TRY(order(after_, stream, reads));
  else
    ++counters.uploaded;
  if (!out.memory())
    ++counters.downloaded;
  ++counters.frames;
  return {};
}

// The same picture in other memory.
Result<void> FrameConverter::move(const Mapped& in, const Mapped& out, CUstream stream) {
  if (in.memory() && out.memory())
    return copy_planes(from_.info, in.planes(), out.planes(), stream);
  if (out.memory()) {
    if (!uploads_)
      uploads_.emplace(context_, kUploads);
    return uploads_->enqueue(device_from_, in.planes(), out.planes(), stream);
  }
  if (!in.memory()) {
    copy_rows(from_.info, in.planes(), out.planes());
    return {};
  }
  return download(in.planes(), out, stream);
}

// From the GPU into a buffer of system memory, which a CPU reads next.
Result<void> FrameConverter::download(const Planes& from, const Mapped& out, CUstream stream) {
  if (!download_) {
    auto memory = PinnedMemory::create(context_, GST_VIDEO_INFO_SIZE(&device_to_));
    if (!memory)
      return std::move(memory.error()).with("page-locked memory for a download");
    download_.emplace(std::move(*memory));
  }
  const Planes host =
      planes_at(device_to_, reinterpret_cast<uintptr_t>(download_->data()), CU_MEMORYTYPE_HOST);
  TRY(copy_planes(device_to_, from, host, stream));
  TRY_CU(stream_synchronize, stream);
  copy_rows(device_to_, host, out.planes());
  return {};
}

Result<void> FrameConverter::run_kernel(const Mapped& in, Crop crop, const Mapped& out,
                                        CUstream stream, ConvertCounters& counters) {
  kernels::Frame from = in.frame(), to = out.frame();
  if (!in.memory()) {
    auto device = staged(staged_from_, device_from_);
    if (!device)
      return std::move(device.error());
    // The frame before has been read from there.
    if (staged_once_)
      TRY_CU(stream_wait_event, stream, used_.get(), 0);
    if (!uploads_)
      uploads_.emplace(context_, kUploads);
    // The whole frame, because a crop may begin between two chroma samples.
    TRY(uploads_->enqueue(device_from_, in.planes(),
                          planes_at(device_from_, *device, CU_MEMORYTYPE_DEVICE), stream));
    from = frame_at(device_from_, *device);
  }
  if (!out.memory()) {
    auto device = staged(staged_to_, device_to_);
    if (!device)
      return std::move(device.error());
    to = frame_at(device_to_, *device);
  }
  auto vectorised = converter_->convert(from, in.width(), in.height(), crop.x, crop.y, to, stream);
  if (!vectorised)
    return std::move(vectorised.error());
  counters.any_layout += *vectorised ? 0 : 1;
  if (!in.memory()) {
    if (const CUresult code = used_.record(stream); code != CUDA_SUCCESS)
      return cuda_error("event_record", code);
    staged_once_ = true;
  }
  if (!out.memory())
    return download(planes_at(device_to_, staged_to_, CU_MEMORYTYPE_DEVICE), out, stream);
  return {};
}

}  // namespace cudaipc
