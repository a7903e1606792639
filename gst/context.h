// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// GStreamer's CUDA contexts as ours and back.
#pragma once

#include <gst/cuda/cuda-gst.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudautils.h>
#include <gst/gst.h>

#include <memory>

#include "gst/cuda/resources.h"

namespace cudaipc {

struct GstUnref {
  void operator()(gpointer object) const { gst_object_unref(object); }
};
template <typename T>
using GstPtr = std::unique_ptr<T, GstUnref>;

struct GFree {
  void operator()(gpointer p) const { g_free(p); }
};
using Text = std::unique_ptr<gchar, GFree>;

// Our handle of a GstCudaContext, with a reference of its own.
Result<ContextPtr> wrap_context(GstCudaContext* context);
// The GstCudaContext behind a handle made by wrap_context(); borrowed.
GstCudaContext* gst_context(const ContextPtr& context);

// Posts the error of a layer below on the bus of `element`, in the domain and with the code that
// fit its fault; `doing` says what the element was about. Cancelled is not posted.
void post_error(gpointer element, const char* doing, const Error& error);

}  // namespace cudaipc
