#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Conversion kernels with one thing wrong, each by a change of the source that must apply exactly once:
# the tests must fail with every one of them, by wrong samples.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(readlink -f "${CUDAIPC_BUILD:-$root/build}")
cuda=${CUDA_ROOT:-/usr/local/cuda}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
flags=(-std=c++20 -O1 -w -isystem "$cuda/include")
failures=0

# NAME FILE TEXT REPLACEMENT [device]: what is wrong in kernels/FILE; `device`: in the kernels themselves.
mutant() {
  local name=$1 file=$2 dir=$tmp/$1
  mkdir -p "$dir"
  cp -r "$root/kernels" "$dir/kernels"
  python3 "$root/tests/mutants/mutate.py" "$root/kernels/$file" "$dir/kernels/$file" "$3" "$4" ||
    return 1
  if [ "${5:-}" = device ]; then
    g++ "${flags[@]}" -I"$dir" -I"$root" -fPIC -shared -o "$dir/convert_soft.so" \
      "$dir/kernels/soft.cpp" "$dir/kernels/format.cpp" -lpthread || return 1
    ln -s "$tmp/test_convert" "$dir/test"
  else
    g++ "${flags[@]}" -I"$dir" -I"$root" -o "$dir/test" "$dir/kernels/converter.cpp" "${common[@]}" \
      -lgtest -ldl -lpthread || return 1
  fi
}

judge() { # NAME
  local dir=$tmp/$1
  [ -x "$dir/test" ] || { echo "FAILED: $1 was not built"; cat "$dir.log"; return 1; }
  SOFTCUDA_MUTANT_KERNELS=$([ -e "$dir/convert_soft.so" ] && echo "$dir/convert_soft.so") \
    "$root/tests/with-softcuda" "$dir/test" \
    --gtest_filter='Sizes.*:Siting.Each*:Colours.Matrices*:Exact.*' >"$dir.out" 2>&1
  if grep -qE 'exactly [0-9]|was not written|Which is:|luma [0-9]+:' "$dir.out" &&
    grep -q 'FAILED TEST' "$dir.out"; then
    echo "ok: $1 is caught: $(grep -m 1 -oE '(component [0-9] .* is .*exactly|byte [0-9]+ .*written|luma [0-9]+).*' "$dir.out" | cut -c1-80)"
  else
    echo "FAILED: $1 is not caught"
    tail -n 5 "$dir.out"
    return 1
  fi
}

common=()
for source in tests/kernels/test_convert.cpp tests/oracle/oracle.cpp kernels/format.cpp \
  gst/cuda/driver.cpp gst/cuda/resources.cpp gst/base/error.cpp; do
  object=$tmp/$(basename "$source" .cpp).o
  g++ "${flags[@]}" -I"$root" -c "$root/$source" -o "$object" &
  common+=("$object")
done
# Any image will do: the software device has the kernels in a shared object.
g++ "${flags[@]}" -c "$build/kernels/kernels_image.cpp" -o "$tmp/image.o" || exit 1
common+=("$tmp/image.o")
wait
g++ "${flags[@]}" -I"$root" -o "$tmp/test_convert" "$root/kernels/converter.cpp" "${common[@]}" \
  -lgtest -ldl -lpthread || exit 1

names=()
start() {
  names+=("$1")
  mutant "$@" >"$tmp/$1.log" 2>&1 &
  # Two compilers at a time.
  [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
}
start truncation pixel.h 'static_cast<uint32_t>(lrintf(value))' 'static_cast<uint32_t>(value)' device
start truncation-in-words convert.cu 'multiply_add(v, p.max_float, as_float(kFloatIntegers))' \
  'as_float(kFloatIntegers) + floorf(v * p.max_float)' device
start no-tail-column convert.cu 'i < x + TW && i < p.x.size' 'i < x + TW && i + 1 < p.x.size' device
start stride-of-plane-0 pixel.h 'y * s.stride[plane]' 'y * s.stride[0]' device
start stride-of-plane-0-in-words convert.cu 'static_cast<uint32_t>(s.stride[plane])' \
  'static_cast<uint32_t>(s.stride[0])' device
start swapped-chroma converter.cpp 'place(in, red_first ? 2 : 1)' 'place(in, red_first ? 1 : 2)'
start left-is-centred converter.cpp 'up[0][0] = 0, up[0][1] = 4, up[1][0] = 2, up[1][1] = 2' \
  'up[0][0] = 1, up[0][1] = 3, up[1][0] = 3, up[1][1] = 1'
start 601-is-709 colour.h '{0.299, 0.114}' '{0.2126, 0.0722}'
start full-is-limited colour.h 'return {0, max_code(bits)};' 'return {16 * step, 219 * step};'
start words-over-65535 converter.cpp 'scale = 1.0 / (1 << in.shift)' \
  'scale = in.shift ? max_code(in.bits) / 65535 : 1'
start centre-at-half-the-maximum colour.h 'return {128 * step, colour.range == Range::Limited ? 224 * step : max_code(bits)};' \
  'return {colour.range == Range::Limited ? 128 * step : max_code(bits) / 2, colour.range == Range::Limited ? 224 * step : max_code(bits)};'
wait
for name in "${names[@]}"; do
  judge "$name" || failures=$((failures + 1))
done
# And without a change they pass.
ln -s "$tmp/test_convert" "$tmp/none"
"$root/tests/with-softcuda" "$tmp/none" --gtest_brief=1 >"$tmp/none.out" 2>&1 ||
  { echo "FAILED: nothing changed, and it fails"; tail "$tmp/none.out"; failures=$((failures + 1)); }
[ "$failures" -eq 0 ]
