#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# cudacolorconvert on either side of the exchange: its kernels write the sink's slots and read the
# source's imported frames, ordered by streams; the bytes are those of one process.
. "$(dirname "$0")/support.sh"
frames=60
raw="video/x-raw,format=NV12,width=328,height=242,framerate=60/1"
cuda="video/x-raw(memory:CUDAMemory)"
sink="cudaipcsink address=$tmp/s slow-consumer=block wait-for-consumers=1 sync=false"
src="cudaipcsrc address=$tmp/s connection-timeout=30"
# Slow streams: what is not ordered shows.
export SOFTCUDA_STREAM_DELAY_US=300

"$softcuda" gst-launch-1.0 -q videotestsrc num-buffers=$frames ! "$raw" ! cudacolorconvert ! \
  video/x-raw,format=RGBA ! filesink location="$tmp/once" >"$tmp/out" 2>&1 &&
  "$softcuda" gst-launch-1.0 -q videotestsrc num-buffers=$frames ! "$raw" ! cudacolorconvert ! \
    "$cuda,format=RGBA" ! cudacolorconvert ! video/x-raw,format=I420 ! \
    filesink location="$tmp/twice" >>"$tmp/out" 2>&1
check "one process" $? "$tmp/out"

compare() { # NAME EXPECTED
  local status=$?
  cmp "$tmp/got" "$2" >>"$tmp/consumer" 2>&1 || status=1
  [ "$(stat_of zero-copy)" = $frames ] && [ "$(stat_of copied)" = 0 ] || status=1
  check "$1: zero-copy $(stat_of zero-copy), copied $(stat_of copied)" $status \
    "$tmp"/{producer,consumer,softcuda}
}

for sync in semaphore event host; do
  pair "videotestsrc num-buffers=$frames ! $raw ! cudacolorconvert ! $cuda,format=RGBA ! $sink sync-mode=$sync" \
    "$src ! video/x-raw,format=RGBA ! filesink location=$tmp/got"
  compare "the producer converts into slots, $sync" "$tmp/once"
  pair "videotestsrc num-buffers=$frames ! $raw ! cudaupload ! $cuda ! $sink sync-mode=$sync" \
    "$src ! cudacolorconvert ! video/x-raw,format=RGBA ! filesink location=$tmp/got"
  compare "the consumer converts imported frames, $sync" "$tmp/once"
done
pair "videotestsrc num-buffers=$frames ! $raw ! cudaupload ! cudacolorconvert ! $cuda,format=RGBA ! $sink" \
  "$src ! cudacolorconvert ! $cuda,format=I420 ! cudadownload ! video/x-raw,format=I420 ! filesink location=$tmp/got"
compare "both convert" "$tmp/twice"
pair "videotestsrc num-buffers=$frames ! $raw ! cudaupload ! cudacolorconvert ! $cuda,format=NV12 ! $sink" \
  "$src ! cudacolorconvert ! cudacolorconvert ! video/x-raw,format=RGBA ! filesink location=$tmp/got"
compare "converters with nothing to do pass slots through" "$tmp/once"
verdict
