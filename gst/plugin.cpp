// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Registers the elements. Works on any machine: the CUDA driver is opened when an element starts.
#include "gst/elements.h"

namespace {

gboolean plugin_init(GstPlugin* plugin) {
  // Above nvcodec's rank of none, so that the short names mean these elements where both exist.
  const struct {
    const char* name;
    GType type;
  } elements[] = {{"cudaipcsink", cudaipc::sink_get_type()},
                  {"cudaipcvideosink", cudaipc::sink_get_type()},
                  {"cudaipcsrc", cudaipc::src_get_type()},
                  {"cudaipcvideosrc", cudaipc::src_get_type()},
                  {"cudacolorconvert", cudaipc::convert_get_type()}};
  for (const auto& element : elements) {
    if (!gst_element_register(plugin, element.name, GST_RANK_NONE, element.type))
      return FALSE;
  }
  return TRUE;
}

}  // namespace

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cudaipc,
                  "GPU video frames between processes, without a copy", plugin_init, VERSION,
                  "LGPL", PACKAGE, ORIGIN)
