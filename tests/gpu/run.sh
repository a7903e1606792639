#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Everything that needs a real GPU, in one run, with a short table last (docs/measurements.md).
#
#   tests/gpu/run.sh [LAUNCHER…]
#
# LAUNCHER is put in front of every command (a GStreamer that is not installed, for instance).
# CUDAIPC_BUILD names the build folder (default: build), FRAMES, DELAY_US and FLAT the load.
. "$(dirname "$0")/support.sh" "$@"
frames=${FRAMES:-60}
delay=${DELAY_US:-50000}

# A producer line and a consumer line over one address; both must end well.
pair() { # SECONDS PRODUCER CONSUMER
  local consumer status
  # shellcheck disable=SC2086
  timeout "$1" "${launch[@]}" gst-launch-1.0 -q $3 >"$tmp/consumer.out" 2>"$tmp/consumer.err" &
  consumer=$!
  # shellcheck disable=SC2086
  GST_DEBUG=cudaipcsink:4 GST_DEBUG_NO_COLOR=1 GST_DEBUG_FILE="$tmp/sink.log" \
    timeout "$1" "${launch[@]}" gst-launch-1.0 -q $2 >"$tmp/producer.out" 2>"$tmp/producer.err"
  status=$?
  wait "$consumer" && [ "$status" -eq 0 ] && return 0
  head -n 4 "$tmp/producer.err" "$tmp/consumer.err" "$tmp/consumer.out" >&2
  return 1
}
stat_of() { grep -o "$1=(guint64)[0-9]*" "$tmp/sink.log" | tail -n 1 | grep -o '[0-9]*$'; }

if [ -x "$build/tests/conformance/conformance" ]; then
  "${launch[@]}" "$build/tests/conformance/conformance" --gtest_brief=1 >"$tmp/conformance.out" 2>&1
  status=$?
  [ $status -eq 0 ] || cat "$tmp/conformance.out"
  result "conformance program" $status "$(tail -n 3 "$tmp/conformance.out" | tr '\n' ' ')"
fi

caps='video/x-raw(memory:CUDAMemory),format=NV12,width=1920,height=1080,framerate=60/1'
for ipc in vmm legacy; do
  for sync in semaphore event host; do
    pair 120 \
      "stampsrc num-buffers=$frames delay-us=$delay ! $caps ! cudaipcsink address=$tmp/s
       ipc-mode=$ipc sync-mode=$sync slow-consumer=block wait-for-consumers=1 sync=false" \
      "cudaipcsrc address=$tmp/s connection-timeout=30 ! stampcheck expect=$frames delay-us=2000"
    result "$frames stamped frames, $ipc, $sync, ${delay} us" $? \
      "$(grep stampcheck "$tmp/consumer.out"); copied $(stat_of copied)"
  done
done

flat=${FLAT:-5000}
pair 120 "stampsrc num-buffers=$flat ! $caps ! cudaipcsink address=$tmp/s slow-consumer=block
         wait-for-consumers=1 sync=false" \
  "cudaipcsrc address=$tmp/s connection-timeout=30 ! stampcheck expect=$flat"
result "$flat stamped frames, flat out, auto" $? "$(grep stampcheck "$tmp/consumer.out")"

raw='video/x-raw,format=NV12,width=1280,height=720,framerate=60/1'
"${launch[@]}" gst-launch-1.0 -q videotestsrc num-buffers=60 ! "$raw" ! \
  filesink location="$tmp/truth" 2>/dev/null
if "${launch[@]}" gst-inspect-1.0 cudaupload >/dev/null 2>&1; then
  pair 60 "videotestsrc num-buffers=60 ! $raw ! cudaupload ! video/x-raw(memory:CUDAMemory) !
           cudaipcsink address=$tmp/s slow-consumer=block wait-for-consumers=1 sync=false" \
    "cudaipcsrc address=$tmp/s connection-timeout=30 ! cudadownload ! filesink location=$tmp/got"
  status=$?
  cmp -s "$tmp/truth" "$tmp/got" || status=1
  [ "$(stat_of copied)" = 0 ] && [ "$(stat_of zero-copy)" = 60 ] || status=1
  result "cudaupload into slots, cudadownload exact" $status \
    "zero-copy $(stat_of zero-copy) copied $(stat_of copied) uploaded $(stat_of uploaded)"
else
  result "cudaupload into slots, cudadownload exact" 1 "no cudaupload in this GStreamer"
fi
pair 60 "videotestsrc num-buffers=60 ! $raw ! cudaipcsink address=$tmp/s slow-consumer=block
         wait-for-consumers=1 sync=false" \
  "cudaipcsrc address=$tmp/s connection-timeout=30 ! $raw ! filesink location=$tmp/got"
status=$?
cmp -s "$tmp/truth" "$tmp/got" || status=1
result "system memory in and out, exact" $status "uploaded $(stat_of uploaded)"

verdict
