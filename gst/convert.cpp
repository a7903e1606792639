// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// cudacolorconvert: caps on both sides, frames to kernels::Converter.

/**
 * SECTION:element-cudacolorconvert
 * @title: cudacolorconvert
 *
 * Converts format, matrix, range and chroma siting of video frames on the GPU, in one kernel a
 * frame, to within half a code of the exact value. It writes straight into the buffers of a
 * cudaipcsink behind it and reads the imported ones of a cudaipcsrc in front of it, ordered by CUDA
 * streams. System memory is taken and made where the neighbour has nothing better.
 *
 * |[
 * gst-launch-1.0 videotestsrc ! cudacolorconvert ! \
 *   'video/x-raw(memory:CUDAMemory),format=RGBA' ! cudaipcvideosink address=/tmp/cam.sock
 * gst-launch-1.0 cudaipcvideosrc address=/tmp/cam.sock ! cudacolorconvert ! \
 *   video/x-raw,format=BGRx ! autovideosink
 * ]|
 *
 * Since: 0.1
 */

#include <gst/base/gstbasetransform.h>
#include <gst/cuda/gstcudabufferpool.h>

#include <atomic>

#include "gst/colorimetry.h"
#include "gst/elements.h"
#include "gst/layout.h"
#include "gst/local_pool.h"
#include "gst/memory.h"
#include "kernels/converter.h"

GST_DEBUG_CATEGORY_STATIC(cudacolorconvert_debug);
#define GST_CAT_DEFAULT cudacolorconvert_debug

namespace cudaipc {
namespace {

enum class Policy { Strict, MatrixOnly };

GType policy_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(Policy::Strict),
       "other primaries or transfer downstream are refused: the colours would mean something else",
       "strict"},
      {static_cast<int>(Policy::MatrixOnly),
       "matrix and range are converted, primaries and transfer stay what they are", "matrix-only"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoColorimetryPolicy", values);
  return type;
}

// System memory on its way to the GPU. Reused when the GPU has read it.
struct Upload {
  PinnedMemory host;
  Event done;
  CUstream stream = nullptr;  // where `done` was recorded
};
constexpr size_t kUploads = 3;

// What exists from start() to stop(). Belongs to the streaming thread once running.
struct Running {
  ContextPtr context;
  std::shared_ptr<const kernels::Module> module;
  std::optional<kernels::Converter> converter;
  VideoPicture from, to;
  bool have_caps = false;
  bool same = false;                    // only the memory differs
  GstVideoInfo device_from, device_to;  // layouts of what is staged on the GPU
  // Pictures on the GPU for system memory on either side; 0: not needed so far.
  CUdeviceptr staged_from = 0, staged_to = 0;
  std::vector<Upload> uploads;
  size_t next_upload = 0;
  std::optional<Stream> stream;        // between two system memories
  std::optional<Event> before, after;  // order between two streams
  CUstream last = CU_STREAM_LEGACY;    // where the last frame went
  bool said_assumed = false, said_meaning = false;
};

struct Counters {
  std::atomic<uint64_t> frames{0};      // converted or copied; not those passed through
  std::atomic<uint64_t> any_layout{0};  // by the kernel for any layout, not a vector kernel
  std::atomic<uint64_t> copied{0};      // the pictures were the same: only the memory changed
  std::atomic<uint64_t> uploaded{0};    // from system memory
  std::atomic<uint64_t> downloaded{0};  // to system memory
};

// The C++ half of the element.
struct ConvertState {
  Mutex mutex;
  int device GUARDED_BY(mutex) = -1;
  Policy policy GUARDED_BY(mutex) = Policy::Strict;
  SharedContext context;
  std::unique_ptr<Running> running;  // state changes and the streaming thread, never both at once
  Counters counters;
  bool failed = false;  // an error message for the current caps is on the bus
};

struct CudaColorConvert {
  GstBaseTransform parent;
  ConvertState* state;
};
struct CudaColorConvertClass {
  GstBaseTransformClass parent_class;
};

G_DEFINE_TYPE(CudaColorConvert, color_convert, GST_TYPE_BASE_TRANSFORM)

ConvertState& state_of(gpointer element) {
  return *static_cast<CudaColorConvert*>(element)->state;
}

enum Property { PROP_0, PROP_DEVICE, PROP_POLICY, PROP_STATS };

// --- Properties

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  ConvertState& state = state_of(object);
  MutexLock lock(state.mutex);
  if (id == PROP_DEVICE)
    state.device = g_value_get_int(value);
  else if (id == PROP_POLICY)
    state.policy = static_cast<Policy>(g_value_get_enum(value));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
}

