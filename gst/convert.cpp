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

#include "gst/elements.h"
#include "gst/frame_converter.h"
#include "gst/local_pool.h"

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

// What exists from start() to stop(). Belongs to the streaming thread once running.
struct Running {
  std::unique_ptr<FrameConverter> frames;
  VideoPicture from, to;
  bool said_assumed = false, said_meaning = false;
};

// The C++ half of the element.
struct ConvertState {
  Mutex mutex;
  int device GUARDED_BY(mutex) = -1;
  Policy policy GUARDED_BY(mutex) = Policy::Strict;
  SharedContext context;
  std::unique_ptr<Running> running;  // state changes and the streaming thread, never both at once
  ConvertCounters counters;
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

GstStructure* stats(const ConvertCounters& c) {
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

gboolean start(GstBaseTransform* base) {
  ConvertState& state = state_of(base);
  int device;
  {
    MutexLock lock(state.mutex);
    device = state.device;
  }
  auto context = state.context.ensure(GST_ELEMENT(base), device);
  if (!context) {
    post_error(base, "start", context.error());
    return FALSE;
  }
  auto frames = FrameConverter::create(*context);
  if (!frames) {
    post_error(base, "start", frames.error());
    return FALSE;
  }
  state.running = std::make_unique<Running>();
  state.running->frames = std::move(*frames);
  return TRUE;
}

gboolean stop(GstBaseTransform* base) {
  ConvertState& state = state_of(base);
  if (std::exchange(state.running, nullptr)) {
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

// Fields of a 4:2:0 frame have chroma rows of their own: resampling between them mixes two times.
// The same for views that share a frame by rows or columns.
std::string interlace_trouble(const VideoPicture& from, const VideoPicture& to) {
  const kernels::Format &a = *from.picture.format, &b = *to.picture.format;
  const GstVideoMultiviewMode views = GST_VIDEO_INFO_MULTIVIEW_MODE(&from.info);
  if (views == GST_VIDEO_MULTIVIEW_MODE_SEPARATED)
    return "Views in separate frames of one buffer cannot be converted.";
  const bool shared = views == GST_VIDEO_MULTIVIEW_MODE_COLUMN_INTERLEAVED ||
                      views == GST_VIDEO_MULTIVIEW_MODE_ROW_INTERLEAVED ||
                      views == GST_VIDEO_MULTIVIEW_MODE_CHECKERBOARD;
  const bool resampled =
      !(a.sub_x == b.sub_x && a.sub_y == b.sub_y && from.picture.siting == to.picture.siting &&
        from.picture.colour.matrix == to.picture.colour.matrix);
  if (shared && (a.subsampled() || b.subsampled()) && resampled)
    return std::string("Frames of two interleaved views cannot be converted from ") + a.name +
           " to " + b.name + ": their chroma would be mixed.";
  if (!from.interlaced || (!a.sub_y && !b.sub_y) || !resampled)
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
  // What the caps left open is said now, but the frames stay as they are.
  if (same_picture(*from, *to) && from->cuda == to->cuda) {
    gst_base_transform_set_passthrough(base, TRUE);
    return TRUE;
  }
  running.from = std::move(*from);
  running.to = std::move(*to);
  if (auto set = running.frames->set_pictures(running.from, running.to); !set) {
    state.failed = true;
    post_error(base, "convert", set.error());
    return FALSE;
  }
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
    const ContextPtr& context = state.running->frames->context();
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
  GstBufferPool* pool = need_pool ? new_local_pool(state.running->frames->context()) : nullptr;
  if (pool && !configure(pool, caps, &size, &min, &max))
    gst_clear_object(&pool);
  gst_query_add_allocation_pool(query, pool, size, 0, 0);
  gst_clear_object(&pool);
  return TRUE;
}

// --- Frames

// Frames of another context than the one found at the start: theirs is the one to work in.
Result<void> follow_context(GstBaseTransform* base, Running& running, GstBuffer* buffer) {
  if (gst_buffer_n_memory(buffer) != 1 || !gst_is_cuda_memory(gst_buffer_peek_memory(buffer, 0)))
    return {};
  GstCudaContext* theirs = GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(buffer, 0))->context;
  if (theirs == gst_context(running.frames->context()))
    return {};
  auto context = wrap_context(theirs);
  if (!context)
    return std::move(context.error());
  auto frames = FrameConverter::create(*context);
  if (!frames)
    return std::move(frames.error());
  TRY((*frames)->set_pictures(running.from, running.to));
  running.frames = std::move(*frames);
  GST_INFO_OBJECT(base, "following the frames to the context %p on device %d", theirs,
                  (*context)->device);
  state_of(base).context.replace(theirs);
  // A pool of that context for what comes out.
  gst_base_transform_reconfigure_src(base);
  return {};
}

void before_transform(GstBaseTransform* base, GstBuffer* buffer) {
  ConvertState& state = state_of(base);
  if (!state.running || gst_base_transform_is_passthrough(base) || !state.running->frames->ready())
    return;
  // Where that fails the frame is of two contexts, which transform() refuses.
  if (auto followed = follow_context(base, *state.running, buffer); !followed)
    post_error(base, "follow the frames to their CUDA context", followed.error());
}

GstFlowReturn transform(GstBaseTransform* base, GstBuffer* in, GstBuffer* out) {
  ConvertState& state = state_of(base);
  if (!state.running || !state.running->frames->ready())
    return GST_FLOW_NOT_NEGOTIATED;
  if (auto done = state.running->frames->convert(in, out, state.counters); !done) {
    post_error(base, "convert a frame", done.error());
    return GST_FLOW_ERROR;
  }
  return GST_FLOW_OK;
}

// What is true of the picture stays true of the converted one; how it lies in memory, its colours
// and its crop do not.
gboolean transform_meta(GstBaseTransform*, GstBuffer* out, GstMeta* meta, GstBuffer* in) {
  const GstMetaInfo* info = meta->info;
  if (info->api == GST_VIDEO_META_API_TYPE || info->api == GST_VIDEO_CROP_META_API_TYPE)
    return FALSE;
  static const GQuark colorspace = g_quark_from_static_string("colorspace");
  static const GQuark memory = g_quark_from_static_string("memory");
  static const GQuark size = g_quark_from_static_string("size");
  if (gst_meta_api_type_has_tag(info->api, colorspace) ||
      gst_meta_api_type_has_tag(info->api, memory))
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
    if (gst_meta_api_type_has_tag(info->api, size))
      return FALSE;
  }
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
  GstCaps* caps = convertible_caps();
  for (const GstPadDirection direction : {GST_PAD_SINK, GST_PAD_SRC})
    gst_element_class_add_pad_template(
        element_class, gst_pad_template_new(direction == GST_PAD_SINK ? "sink" : "src", direction,
                                            GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);
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
