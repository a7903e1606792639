#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# What 10,000 frames cost in driver calls: nothing that opens, maps, allocates or creates, beyond
# what 500 frames cost; and no synchronise on the sink's streaming thread.
. "$(dirname "$0")/support.sh"

calls() { # FRAMES SYNC -> "name count" lines of both processes, and of the streaming thread
  rm -rf "$tmp/report"
  SOFTCUDA_KEEP_REPORT=$tmp/report pair \
    "stampsrc num-buffers=$1 ! $caps ! cudaipcsink address=$tmp/s sync-mode=$2 max-buffers=8
     slow-consumer=block wait-for-consumers=1 sync=false" \
    "cudaipcsrc address=$tmp/s connection-timeout=30 ! stampcheck expect=$1"
  check "$1 frames, $2" $? "$tmp"/{producer,consumer,softcuda}
  grep -h '^calls:' "$tmp"/report/*.report |
    grep -E 'cuIpc|cuMemMap|cuMemUnmap|cuMemCreate|cuMemAlloc|cuMemFree|cuEventCreate|cuEventDestroy|cuStreamCreate|cuStreamDestroy|cuMemHost' |
    awk -F'[ =]' '{n[$2] += $3} END {for (i in n) print i, n[i]}' | sort
}

for sync in semaphore event; do
  calls 500 $sync | grep -v ^ok >"$tmp/few"
  calls 10000 $sync | grep -v ^ok >"$tmp/many"
  diff "$tmp/few" "$tmp/many" >"$tmp/diff"
  check "10,000 frames open, map, allocate and create no more than 500, $sync" $? "$tmp/diff"
  # The streaming thread is named after stampsrc's pad. Slots are zeroed when they are made, that
  # is all that may be waited for.
  waits=$(grep -h '^thread-calls: cudaipcstampsrc cuStreamSynchronize=' "$tmp"/report/*.report |
    grep -o '[0-9]*$')
  created=$(grep -h '^thread-calls: cudaipcstampsrc cuMemCreate=' "$tmp"/report/*.report |
    grep -o '[0-9]*$')
  [ "${waits:-0}" -le "${created:-0}" ]
  check "the sink's streaming thread waits for no frame, $sync (${waits:-0} waits, ${created:-0} slots)" $?
done
verdict
