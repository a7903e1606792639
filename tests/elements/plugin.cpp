// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Test elements for launch lines: stampsrc and stampcheck.
//
// stampsrc writes a pattern that names the frame, on its own stream and without waiting, into
// whatever buffers downstream proposes: a GPU element at its fastest. stampcheck compares what it
// gets with the buffer's offset, on its own stream and without waiting, and fails at EOS if a word
// was wrong or a frame missing.
#include <gst/base/gstbasesink.h>
#include <gst/base/gstpushsrc.h>
#include <gst/cuda/gstcudabufferpool.h>

#include "gst/elements.h"
#include "tests/elements/stamp.h"

namespace cudaipc::test {
namespace {

// A frame mapped for CUDA for the length of a scope.
class Mapped {
 public:
  Mapped(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags)
      : ok_(gst_video_frame_map(&frame_, &info, buffer,
                                static_cast<GstMapFlags>(flags | GST_MAP_CUDA))) {}
  ~Mapped() {
    if (ok_)
      gst_video_frame_unmap(&frame_);
  }
  explicit operator bool() const { return ok_; }
  Planes planes() const {
    Planes p;
    for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(&frame_); ++i) {
      p.address[i] = reinterpret_cast<uintptr_t>(GST_VIDEO_FRAME_PLANE_DATA(&frame_, i));
      p.stride[i] = static_cast<size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame_, i));
    }
    return p;
  }

 private:
  GstVideoFrame frame_;
  gboolean ok_;
};

struct Common {
  SharedContext context;
  ContextPtr wrapped;
  std::unique_ptr<Stamper> stamper;
  GstVideoInfo info;
  guint64 frames = 0;
  guint64 delay_us = 0;
  bool blank = false;

  bool start(GstElement* element) {
    auto made = context.ensure(element, -1);
    if (!made) {
      post_error(element, "start", made.error());
      return false;
    }
    wrapped = *made;
    return true;
  }
  bool ready(GstElement* element) {
    if (stamper)
      return true;
    auto made = Stamper::create(wrapped);
    if (!made) {
      post_error(element, "load kernels", made.error());
      return false;
    }
    stamper = std::move(*made);
    return true;
  }
  void stop() {
    stamper.reset();
    wrapped.reset();
    context.reset();
  }
};

// --- stampsrc

struct CudaIpcStampSrc {
  GstPushSrc parent;
  Common* common;
};
struct CudaIpcStampSrcClass {
  GstPushSrcClass parent_class;
};
G_DEFINE_TYPE(CudaIpcStampSrc, stamp_src, GST_TYPE_PUSH_SRC)

Common& src_common(gpointer src) {
  return *static_cast<CudaIpcStampSrc*>(src)->common;
}

gboolean src_start(GstBaseSrc* base) {
  src_common(base).frames = 0;
  return src_common(base).start(GST_ELEMENT(base));
}

gboolean src_stop(GstBaseSrc* base) {
  src_common(base).stop();
  return TRUE;
}

gboolean src_set_caps(GstBaseSrc* base, GstCaps* caps) {
  return gst_video_info_from_caps(&src_common(base).info, caps);
}

gboolean src_decide_allocation(GstBaseSrc* base, GstQuery* query) {
  // As GStreamer's CUDA elements do: a proposed pool only if it is a CUDA pool of this context.
  Common& common = src_common(base);
  GstCaps* caps = nullptr;
  gst_query_parse_allocation(query, &caps, nullptr);
  GstBufferPool* pool = nullptr;
  guint size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&common.info)), min = 0, max = 0;
  const bool proposed = gst_query_get_n_allocation_pools(query) > 0;
  if (proposed)
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
  if (pool && (!GST_IS_CUDA_BUFFER_POOL(pool) ||
               GST_CUDA_BUFFER_POOL(pool)->context != gst_context(common.wrapped)))
    gst_clear_object(&pool);
  if (!pool)
    pool = gst_cuda_buffer_pool_new(gst_context(common.wrapped));
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size, min, max);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_set_config(pool, config);
  config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_get_params(config, nullptr, &size, nullptr, nullptr);
  gst_structure_free(config);
  if (proposed)
    gst_query_set_nth_allocation_pool(query, 0, pool, size, min, max);
  else
    gst_query_add_allocation_pool(query, pool, size, min, max);
  gst_object_unref(pool);
  return TRUE;
}

