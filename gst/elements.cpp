// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Enums and helpers of both elements.
#include "gst/elements.h"

namespace cudaipc {

GType ipc_mode_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(IpcModeChoice::Auto), "vmm where the device exports it, else legacy",
       "auto"},
      {static_cast<int>(IpcModeChoice::Vmm), "cuMemCreate, descriptor over the socket, read-only",
       "vmm"},
      {static_cast<int>(IpcModeChoice::Legacy), "cuMemAlloc, cuIpcGetMemHandle", "legacy"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoIpcMode", values);
  return type;
}

GType sync_mode_get_type() {
  static const GEnumValue values[] = {{static_cast<int>(SyncModeChoice::Auto),
                                       "semaphore, else event, else host, per consumer", "auto"},
                                      {static_cast<int>(SyncModeChoice::Semaphore),
                                       "stream writes into a shared page", "semaphore"},
                                      {static_cast<int>(SyncModeChoice::Event),
                                       "CUDA IPC events (same user and /dev/shm)", "event"},
                                      {static_cast<int>(SyncModeChoice::Host),
                                       "the sink waits for the GPU before it sends", "host"},
                                      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoSyncMode", values);
  return type;
}

Result<Address> resolve_address(const char* property) {
  return property ? Address::parse(property) : Address::default_for_user();
}

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

GstPtr<GstCudaContext> held(Mutex& mutex, GstCudaContext* const* context) {
  MutexLock lock(mutex);
  return GstPtr<GstCudaContext>(
      static_cast<GstCudaContext*>(*context ? gst_object_ref(*context) : nullptr));
}

}  // namespace

Result<ContextPtr> ensure_context(GstElement* element, int device, Mutex& mutex,
                                  GstCudaContext** context) {
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
  GstPtr<GstCudaContext> found = held(mutex, context);
  if (!found)
    found = ask_pads(element, device, true);
  if (!found)
    found = ask_pads(element, device, false);
  if (!found) {
    // The bin or the application answers by set_context().
    gst_element_post_message(
        element, gst_message_new_need_context(GST_OBJECT(element), GST_CUDA_CONTEXT_TYPE));
    found = held(mutex, context);
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
  {
    MutexLock lock(mutex);
    gst_object_replace(reinterpret_cast<GstObject**>(context), GST_OBJECT_CAST(found.get()));
  }
  return wrap_context(found.get());
}

bool answer_context_query(GstElement* element, GstQuery* query, Mutex& mutex,
                          GstCudaContext* const* context) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_CONTEXT)
    return false;
  GstPtr<GstCudaContext> held;
  {
    MutexLock lock(mutex);
    if (*context)
      held.reset(static_cast<GstCudaContext*>(gst_object_ref(*context)));
  }
  return gst_cuda_handle_context_query(element, query, held.get());
}

}  // namespace cudaipc
