// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// A checksum of a picture in system memory, whatever its strides, and the meta it travels in.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <string>

namespace example {

inline constexpr const char* kMetaName = "cudaipc-example-checksum";

// SHA-1 over the picture's rows without their padding.
inline std::string checksum(const GstVideoFrame& frame) {
  GChecksum* sum = g_checksum_new(G_CHECKSUM_SHA1);
  for (gint plane = 0; plane < static_cast<gint>(GST_VIDEO_FRAME_N_PLANES(&frame)); ++plane) {
    // Bytes and rows of the plane's picture: the widest and tallest of its components.
    gint bytes = 0, rows = 0;
    for (guint c = 0; c < GST_VIDEO_FRAME_N_COMPONENTS(&frame); ++c) {
      if (static_cast<gint>(GST_VIDEO_FRAME_COMP_PLANE(&frame, c)) != plane)
        continue;
      bytes = MAX(bytes,
                  GST_VIDEO_FRAME_COMP_WIDTH(&frame, c) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, c));
      rows = MAX(rows, GST_VIDEO_FRAME_COMP_HEIGHT(&frame, c));
    }
    const auto* data = static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane));
    for (gint row = 0; row < rows; ++row)
      g_checksum_update(sum, data + row * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane), bytes);
  }
  std::string text = g_checksum_get_string(sum);
  g_checksum_free(sum);
  return text;
}

inline void register_meta() {
  static const gchar* tags[] = {nullptr};
  if (!gst_meta_get_info(kMetaName))
    gst_meta_register_custom(kMetaName, tags, nullptr, nullptr, nullptr);
}

}  // namespace example
