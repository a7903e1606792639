#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Installs what building and running needs (Debian 12 and 13, Ubuntu 24.04), if anything is missing.
#
#   tools/install-packages.sh [--tests]
#
# The CUDA Toolkit (12.4 or newer) is not among it: its headers and nvcc must be there.
set -eu
packages="g++ meson ninja-build pkg-config python3 libglib2.0-dev libgstreamer1.0-dev
  libgstreamer-plugins-base1.0-dev libgstreamer-plugins-bad1.0-dev gstreamer1.0-tools
  gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav
  libgtest-dev"
[ "${1:-}" = --tests ] && packages="$packages clang clang-format clang-tidy llvm"
missing=
for package in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
    missing="$missing $package"
done
if [ -n "$missing" ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  echo "installing:$missing"
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing \
    >/dev/null </dev/null
fi
if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "The CUDA Toolkit is missing: install it (nvcc and headers, 12.4 or newer), for instance" >&2
  echo "the packages cuda-nvcc-13-0 and cuda-cudart-dev-13-0 of NVIDIA's repository." >&2
  exit 1
fi