GstFlowReturn src_fill(GstPushSrc* push, GstBuffer* buffer) {
  Common& common = src_common(push);
  if (!common.ready(GST_ELEMENT(push)))
    return GST_FLOW_ERROR;
  const Mapped mapped(common.info, buffer, GST_MAP_WRITE);
  if (!mapped)
    return GST_FLOW_ERROR;
  const guint64 n = common.frames++;
  if (!common.blank) {
    if (auto stamped = common.stamper->stamp(common.info, mapped.planes(), n, common.delay_us);
        !stamped) {
      post_error(push, "stamp", stamped.error());
      return GST_FLOW_ERROR;
    }
  }
  GST_BUFFER_OFFSET(buffer) = n;
  GST_BUFFER_OFFSET_END(buffer) = n + 1;
  const gint fps_n = MAX(1, GST_VIDEO_INFO_FPS_N(&common.info));
  GST_BUFFER_PTS(buffer) = gst_util_uint64_scale(n, GST_SECOND * GST_VIDEO_INFO_FPS_D(&common.info),
                                                 static_cast<guint64>(fps_n));
  GST_BUFFER_DURATION(buffer) = GST_SECOND / static_cast<guint64>(fps_n);
  return GST_FLOW_OK;
}

enum { PROP_0, PROP_DELAY, PROP_EXPECT, PROP_BLANK };

gboolean src_query(GstBaseSrc* base, GstQuery* query) {
  if (src_common(base).context.answer(GST_ELEMENT(base), query))
    return TRUE;
  return GST_BASE_SRC_CLASS(stamp_src_parent_class)->query(base, query);
}

void src_set_context(GstElement* element, GstContext* context) {
  src_common(element).context.take(element, context, -1);
  GST_ELEMENT_CLASS(stamp_src_parent_class)->set_context(element, context);
}

void stamp_src_class_init(CudaIpcStampSrcClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = [](GObject* object, guint id, const GValue* value, GParamSpec*) {
    if (id == PROP_BLANK)
      src_common(object).blank = g_value_get_boolean(value);
    else
      src_common(object).delay_us = g_value_get_uint64(value);
  };
  object_class->finalize = [](GObject* object) {
    delete reinterpret_cast<CudaIpcStampSrc*>(object)->common;
    G_OBJECT_CLASS(stamp_src_parent_class)->finalize(object);
  };
  g_object_class_install_property(
      object_class, PROP_DELAY,
      g_param_spec_uint64("delay-us", "Delay", "GPU time before each frame is written", 0,
                          G_MAXUINT64, 0,
                          static_cast<GParamFlags>(G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS)));
  g_object_class_install_property(
      object_class, PROP_BLANK,
      g_param_spec_boolean("blank", "Blank", "Leave the frames as they are: no GPU work", FALSE,
                           static_cast<GParamFlags>(G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS)));
  auto* element_class = GST_ELEMENT_CLASS(klass);
  element_class->set_context = src_set_context;
  gst_element_class_set_static_metadata(element_class, "Stamp source", "Source/Video",
                                        "Writes frame numbers with a kernel",
                                        "The cudaipc authors");
  static GstStaticPadTemplate pad =
      GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
                              GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE_WITH_FEATURES(
                                  GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, GST_VIDEO_FORMATS_ALL)));
  gst_element_class_add_static_pad_template(element_class, &pad);
  auto* base_class = GST_BASE_SRC_CLASS(klass);
  base_class->start = src_start;
  base_class->stop = src_stop;
  base_class->set_caps = src_set_caps;
  base_class->decide_allocation = src_decide_allocation;
  base_class->query = src_query;
  GST_PUSH_SRC_CLASS(klass)->fill = src_fill;
}

void stamp_src_init(CudaIpcStampSrc* src) {
  src->common = new Common;
  gst_base_src_set_format(GST_BASE_SRC(src), GST_FORMAT_TIME);
}

// --- stampcheck

struct CudaIpcStampCheck {
  GstBaseSink parent;
  Common* common;
  guint64 expect;
  guint64 next;
  guint64 missing;
};
struct CudaIpcStampCheckClass {
  GstBaseSinkClass parent_class;
};
G_DEFINE_TYPE(CudaIpcStampCheck, stamp_check, GST_TYPE_BASE_SINK)

CudaIpcStampCheck& check_of(gpointer sink) {
  return *static_cast<CudaIpcStampCheck*>(sink);
}

gboolean check_start(GstBaseSink* base) {
  CudaIpcStampCheck& self = check_of(base);
  self.common->frames = self.next = self.missing = 0;
  return TRUE;
}

gboolean check_stop(GstBaseSink* base) {
  check_of(base).common->stop();
  return TRUE;
}

gboolean check_set_caps(GstBaseSink* base, GstCaps* caps) {
  return gst_video_info_from_caps(&check_of(base).common->info, caps);
}

