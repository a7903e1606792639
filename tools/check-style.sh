#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Formatting, licence lines, lint. --fix: formats instead of complaining.
set -u
cd "$(dirname "$0")/.." || exit 2
status=0
mapfile -t sources < <(git ls-files -co --exclude-standard -- '*.cpp' '*.h' '*.cu')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${sources[@]}"
else
  clang-format --dry-run --Werror "${sources[@]}" || status=1
fi
mapfile -t licensed < <(git ls-files -co --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.sh' '*.py' \
  '*meson.build' meson_options.txt tests/with-softcuda .ci/run)
for file in "${licensed[@]}"; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: LGPL-2.1-or-later' || {
    echo "$file: no SPDX line"
    status=1
  }
done
# The layers without GStreamer; thread-safety analysis and warnings of clang too.
flags=(-std=c++20 -Wall -Wextra -Wshadow -Wthread-safety -Werror -I.
  -isystem "${CUDA_PATH:-/usr/local/cuda}/include")
read -ra gio < <(pkg-config --cflags gio-2.0 gio-unix-2.0)
linted=(gst/{base,wire,transport,cuda,share}/*.cpp kernels/{converter,format}.cpp)
for file in "${linted[@]}"; do
  clang++ -fsyntax-only "${flags[@]}" "${gio[@]}" "$file" || status=1
done
clang-tidy --quiet "${linted[@]}" -- "${flags[@]}" "${gio[@]}" \
  2>/dev/null || status=1
exit $status