GstStructure* stats(const Counters& c) {
  return gst_structure_new(
      "cudacolorconvert-stats", "frames", G_TYPE_UINT64, c.frames.load(), "any-layout",
      G_TYPE_UINT64, c.any_layout.load(), "copied", G_TYPE_UINT64, c.copied.load(), "uploaded",
      G_TYPE_UINT64, c.uploaded.load(), "downloaded", G_TYPE_UINT64, c.downloaded.load(), nullptr);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  ConvertState& state = state_of(object);
  MutexLock lock(state.mutex);
  if (id == PROP_DEVICE)
    g_value_set_int(value, state.device);
  else if (id == PROP_POLICY)
    g_value_set_enum(value, static_cast<int>(state.policy));
  else if (id == PROP_STATS)
    g_value_take_boxed(value, stats(state.counters));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
}

// --- Start and stop

// Lets go of what belongs to a context. Waits for our own work only.
void drop_context(Running& running) {
  if (!running.context)
    return;
  {
    ScopedContext scoped(*running.context);
    if (running.last != CU_STREAM_LEGACY || running.have_caps)
      cu().stream_synchronize(running.last);
    if (running.staged_from)
      cu().mem_free(running.staged_from);
    if (running.staged_to)
      cu().mem_free(running.staged_to);
  }
  running.staged_from = running.staged_to = 0;
  running.uploads.clear();
  running.converter.reset();
  running.before.reset();
  running.after.reset();
  running.stream.reset();
  running.last = CU_STREAM_LEGACY;
  running.module.reset();
  running.context.reset();
}

// On failure the old one stays in use.
Result<void> use_context(Running& running, ContextPtr context) {
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
  drop_context(running);
  running.module = *module;
  running.stream.emplace(std::move(*stream));
  running.before.emplace(std::move(*before));
  running.after.emplace(std::move(*after));
  running.context = std::move(context);
  return {};
}

gboolean start(GstBaseTransform* base) {
  ConvertState& state = state_of(base);
  int device;
  {
    MutexLock lock(state.mutex);
    device = state.device;
  }
  auto running = std::make_unique<Running>();
  auto wrapped = state.context.ensure(GST_ELEMENT(base), device);
  Result<void> used;
  if (wrapped)
    used = use_context(*running, *wrapped);
  if (!wrapped || !used) {
    post_error(base, "start", wrapped ? used.error() : wrapped.error());
    return FALSE;
  }
  state.running = std::move(running);
  return TRUE;
}

gboolean stop(GstBaseTransform* base) {
  ConvertState& state = state_of(base);
  if (const std::unique_ptr<Running> running = std::move(state.running)) {
    drop_context(*running);
    GstStructure* summary = stats(state.counters);
    GST_INFO_OBJECT(base, "%" GST_PTR_FORMAT, summary);
    gst_structure_free(summary);
  }
  return TRUE;
}

// --- Negotiation

GstCaps* transform_caps(GstBaseTransform*, GstPadDirection direction, GstCaps* caps,
                        GstCaps* filter) {
  GstCaps* result = transformed_caps(caps, direction == GST_PAD_SINK);
  if (filter) {
    GstCaps* both = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    result = both;
  }
  return result;
}

GstCaps* fixate_caps(GstBaseTransform*, GstPadDirection direction, GstCaps* caps,
                     GstCaps* options) {
  return direction == GST_PAD_SINK ? choose_output(caps, options) : gst_caps_fixate(options);
}

gboolean refuse(GstBaseTransform* base, const std::string& why, GstCaps* in, GstCaps* out) {
  // The base class asks again with the first frame: one message is enough.
  if (std::exchange(state_of(base).failed, true))
    return FALSE;
  GST_ELEMENT_ERROR(base, STREAM, FORMAT, ("%s", why.c_str()),
                    ("input %" GST_PTR_FORMAT ", output %" GST_PTR_FORMAT, in, out));
  return FALSE;
}

