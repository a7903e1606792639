// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Entry points that must exist, or GStreamer counts the driver as absent, and that nothing here
// needs: they say so and answer "not supported".
#include <cuda.h>

#include <cstdio>

// Defined by name only: their parameters do not matter.
#define UNSUPPORTED(function)                                        \
  extern "C" __attribute__((visibility("default")))                  \
  CUresult unsupported_##function(void) __asm__(#function);          \
  CUresult unsupported_##function(void) {                            \
    static bool said = false;                                        \
    if (!said)                                                       \
      fprintf(stderr, "softcuda: %s is not supported\n", #function); \
    said = true;                                                     \
    return CUDA_ERROR_NOT_SUPPORTED;                                 \
  }

UNSUPPORTED(cuCtxEnablePeerAccess)
UNSUPPORTED(cuCtxDisablePeerAccess)
UNSUPPORTED(cuGraphicsMapResources)
UNSUPPORTED(cuGraphicsUnmapResources)
UNSUPPORTED(cuGraphicsUnregisterResource)
UNSUPPORTED(cuGraphicsSubResourceGetMappedArray)
UNSUPPORTED(cuGraphicsGLRegisterImage)
UNSUPPORTED(cuGraphicsGLRegisterBuffer)
UNSUPPORTED(cuTexObjectCreate)
UNSUPPORTED(cuTexObjectDestroy)
UNSUPPORTED(cuStreamBatchMemOp_v2)
UNSUPPORTED(cuMemGetAccess)
UNSUPPORTED(cuMemGetHandleForAddressRange)
UNSUPPORTED(cuMemPoolCreate)
UNSUPPORTED(cuMemPoolDestroy)
UNSUPPORTED(cuMemPoolSetAttribute)
UNSUPPORTED(cuMemPoolGetAttribute)
UNSUPPORTED(cuMemPoolExportToShareableHandle)
UNSUPPORTED(cuMemPoolImportFromShareableHandle)
UNSUPPORTED(cuMemAllocFromPoolAsync)
UNSUPPORTED(cuEGLStreamProducerConnect)

// Names that cuda.h maps to a version: both exist.
#undef cuGraphicsResourceSetMapFlags
#undef cuGraphicsResourceGetMappedPointer
#undef cuGLGetDevices
UNSUPPORTED(cuGraphicsResourceSetMapFlags)
UNSUPPORTED(cuGraphicsResourceSetMapFlags_v2)
UNSUPPORTED(cuGraphicsResourceGetMappedPointer)
UNSUPPORTED(cuGraphicsResourceGetMappedPointer_v2)
UNSUPPORTED(cuGLGetDevices)
UNSUPPORTED(cuGLGetDevices_v2)
