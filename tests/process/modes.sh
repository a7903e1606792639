#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Every pair of ipc-mode and sync-mode carries 1,000 stamped frames, with slow streams on both
# sides, so that a missing wait would be seen; and is seen, in plugins where it is missing.
. "$(dirname "$0")/support.sh"
frames=${1:-1000}
export SOFTCUDA_COPY_DELAY_US=300

matrix() { # IPC SYNC [WRITER'S DELAY] [READER'S DELAY], microseconds per frame
  pair "stampsrc num-buffers=$frames delay-us=${3:-0} ! $caps ! cudaipcsink address=$tmp/s ipc-mode=$1 sync-mode=$2
        slow-consumer=block wait-for-consumers=1 sync=false" \
    "cudaipcsrc address=$tmp/s connection-timeout=30 ! stampcheck expect=$frames delay-us=${4:-0}"
}

for ipc in vmm legacy; do
  for sync in semaphore event host; do
    matrix $ipc $sync && [ "$(stat_of copied)" = 0 ] && [ "$(stat_of zero-copy)" = "$frames" ]
    check "$ipc, $sync: $(grep -h stampcheck "$tmp/consumer")" $? "$tmp"/{producer,consumer,softcuda}
  done
done

frames=100
# The side whose wait is missing is made the slow one, so that the loss of it always shows.
mutant() { # NAME IPC SYNC WRITER'S DELAY READER'S DELAY
  local dir=$tmp/mutant-$1
  mkdir -p "$dir"
  cp "${CUDAIPC_BUILD:-$here/../build}/tests/mutants/libgstcudaipc-$1.so" "$dir/libgstcudaipc.so"
  CUDAIPC_PLUGIN_DIR=$dir matrix "$2" "$3" "$4" "$5"
  # For the right reason: wrong pixels, or accesses that nothing orders.
  local failed=$?
  [ $failed -ne 0 ] && grep -qE 'violation|[1-9][0-9]* wrong words' "$tmp"/{producer,consumer,softcuda}
  check "a plugin with $1 fails, $2, $3: $(grep -ho '[0-9]* wrong words' "$tmp/consumer" | head -n 1), \
$(grep -c "violation:" "$tmp/softcuda") kinds of violation" \
    $? "$tmp"/{producer,consumer,softcuda}
}
mutant no-ready-wait vmm semaphore 3000 0
mutant no-ready-wait legacy event 3000 0
mutant no-host-wait vmm host 3000 0
mutant early-release vmm semaphore 0 3000
mutant early-release legacy event 0 3000
mutant no-release-check vmm semaphore 0 3000
verdict