bool same_picture(const VideoPicture& a, const VideoPicture& b) {
  const kernels::Picture &x = a.picture, &y = b.picture;
  return x.format == y.format && x.colour == y.colour &&
         (!x.format->subsampled() || x.siting == y.siting);
}

Result<void> make_converter(Running& running) {
  running.same = same_picture(running.from, running.to);
  auto converter =
      kernels::Converter::create(running.module, running.from.picture, running.to.picture);
  if (!converter)
    return std::move(converter.error());
  running.converter.emplace(std::move(*converter));
  return {};
}

// Fields of a 4:2:0 frame have chroma rows of their own: resampling between them mixes two times.
std::string interlace_trouble(const VideoPicture& from, const VideoPicture& to) {
  const kernels::Format &a = *from.picture.format, &b = *to.picture.format;
  if (!from.interlaced || (!a.sub_y && !b.sub_y))
    return {};
  if (a.sub_y && b.sub_y && from.picture.siting == to.picture.siting &&
      from.picture.colour.matrix == to.picture.colour.matrix)
    return {};
  return std::string("Interlaced frames cannot be converted from ") + a.name + " to " + b.name +
         ": rows of 4:2:0 chroma belong to fields. Deinterlace first, or keep the subsampling, "
         "siting and matrix.";
}

gboolean set_caps(GstBaseTransform* base, GstCaps* in, GstCaps* out) {
  ConvertState& state = state_of(base);
  if (!state.running)
    return FALSE;
  Running& running = *state.running;
  running.have_caps = false;
  // Nothing to do needs nothing.
  if (gst_caps_is_equal(in, out)) {
    gst_base_transform_set_passthrough(base, TRUE);
    return TRUE;
  }
  gst_base_transform_set_passthrough(base, FALSE);
  auto from = picture_from_caps(in), to = picture_from_caps(out);
  if (!from || !to)
    return refuse(base, (from ? to : from).error().message, in, out);
  if (from->picture.width != to->picture.width || from->picture.height != to->picture.height)
    return refuse(base, "This element does not scale.", in, out);
  if (const std::string trouble = interlace_trouble(*from, *to); !trouble.empty())
    return refuse(base, trouble, in, out);
  if (const std::string changes = meaning_changes(*from, *to); !changes.empty()) {
    Policy policy;
    {
      MutexLock lock(state.mutex);
      policy = state.policy;
    }
    if (policy == Policy::Strict)
      return refuse(base,
                    "Input and output differ in " + changes +
                        ", which this element does not convert. Ask downstream for the input's, or "
                        "set colorimetry-policy=matrix-only.",
                    in, out);
    if (!running.said_meaning)
      GST_ELEMENT_WARNING(base, STREAM, FORMAT,
                          ("The frames keep their primaries and transfer; input and output differ "
                           "in %s.",
                           changes.c_str()),
                          (nullptr));
    running.said_meaning = true;
  }
  const std::string& assumed = from->assumed.empty() ? to->assumed : from->assumed;
  if (!assumed.empty() && !running.said_assumed) {
    GST_ELEMENT_WARNING(base, STREAM, FORMAT, ("%s.", assumed.c_str()), (nullptr));
    running.said_assumed = true;
  }
  ScopedContext scoped(*running.context);
  cu().stream_synchronize(running.last);  // what is staged is about to go
  for (CUdeviceptr* staged : {&running.staged_from, &running.staged_to}) {
    if (*staged)
      cu().mem_free(*staged);
    *staged = 0;
  }
  running.uploads.clear();
  running.from = std::move(*from);
  running.to = std::move(*to);
  running.device_from = running.from.info;
  running.device_to = running.to.info;
  place(running.device_from);
  place(running.device_to);
  if (auto made = make_converter(running); !made) {
    state.failed = true;
    post_error(base, "convert", made.error());
    return FALSE;
  }
  running.have_caps = true;
  GST_INFO_OBJECT(base, "%" GST_PTR_FORMAT " to %" GST_PTR_FORMAT, in, out);
  return TRUE;
}

