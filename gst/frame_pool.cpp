// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Configuring pools of GPU frames.
#include "gst/frame_pool.h"

#include "gst/layout.h"

namespace cudaipc {

const gchar** frame_pool_options(GstBufferPool*) {
  static const gchar* options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, nullptr};
  return options;
}

gboolean configure_frame_pool(GstBufferPool* pool, GstStructure* config, guint most,
                              GstVideoInfo* placed) {
  GstCaps* caps = nullptr;
  guint min = 0, max = 0;
  GstVideoInfo info;
  if (!gst_buffer_pool_config_get_params(config, &caps, nullptr, &min, &max) || !caps ||
      !gst_video_info_from_caps(&info, caps)) {
    GST_WARNING_OBJECT(pool, "no video caps in the pool's configuration");
    return FALSE;
  }
  place(info);
  *placed = info;
  // More than the budget cannot be had, and upstream should know.
  if (most) {
    max = max == 0 ? most : MIN(max, most);
    min = MIN(min, max);
  }
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&info)),
                                    min, max);
  auto* base = static_cast<GstBufferPoolClass*>(g_type_class_peek(GST_TYPE_BUFFER_POOL));
  return base->set_config(pool, config);
}

GstBuffer* frame_buffer(GstMemory* memory, GstVideoInfo placed) {
  GstBuffer* buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer, memory);
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&placed),
                                 GST_VIDEO_INFO_WIDTH(&placed), GST_VIDEO_INFO_HEIGHT(&placed),
                                 GST_VIDEO_INFO_N_PLANES(&placed), placed.offset, placed.stride);
  return buffer;
}

}  // namespace cudaipc
