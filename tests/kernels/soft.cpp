// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The test kernels for the software device.
#include "tests/softcuda/host_kernel.h"
// Behind it, because that is what makes the kernels C++.
#include "tests/kernels/test_kernels.cu"