gboolean sink_event(GstBaseTransform* base, GstEvent* event) {
  if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS)
    return GST_BASE_TRANSFORM_CLASS(color_convert_parent_class)->sink_event(base, event);
  ConvertState& state = state_of(base);
  state.failed = false;
  gst_event_ref(event);
  const gboolean done =
      GST_BASE_TRANSFORM_CLASS(color_convert_parent_class)->sink_event(base, event);
  if (!done && !state.failed && !GST_PAD_IS_FLUSHING(GST_BASE_TRANSFORM_SRC_PAD(base))) {
    // The base class found nothing and says so in the log alone.
    GstCaps* caps = nullptr;
    gst_event_parse_caps(event, &caps);
    GstCaps* taken = gst_pad_peer_query_caps(GST_BASE_TRANSFORM_SRC_PAD(base), nullptr);
    GST_ELEMENT_ERROR(
        base, CORE, NEGOTIATION,
        ("Downstream takes nothing that can be made of these frames. Only format, "
         "colorimetry, chroma-site and memory can change here."),
        ("input %" GST_PTR_FORMAT ", downstream takes %" GST_PTR_FORMAT, caps, taken));
    gst_clear_caps(&taken);
  }
  gst_event_unref(event);
  return done;
}

gboolean transform_size(GstBaseTransform*, GstPadDirection, GstCaps*, gsize, GstCaps* other,
                        gsize* size) {
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, other))
    return FALSE;
  *size = GST_VIDEO_INFO_SIZE(&info);
  return TRUE;
}

bool caps_in_cuda(const GstCaps* caps) {
  const GstCapsFeatures* features = gst_caps_get_features(caps, 0);
  return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

// A pool of somebody's whose buffers are memory of this context.
bool usable(GstBufferPool* pool, const ContextPtr& context) {
  return pool && GST_IS_CUDA_BUFFER_POOL(pool) &&
         GST_CUDA_BUFFER_POOL(pool)->context == gst_context(context);
}

bool configure(GstBufferPool* pool, GstCaps* caps, guint* size, guint* min, guint* max) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, *size, *min, *max);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  if (!gst_buffer_pool_set_config(pool, config))
    return false;
  // The pool knows its layout and its limits.
  config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_get_params(config, nullptr, size, min, max);
  gst_structure_free(config);
  return true;
}

gboolean decide_allocation(GstBaseTransform* base, GstQuery* query) {
  ConvertState& state = state_of(base);
  GstCaps* caps = nullptr;
  gst_query_parse_allocation(query, &caps, nullptr);
  if (!caps || !state.running)
    return FALSE;
  if (caps_in_cuda(caps)) {
    GstVideoInfo info;
    if (!gst_video_info_from_caps(&info, caps))
      return FALSE;
    const ContextPtr& context = state.running->context;
    GstBufferPool* pool = nullptr;
    guint size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&info)), min = 0, max = 0;
    const bool proposed = gst_query_get_n_allocation_pools(query) > 0;
    if (proposed)
      gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
    if (!usable(pool, context) || !configure(pool, caps, &size, &min, &max)) {
      if (pool)
        GST_INFO_OBJECT(base, "downstream's pool is of another context or refuses: own buffers");
      gst_clear_object(&pool);
      pool = new_local_pool(context);
      max = 0;
      if (!configure(pool, caps, &size, &min, &max)) {
        gst_object_unref(pool);
        return FALSE;
      }
    }
    if (proposed)
      gst_query_set_nth_allocation_pool(query, 0, pool, size, min, max);
    else
      gst_query_add_allocation_pool(query, pool, size, min, max);
    gst_object_unref(pool);
  }
  return GST_BASE_TRANSFORM_CLASS(color_convert_parent_class)->decide_allocation(base, query);
}

gboolean propose_allocation(GstBaseTransform* base, GstQuery* decided, GstQuery* query) {
  if (!GST_BASE_TRANSFORM_CLASS(color_convert_parent_class)
           ->propose_allocation(base, decided, query))
    return FALSE;
  // Passthrough: what downstream said.
  if (!decided)
    return TRUE;
  ConvertState& state = state_of(base);
  GstCaps* caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  GstVideoInfo info;
  if (!caps || !state.running || !gst_video_info_from_caps(&info, caps))
    return FALSE;
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  gst_query_add_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, nullptr);
  if (!caps_in_cuda(caps))
    return TRUE;
  guint size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&info)), min = 0, max = 0;
  GstBufferPool* pool = need_pool ? new_local_pool(state.running->context) : nullptr;
  if (pool && !configure(pool, caps, &size, &min, &max))
    gst_clear_object(&pool);
  gst_query_add_allocation_pool(query, pool, size, 0, 0);
  gst_clear_object(&pool);
  return TRUE;
}

