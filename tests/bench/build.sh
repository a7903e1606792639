#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Builds the colour benchmark on a machine that has the CUDA Toolkit but not GStreamer, NPP included.
#
#   tests/bench/build.sh FOLDER     makes FOLDER/colour, for this machine's GPU
set -eu
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
for source in kernels/convert tests/bench/plain; do
  "$nvcc" -std=c++20 -I. -arch="${ARCH:-native}" -fatbin $source.cu -o "$out/$(basename $source).fatbin" &
done
wait
python3 kernels/embed.py "$out/convert.fatbin" "$out/convert_image.cpp" cudaipc_kernels_image
python3 kernels/embed.py "$out/plain.fatbin" "$out/plain_image.cpp" plain_kernels_image
npp=()
libraries=()
if [ -e "$cuda/include/nppi_color_conversion.h" ]; then
  npp=(-DHAVE_NPP)
  libraries=(-L"$cuda/lib64" -lnppicc -lnppc -Wl,-rpath,"$cuda/lib64")
fi
objects=()
for source in tests/bench/colour.cpp tests/oracle/oracle.cpp kernels/converter.cpp \
  kernels/format.cpp gst/cuda/driver.cpp gst/cuda/resources.cpp gst/base/*.cpp \
  "$out/convert_image.cpp" "$out/plain_image.cpp"; do
  object=$out/$(basename "$source" .cpp).o
  g++ -std=c++20 -O2 -Wall -I. -I"$cuda/include" "${npp[@]}" -c "$source" -o "$object" &
  objects+=("$object")
done
wait
g++ -o "$out/colour" "${objects[@]}" "${libraries[@]}" -ldl