GstFlowReturn check_render(GstBaseSink* base, GstBuffer* buffer) {
  CudaIpcStampCheck& self = check_of(base);
  Common& common = *self.common;
  GstMemory* memory = gst_buffer_peek_memory(buffer, 0);
  if (!gst_is_cuda_memory(memory)) {
    GST_ELEMENT_ERROR(base, STREAM, FORMAT, ("not CUDA memory"), (nullptr));
    return GST_FLOW_ERROR;
  }
  if (!common.wrapped) {
    // In the memory's own context, as GStreamer's elements work.
    (void)load_driver();  // this plugin has its own table
    if (auto wrapped = wrap_context(GST_CUDA_MEMORY_CAST(memory)->context))
      common.wrapped = *wrapped;
  }
  if (!common.wrapped || !common.ready(GST_ELEMENT(base)))
    return GST_FLOW_ERROR;
  const guint64 n = GST_BUFFER_OFFSET(buffer);
  if (n != self.next && common.frames > 0) {
    self.missing += n > self.next ? n - self.next : 1;
    if (!GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT)) {
      GST_ELEMENT_ERROR(base, STREAM, FAILED, ("a gap without DISCONT"), (nullptr));
      return GST_FLOW_ERROR;
    }
  }
  self.next = n + 1;
  ++common.frames;
  const Mapped mapped(common.info, buffer, GST_MAP_READ);
  if (!mapped)
    return GST_FLOW_ERROR;
  if (auto checked = common.stamper->check(common.info, mapped.planes(), n, common.delay_us);
      !checked) {
    post_error(base, "check", checked.error());
    return GST_FLOW_ERROR;
  }
  return GST_FLOW_OK;
}

void check_verdict(CudaIpcStampCheck& self) {
  uint64_t wrong = 0;
  if (self.common->stamper) {
    auto counted = self.common->stamper->mismatches();
    if (!counted) {
      post_error(&self, "read the counter", counted.error());
      return;
    }
    wrong = *counted;
  }
  g_print("stampcheck: %" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT
          " wrong words, %" G_GUINT64_FORMAT " missing\n",
          self.common->frames, static_cast<guint64>(wrong), self.missing);
  if (wrong || (self.expect && (self.common->frames != self.expect || self.missing)))
    GST_ELEMENT_ERROR(&self, STREAM, FAILED,
                      ("%" G_GUINT64_FORMAT " wrong words, %" G_GUINT64_FORMAT
                       " frames missing, %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " received",
                       static_cast<guint64>(wrong), self.missing, self.common->frames, self.expect),
                      (nullptr));
}

gboolean check_event(GstBaseSink* base, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
    check_verdict(check_of(base));
  return GST_BASE_SINK_CLASS(stamp_check_parent_class)->event(base, event);
}

void check_set_property(GObject* object, guint id, const GValue* value, GParamSpec*) {
  if (id == PROP_EXPECT)
    check_of(object).expect = g_value_get_uint64(value);
  else
    check_of(object).common->delay_us = g_value_get_uint64(value);
}

void stamp_check_class_init(CudaIpcStampCheckClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = check_set_property;
  object_class->finalize = [](GObject* object) {
    delete reinterpret_cast<CudaIpcStampCheck*>(object)->common;
    G_OBJECT_CLASS(stamp_check_parent_class)->finalize(object);
  };
  const auto flags = static_cast<GParamFlags>(G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_property(
      object_class, PROP_DELAY,
      g_param_spec_uint64("delay-us", "Delay", "GPU time before each frame is read", 0, G_MAXUINT64,
                          0, flags));
  g_object_class_install_property(
      object_class, PROP_EXPECT,
      g_param_spec_uint64("expect", "Expect", "Frames to receive until EOS, 0: any number", 0,
                          G_MAXUINT64, 0, flags));
  auto* element_class = GST_ELEMENT_CLASS(klass);
  gst_element_class_set_static_metadata(element_class, "Stamp check", "Sink/Video",
                                        "Checks frame numbers with a kernel",
                                        "The cudaipc authors");
  static GstStaticPadTemplate pad =
      GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS,
                              GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE_WITH_FEATURES(
                                  GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, GST_VIDEO_FORMATS_ALL)));
  gst_element_class_add_static_pad_template(element_class, &pad);
  auto* base_class = GST_BASE_SINK_CLASS(klass);
  base_class->start = check_start;
  base_class->stop = check_stop;
  base_class->set_caps = check_set_caps;
  base_class->render = check_render;
  base_class->event = check_event;
}

void stamp_check_init(CudaIpcStampCheck* self) {
  self->common = new Common;
  gst_base_sink_set_sync(GST_BASE_SINK(self), FALSE);
  gst_base_sink_set_last_sample_enabled(GST_BASE_SINK(self), FALSE);
}

}  // namespace

GType stamp_src_type() {
  return stamp_src_get_type();
}
GType stamp_check_type() {
  return stamp_check_get_type();
}

}  // namespace cudaipc::test

namespace {

gboolean plugin_init(GstPlugin* plugin) {
  return gst_element_register(plugin, "stampsrc", GST_RANK_NONE, cudaipc::test::stamp_src_type()) &&
         gst_element_register(plugin, "stampcheck", GST_RANK_NONE,
                              cudaipc::test::stamp_check_type());
}

}  // namespace

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cudaipctest, "Test elements of cudaipc",
                  plugin_init, VERSION, "LGPL", PACKAGE, ORIGIN)
