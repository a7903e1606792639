// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Holding GstCudaContext from C++, and errors on the bus.
#include "gst/context.h"

namespace cudaipc {
namespace {

struct GstContextHandle : Context {
  explicit GstContextHandle(GstCudaContext* context)
      : owner(GST_CUDA_CONTEXT(gst_object_ref(context))) {
    handle = static_cast<CUcontext>(gst_cuda_context_get_handle(context));
  }
  GstPtr<GstCudaContext> owner;
};

}  // namespace

Result<ContextPtr> wrap_context(GstCudaContext* context) {
  auto wrapped = std::make_shared<GstContextHandle>(context);
  ScopedContext scoped(*wrapped);
  if (scoped.result() != CUDA_SUCCESS)
    return cuda_error("ctx_push_current", scoped.result());
  TRY_CU(ctx_get_device, &wrapped->device);
  return ContextPtr(std::move(wrapped));
}

GstCudaContext* gst_context(const ContextPtr& context) {
  return static_cast<const GstContextHandle*>(context.get())->owner.get();
}

void post_error(gpointer element, const char* doing, const Error& error) {
  GQuark domain = GST_RESOURCE_ERROR;
  gint code = GST_RESOURCE_ERROR_FAILED;
  switch (error.fault) {
    case Fault::Cancelled:
      return;
    case Fault::Unsupported:
      domain = GST_LIBRARY_ERROR;
      code = GST_LIBRARY_ERROR_INIT;
      break;
    case Fault::Exhausted:
      code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
      break;
    case Fault::System:
      code = GST_RESOURCE_ERROR_OPEN_READ_WRITE;
      break;
    case Fault::Timeout:
      code = GST_RESOURCE_ERROR_NOT_FOUND;
      break;
    case Fault::Closed:
    case Fault::Protocol:
      code = GST_RESOURCE_ERROR_READ;
      break;
    case Fault::Cuda:
      break;
  }
  gst_element_message_full(GST_ELEMENT(element), GST_MESSAGE_ERROR, domain, code,
                           g_strdup_printf("Could not %s: %s", doing, error.message.c_str()),
                           g_strdup_printf("code %d", error.code), __FILE__, G_STRFUNC, __LINE__);
}

}  // namespace cudaipc
