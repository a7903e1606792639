#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Every pair of ipc-mode and sync-mode carries 1,000 stamped frames, with slow streams on both
# sides, so that a missing wait would be seen; and is seen, in plugins where it is missing.
. "$(dirname "$0")/support.sh"
frames=${1:-1000}
export SOFTCUDA_COPY_DELAY_US=300

matrix() { # IPC SYNC
  pair "stampsrc num-buffers=$frames ! $caps ! cudaipcsink address=$tmp/s ipc-mode=$1 sync-mode=$2
        slow-consumer=block wait-for-consumers=1 sync=false" \
    "cudaipcsrc address=$tmp/s connection-timeout=30 ! stampcheck expect=$frames"
}

for ipc in vmm legacy; do
  for sync in semaphore event host; do
    matrix $ipc $sync && [ "$(stat_of copied)" = 0 ] && [ "$(stat_of zero-copy)" = "$frames" ]
    check "$ipc, $sync: $(grep -h stampcheck "$tmp/consumer")" $? "$tmp"/{producer,consumer,softcuda}
  done
done

frames=100
mutant() { # NAME IPC SYNC
  local dir=$tmp/mutant-$1
  mkdir -p "$dir"
  cp "${CUDAIPC_BUILD:-$here/../build}/tests/mutants/libgstcudaipc-$1.so" "$dir/libgstcudaipc.so"
  CUDAIPC_PLUGIN_DIR=$dir matrix "$2" "$3"
  # For the right reason: wrong pixels, or accesses that nothing orders.
  local failed=$?
  [ $failed -ne 0 ] && grep -qE 'violation|[1-9][0-9]* wrong words' "$tmp"/{producer,consumer,softcuda}
  check "a plugin with $1 fails, $2, $3: $(grep -ho '[0-9]* wrong words' "$tmp/consumer" | head -n 1), \
$(grep -c "violation:" "$tmp/softcuda") kinds of violation" \
    $? "$tmp"/{producer,consumer,softcuda}
}
mutant no-ready-wait vmm semaphore
mutant no-ready-wait legacy event
mutant no-host-wait vmm host
mutant early-release vmm semaphore
mutant early-release legacy event
mutant no-release-check vmm semaphore
verdict
