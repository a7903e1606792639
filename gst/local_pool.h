// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// A pool of GPU frame buffers of this process alone, in any raw format.
#pragma once

#include <gst/cuda/gstcudabufferpool.h>

#include "gst/context.h"

namespace cudaipc {

// A GstCudaBufferPool subclass, which upstream elements take for one of theirs: GStreamer 1.22's
// own pool knows only some formats. Layout: place() of layout.h.
GstBufferPool* new_local_pool(const ContextPtr& context);

}  // namespace cudaipc
