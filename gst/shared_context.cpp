// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Asking for, holding and giving out a CUDA context.
#include "gst/shared_context.h"

namespace cudaipc {
namespace {

// The context of whoever is linked to the element's pads in this direction.
GstPtr<GstCudaContext> ask_pads(GstElement* element, int device, bool downstream) {
  struct Asked {
    GstQuery* query;
    bool found;
  } asked{gst_query_new_context(GST_CUDA_CONTEXT_TYPE), false};
  const auto ask = downstream ? gst_element_foreach_src_pad : gst_element_foreach_sink_pad;
  ask(
      element,
      [](GstElement*, GstPad* pad, gpointer data) -> gboolean {
        auto* a = static_cast<Asked*>(data);
        a->found = gst_pad_peer_query(pad, a->query);
        return !a->found;
      },
      &asked);
  GstCudaContext* context = nullptr;
  if (asked.found) {
    GstContext* answer = nullptr;
    gst_query_parse_context(asked.query, &answer);
    gst_cuda_handle_set_context(element, answer, device, &context);
  }
  gst_query_unref(asked.query);
  return GstPtr<GstCudaContext>(context);
}

}  // namespace

GstPtr<GstCudaContext> SharedContext::held(int device) {
  MutexLock lock(mutex_);
  if (context_ && device >= 0) {
    gint ordinal = -1;
    g_object_get(context_, "cuda-device-id", &ordinal, nullptr);
    if (ordinal != device)
      gst_clear_object(&context_);
  }
  return GstPtr<GstCudaContext>(
      static_cast<GstCudaContext*>(context_ ? gst_object_ref(context_) : nullptr));
}

Result<ContextPtr> SharedContext::ensure(GstElement* element, int device) {
  auto driver = load_driver();
  if (!driver)
    return std::move(driver.error());
  // Says by name why there is none, where GStreamer only says that.
  auto info = device_info(device < 0 ? 0 : device);
  if (!info)
    return std::move(info.error());
  // GStreamer's own table of the same driver; it asserts where this was not called.
  if (!gst_cuda_load_library())
    return Error{Fault::Unsupported, 0,
                 "GStreamer's CUDA library does not take this driver: see the log of category "
                 "cudaloader"};
  gst_cuda_memory_init_once();
  GstPtr<GstCudaContext> found = held(device);
  if (!found)
    found = ask_pads(element, device, true);
  if (!found)
    found = ask_pads(element, device, false);
  if (!found) {
    // The bin or the application answers by set_context().
    gst_element_post_message(
        element, gst_message_new_need_context(GST_OBJECT(element), GST_CUDA_CONTEXT_TYPE));
    found = held(device);
  }
  if (!found) {
    // Makes one and tells the others.
    GstCudaContext* made = nullptr;
    if (!gst_cuda_ensure_element_context(element, device, &made))
      return Error{Fault::Unsupported, 0,
                   "no CUDA context on device " + std::to_string(device < 0 ? 0 : device) + " (" +
                       info->name + "): see the log of category cudacontext"};
    found.reset(made);
  }
  replace(found.get());
  return wrap_context(found.get());
}

void SharedContext::take(GstElement* element, GstContext* context, int device) {
  MutexLock lock(mutex_);
  gst_cuda_handle_set_context(element, context, device, &context_);
}

bool SharedContext::answer(GstElement* element, GstQuery* query) {
  return GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT &&
         gst_cuda_handle_context_query(element, query, held(-1).get());
}

void SharedContext::replace(GstCudaContext* context) {
  MutexLock lock(mutex_);
  gst_object_replace(reinterpret_cast<GstObject**>(&context_),
                     reinterpret_cast<GstObject*>(context));
}

}  // namespace cudaipc
