#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Colour conversion on a real GPU: every code against the oracle, the memory checker, whole elements
# beside GStreamer's cudaconvert, and the kernel benchmark. A short table last (docs/measurements.md).
#
#   tests/gpu/colour.sh [LAUNCHER…]     as tests/gpu/run.sh; BENCH=FOLDER: a built tests/bench
. "$(dirname "$0")/support.sh" "$@"

test=("${launch[@]}" "$build/tests/colour/test_colour")
CUDAIPC_EXHAUSTIVE=1 "${test[@]}" --gtest_brief=1 >"$tmp/test" 2>&1
status=$?
[ $status -eq 0 ] || grep -v '^$' "$tmp/test" | head -n 20
result "kernels, exhaustive" $status "$(grep -oE '[0-9]+ tests from .* ran.*' "$tmp/test" | tail -n 1)"

for tool in memcheck racecheck initcheck; do
  if command -v compute-sanitizer >/dev/null; then
    timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 "${test[@]}" \
      --gtest_filter="${SANITIZE:-Layouts.*:Crops.*:Alpha.*:Refusals.*}" >"$tmp/sanitizer" 2>&1
    status=$?
    [ $status -eq 0 ] || grep -E '=====|FAILED|Failure' "$tmp/sanitizer" | head -n 12
    result "compute-sanitizer $tool" $status "$(grep -E 'SUMMARY' "$tmp/sanitizer" | tail -n 1)"
  else
    result "compute-sanitizer $tool" 1 "not installed"
  fi
done

# Frames a second of one element between a source of GPU frames that does nothing and a fakesink: the
# time of many frames less that of few, so that starting does not count.
seconds() { # FRAMES ELEMENT CAPS OUT
  local start end
  start=$(date +%s.%N)
  timeout 60 "${launch[@]}" gst-launch-1.0 -q stampsrc blank=true num-buffers="$1" ! \
    "video/x-raw(memory:CUDAMemory),$3,framerate=60/1" ! $2 ! \
    "video/x-raw(memory:CUDAMemory),format=$4" ! fakesink sync=false >"$tmp/element" 2>&1 || return 1
  end=$(date +%s.%N)
  echo "$start $end" | awk '{print $2 - $1}'
}
element() { # ELEMENT CAPS OUT
  local few many
  few=$(seconds 300 "$@") && many=$(seconds 120300 "$@") || { echo 0; return 1; }
  echo "$few $many" | awk '{printf "%.0f", 120000 / ($2 - $1)}'
}
for size in "1920,height=1080" "3840,height=2160"; do
  for pair in NV12:RGBA RGBA:NV12 P010_10LE:RGBA; do
    caps="format=${pair%:*},width=$size"
    ours=$(element cudacolorconvert "$caps" "${pair#*:}") || cat "$tmp/element"
    theirs=$(element cudaconvert "$caps" "${pair#*:}") || head -n 3 "$tmp/element"
    ratio=$(echo "$ours $theirs" | awk '{printf "%.2f", ($2 + 0 == 0) ? 0 : $1 / $2}')
    result "elements, $pair ${size/,height=/x}" "$(awk "BEGIN {exit ($ratio < 2)}"; echo $?)" \
      "cudacolorconvert $ours, cudaconvert $theirs frames/s, ratio $ratio"
  done
done

if [ -x "${BENCH:-}/colour" ]; then
  "$BENCH/colour" ${BENCH_ARGS:-} >"$tmp/bench" 2>&1
  result "benchmark" $? "below"
fi
[ ! -e "$tmp/bench" ] || cat "$tmp/bench"
verdict
