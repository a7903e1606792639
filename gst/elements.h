// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The plugin's elements and what they share: property enums, caps, the address they mean.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/shared_context.h"
#include "gst/transport/channel.h"

namespace cudaipc {

// Registered as cudaipcsink and cudaipcvideosink, cudaipcsrc and cudaipcvideosrc: GStreamer's own
// nvcodec plugin has elements of the short names too, the long ones are never ambiguous. GType
// names differ from nvcodec's for the same reason.
GType sink_get_type();
GType src_get_type();
// Registered as cudacolorconvert.
GType convert_get_type();

enum class IpcModeChoice { Auto, Vmm, Legacy };
enum class SyncModeChoice { Auto, Semaphore, Event, Host };
GType ipc_mode_get_type();
GType sync_mode_get_type();

#define CUDAIPC_CAPS                                                                            \
  GST_VIDEO_CAPS_MAKE_WITH_FEATURES(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, GST_VIDEO_FORMATS_ALL) \
  "; " GST_VIDEO_CAPS_MAKE(GST_VIDEO_FORMATS_ALL)

// The `address` property as an address; null: the default place.
Result<Address> resolve_address(const char* property);

}  // namespace cudaipc
