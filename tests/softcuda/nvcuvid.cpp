// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// An empty libnvcuvid.so.1: without one, GStreamer 1.22's nvcodec registers none of its elements,
// not even cudaupload and cudadownload.
#include <cuda.h>

#define UNSUPPORTED(function)                                                 \
  extern "C" __attribute__((visibility("default"))) CUresult function(void) { \
    return CUDA_ERROR_NOT_SUPPORTED;                                          \
  }

UNSUPPORTED(cuvidCtxLockCreate)
UNSUPPORTED(cuvidCtxLockDestroy)
UNSUPPORTED(cuvidCtxLock)
UNSUPPORTED(cuvidCtxUnlock)
UNSUPPORTED(cuvidGetDecoderCaps)
UNSUPPORTED(cuvidCreateDecoder)
UNSUPPORTED(cuvidReconfigureDecoder)
UNSUPPORTED(cuvidDestroyDecoder)
UNSUPPORTED(cuvidDecodePicture)
UNSUPPORTED(cuvidGetDecodeStatus)
UNSUPPORTED(cuvidCreateVideoParser)
UNSUPPORTED(cuvidParseVideoData)
UNSUPPORTED(cuvidDestroyVideoParser)
UNSUPPORTED(cuvidMapVideoFrame)
UNSUPPORTED(cuvidUnmapVideoFrame)
UNSUPPORTED(cuvidMapVideoFrame64)
UNSUPPORTED(cuvidUnmapVideoFrame64)