// --- Frames

// A buffer mapped for the length of a scope, and where its planes are.
class Mapped {
 public:
  // `frame`: what the picture is if the buffer does not say. Every plane's rows are inside the
  // memory, or the error says which is not.
  static Result<std::unique_ptr<Mapped>> open(GstBuffer* buffer, const VideoPicture& frame,
                                              bool write) {
    std::unique_ptr<Mapped> m(new Mapped(buffer));
    TRY(m->map(frame, write));
    TRY(m->find_planes(frame));
    return m;
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
  explicit Mapped(GstBuffer* buffer) : buffer_(buffer) {}

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

kernels::Frame frame_at(const GstVideoInfo& placed, CUdeviceptr base) {
  kernels::Frame frame;
  for (guint k = 0; k < std::min(3u, GST_VIDEO_INFO_N_PLANES(&placed)); ++k) {
    frame.plane[k] = base + placed.offset[k];
    frame.stride[k] = placed.stride[k];
  }
  return frame;
}

// The part of the source that is to be shown.
struct Crop {
  int x = 0, y = 0;
};

Result<Crop> crop_of(GstBuffer* buffer, const VideoPicture& frame, const Mapped& mapped) {
  const auto size = [](int w, int h) { return std::to_string(w) + "x" + std::to_string(h); };
  const int width = frame.picture.width, height = frame.picture.height;
  const GstVideoCropMeta* meta = gst_buffer_get_video_crop_meta(buffer);
  if (meta &&
      (meta->width != static_cast<guint>(width) || meta->height != static_cast<guint>(height)))
    return Error{Fault::Unsupported, 0,
                 "the buffer's crop is " +
                     size(static_cast<int>(meta->width), static_cast<int>(meta->height)) +
                     ", the caps say " + size(width, height) + ", and this element does not scale"};
  const int64_t x = meta ? meta->x : 0, y = meta ? meta->y : 0;
  if (x + width > mapped.width() || y + height > mapped.height())
    return Error{Fault::Unsupported, 0,
                 "a picture of " + size(width, height) + " at " + std::to_string(x) + "," +
                     std::to_string(y) + " is not inside the frame of " +
                     size(mapped.width(), mapped.height())};
  return Crop{static_cast<int>(x), static_cast<int>(y)};
}

Result<CUdeviceptr> staged(CUdeviceptr& pointer, const GstVideoInfo& placed) {
  if (!pointer)
    TRY_CU(mem_alloc, &pointer, GST_VIDEO_INFO_SIZE(&placed));
  return CUdeviceptr{pointer};
}

// A page-locked buffer that the GPU has finished with.
Result<Upload*> next_upload(Running& running, size_t size) {
  if (running.uploads.size() < kUploads) {
    auto host = PinnedMemory::create(running.context, size);
    if (!host)
      return std::move(host.error());
    auto done = Event::create(running.context, Event::Use::Local);
    if (!done)
      return std::move(done.error());
    running.uploads.push_back({std::move(*host), std::move(*done), nullptr});
    return &running.uploads.back();
  }
  running.next_upload = (running.next_upload + 1) % kUploads;
  Upload& oldest = running.uploads[running.next_upload];
  if (oldest.done.query() == CUDA_ERROR_NOT_READY)
    TRY_CU(stream_synchronize, oldest.stream);
  return &oldest;
}

// System memory to planes on the GPU, whose layout is `placed`: the whole frame, because a crop may
// begin between two chroma samples.
Result<void> upload(Running& running, const Mapped& in, const GstVideoInfo& placed,
                    const Planes& to, CUstream stream) {
  const kernels::Format& format = *running.from.picture.format;
  auto free = next_upload(running, GST_VIDEO_INFO_SIZE(&placed));
  if (!free)
    return std::move(free.error());
  std::byte* const host = (*free)->host.data();
  for (int k = 0; k < format.planes; ++k) {
    const auto* from = reinterpret_cast<const std::byte*>(in.frame().plane[k]);
    const auto bytes = static_cast<size_t>(format.row_bytes(k, in.width()));
    const auto pitch = static_cast<size_t>(placed.stride[k]);
    for (int row = 0; row < format.rows(k, in.height()); ++row)
      memcpy(host + placed.offset[k] + static_cast<size_t>(row) * pitch,
             from + row * in.frame().stride[k], bytes);
  }
  TRY(copy_planes(placed, planes_at(placed, reinterpret_cast<uintptr_t>(host), CU_MEMORYTYPE_HOST),
                  to, stream));
  (*free)->stream = stream;
  if (const CUresult code = (*free)->done.record(stream); code != CUDA_SUCCESS)
    return cuda_error("event_record", code);
  return {};
}

// Frames in system memory may be larger than the caps say, and show a part.
void fit_staging(Running& running, const Mapped& in) {
  GstVideoInfo& placed = running.device_from;
  if (GST_VIDEO_INFO_WIDTH(&placed) == in.width() && GST_VIDEO_INFO_HEIGHT(&placed) == in.height())
    return;
  gst_video_info_set_format(&placed, GST_VIDEO_INFO_FORMAT(&running.from.info),
                            static_cast<guint>(in.width()), static_cast<guint>(in.height()));
  place(placed);
  cu().stream_synchronize(running.last);
  if (running.staged_from)
    cu().mem_free(running.staged_from);
  running.staged_from = 0;
  running.uploads.clear();
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

// The same picture in other memory.
Result<void> move(Running& running, Counters& counters, const Mapped& in, const Mapped& out,
                  CUstream stream) {
  ++counters.copied;
  if (!in.memory() && out.memory()) {
    ++counters.uploaded;
    return upload(running, in, running.device_from, out.planes(), stream);
  }
  return copy_planes(running.from.info, in.planes(), out.planes(), stream);
}

Result<void> convert(Running& running, Counters& counters, const Mapped& in, Crop crop,
                     const Mapped& out, CUstream stream) {
  kernels::Frame from = in.frame();
  if (!in.memory()) {
    auto device = staged(running.staged_from, running.device_from);
    if (!device)
      return std::move(device.error());
    TRY(upload(running, in, running.device_from,
               planes_at(running.device_from, *device, CU_MEMORYTYPE_DEVICE), stream));
    from = frame_at(running.device_from, *device);
    ++counters.uploaded;
  }
  kernels::Frame to = out.frame();
  if (!out.memory()) {
    auto device = staged(running.staged_to, running.device_to);
    if (!device)
      return std::move(device.error());
    to = frame_at(running.device_to, *device);
  }
  TRY(running.converter->convert(from, in.width(), in.height(), crop.x, crop.y, to, stream));
  if (!running.converter->vectorised(from, crop.x, crop.y, to))
    ++counters.any_layout;
  if (!out.memory())
    TRY(copy_planes(running.device_to,
                    planes_at(running.device_to, running.staged_to, CU_MEMORYTYPE_DEVICE),
                    out.planes(), stream));
  return {};
}

Result<void> process(Running& running, Counters& counters, const Mapped& in, Crop crop,
                     const Mapped& out) {
  ScopedContext scoped(*running.context);
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  const CUstream reads = in.memory() ? stream_of(in.memory()) : running.stream->get();
  const CUstream stream = out.memory() ? stream_of(out.memory()) : reads;
  const bool same = running.same && crop.x == 0 && crop.y == 0 &&
                    in.width() == running.to.picture.width &&
                    in.height() == running.to.picture.height;
  if (in.memory())
    TRY(order(*running.before, reads, stream));
  else
    fit_staging(running, in);
  // What is staged is used again.
  TRY(order(*running.after, running.last, stream));
  running.last = stream;
  TRY(same ? move(running, counters, in, out, stream)
           : convert(running, counters, in, crop, out, stream));
  if (in.memory())
    TRY(order(*running.after, stream, reads));
  if (!out.memory()) {
    // A CPU reads it next.
    TRY_CU(stream_synchronize, stream);
    ++counters.downloaded;
  }
  ++counters.frames;
  return {};
}

GstFlowReturn fail(GstBaseTransform* base, const Error& error) {
  post_error(base, "convert a frame", error);
  return GST_FLOW_ERROR;
}

// Frames of another context than the one found at the start: theirs is the one to work in.
Result<void> follow_context(GstBaseTransform* base, Running& running, GstBuffer* buffer) {
  if (gst_buffer_n_memory(buffer) != 1 || !gst_is_cuda_memory(gst_buffer_peek_memory(buffer, 0)))
    return {};
  GstCudaContext* theirs = GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(buffer, 0))->context;
  if (theirs == gst_context(running.context))
    return {};
  auto context = wrap_context(theirs);
  if (!context)
    return std::move(context.error());
  TRY(use_context(running, *context));
  TRY(make_converter(running));
  GST_INFO_OBJECT(base, "following the frames to the context %p on device %d", theirs,
                  running.context->device);
  state_of(base).context.replace(theirs);
  // A pool of that context for what comes out.
  gst_base_transform_reconfigure_src(base);
  return {};
}

void before_transform(GstBaseTransform* base, GstBuffer* buffer) {
  ConvertState& state = state_of(base);
  if (!state.running || !state.running->have_caps)
    return;
  if (auto followed = follow_context(base, *state.running, buffer); !followed) {
    state.running->have_caps = false;
    post_error(base, "follow the frames to their CUDA context", followed.error());
  }
}

GstFlowReturn transform(GstBaseTransform* base, GstBuffer* in_buffer, GstBuffer* out_buffer) {
  ConvertState& state = state_of(base);
  if (!state.running || !state.running->have_caps)
    return GST_FLOW_NOT_NEGOTIATED;
  Running& running = *state.running;
  auto in = Mapped::open(in_buffer, running.from, false);
  if (!in)
    return fail(base, std::move(in.error()).with("input"));
  auto out = Mapped::open(out_buffer, running.to, true);
  if (!out)
    return fail(base, std::move(out.error()).with("output"));
  // Its planes were checked for the size that it says it has.
  if ((*out)->width() < running.to.picture.width || (*out)->height() < running.to.picture.height)
    return fail(base, {Fault::Unsupported, 0,
                       "the output buffer holds " + std::to_string((*out)->width()) + "x" +
                           std::to_string((*out)->height()) + ", less than the caps say"});
  if ((*out)->memory() &&
      GST_CUDA_MEMORY_CAST((*out)->memory())->context != gst_context(running.context))
    return fail(base, {Fault::Unsupported, 0, "the output buffer is of another CUDA context"});
  auto crop = crop_of(in_buffer, running.from, **in);
  if (!crop)
    return fail(base, crop.error());
  if (auto done = process(running, state.counters, **in, *crop, **out); !done)
    return fail(base, done.error());
  return GST_FLOW_OK;
}

// What is true of the picture stays true of the converted one; how it lies in memory, its colours
// and its crop do not.
gboolean transform_meta(GstBaseTransform* base, GstBuffer* out, GstMeta* meta, GstBuffer* in) {
  const GstMetaInfo* info = meta->info;
  if (info->api == GST_VIDEO_META_API_TYPE || info->api == GST_VIDEO_CROP_META_API_TYPE)
    return FALSE;
  if (gst_meta_api_type_has_tag(info->api, g_quark_from_static_string("colorspace")) ||
      gst_meta_api_type_has_tag(info->api, g_quark_from_static_string("memory")))
    return FALSE;
  const GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(in);
  if (crop && (crop->x || crop->y)) {
    if (info->api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE) {
      // In the coordinates of what is shown, as far as it is in there.
      const auto* roi = reinterpret_cast<const GstVideoRegionOfInterestMeta*>(meta);
      const guint x = std::max(roi->x, crop->x), y = std::max(roi->y, crop->y);
      const guint right = std::min(roi->x + roi->w, crop->x + crop->width);
      const guint bottom = std::min(roi->y + roi->h, crop->y + crop->height);
      if (x >= right || y >= bottom)
        return FALSE;
      GstVideoRegionOfInterestMeta* moved = gst_buffer_add_video_region_of_interest_meta_id(
          out, roi->roi_type, x - crop->x, y - crop->y, right - x, bottom - y);
      moved->id = roi->id;
      moved->parent_id = roi->parent_id;
      for (const GList* p = roi->params; p; p = p->next)
        gst_video_region_of_interest_meta_add_param(
            moved, gst_structure_copy(static_cast<const GstStructure*>(p->data)));
      return FALSE;
    }
    if (gst_meta_api_type_has_tag(info->api, g_quark_from_static_string("size")))
      return FALSE;
  }
  (void)base;
  return TRUE;
}

// --- The rest of a transform

gboolean query(GstBaseTransform* base, GstPadDirection direction, GstQuery* query) {
  ConvertState& state = state_of(base);
  if (state.context.answer(GST_ELEMENT(base), query))
    return TRUE;
  return GST_BASE_TRANSFORM_CLASS(color_convert_parent_class)->query(base, direction, query);
}

void set_context(GstElement* element, GstContext* context) {
  ConvertState& state = state_of(element);
  int device;
  {
    MutexLock lock(state.mutex);
    device = state.device;
  }
  state.context.take(element, context, device);
  GST_ELEMENT_CLASS(color_convert_parent_class)->set_context(element, context);
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  const auto result =
      GST_ELEMENT_CLASS(color_convert_parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    state_of(element).context.reset();
  return result;
}

void finalize(GObject* object) {
  delete static_cast<CudaColorConvert*>(static_cast<gpointer>(object))->state;
  G_OBJECT_CLASS(color_convert_parent_class)->finalize(object);
}

void install_properties(GObjectClass* klass) {
  const auto rw = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                           GST_PARAM_MUTABLE_READY);
  g_object_class_install_property(
      klass, PROP_DEVICE,
      g_param_spec_int("cuda-device-id", "CUDA device",
                       "Ordinal of the GPU, -1: that of the neighbouring elements, else the first",
                       -1, G_MAXINT, -1, rw));
  g_object_class_install_property(
      klass, PROP_POLICY,
      g_param_spec_enum("colorimetry-policy", "Colorimetry policy",
                        "What to do where downstream wants other primaries or transfer",
                        policy_get_type(), static_cast<int>(Policy::Strict), rw));
  g_object_class_install_property(
      klass, PROP_STATS,
      g_param_spec_boxed("stats", "Statistics",
                         "Frames converted; of these by the kernel for any layout, copied because "
                         "only the memory changes, from and to system memory",
                         GST_TYPE_STRUCTURE,
                         static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)));
}

void color_convert_class_init(CudaColorConvertClass* klass) {
  GST_DEBUG_CATEGORY_INIT(cudacolorconvert_debug, "cudacolorconvert", 0, "CUDA colour converter");
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = finalize;
  install_properties(object_class);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  element_class->set_context = set_context;
  element_class->change_state = change_state;
  gst_element_class_set_static_metadata(
      element_class, "CUDA colour converter", "Filter/Converter/Video/Colorspace/Hardware",
      "Converts formats and colours of video on the GPU, exactly", "The cudaipc authors");
  for (const bool targets : {false, true}) {
    GstCaps* caps = convertible_caps(targets);
    gst_element_class_add_pad_template(
        element_class,
        gst_pad_template_new(targets ? "src" : "sink", targets ? GST_PAD_SRC : GST_PAD_SINK,
                             GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
  }
  auto* base_class = GST_BASE_TRANSFORM_CLASS(klass);
  base_class->passthrough_on_same_caps = FALSE;  // set_caps() says when
  base_class->start = start;
  base_class->stop = stop;
  base_class->transform_caps = transform_caps;
  base_class->fixate_caps = fixate_caps;
  base_class->set_caps = set_caps;
  base_class->sink_event = sink_event;
  base_class->transform_size = transform_size;
  base_class->decide_allocation = decide_allocation;
  base_class->propose_allocation = propose_allocation;
  base_class->before_transform = before_transform;
  base_class->transform = transform;
  base_class->transform_meta = transform_meta;
  base_class->query = query;
  gst_type_mark_as_plugin_api(policy_get_type(), static_cast<GstPluginAPIFlags>(0));
}

void color_convert_init(CudaColorConvert* self) {
  self->state = new ConvertState;
}

}  // namespace

GType convert_get_type() {
  return color_convert_get_type();
}

}  // namespace cudaipc
