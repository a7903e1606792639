# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# What the process tests share. Source it; bash. Each script ends with `verdict`.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
softcuda=$here/with-softcuda
tmp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$tmp"' EXIT
failures=0
caps='video/x-raw(memory:CUDAMemory),format=NV12,width=320,height=240,framerate=60/1'

check() { # NAME STATUS [OUTPUT FILE…]
  if [ "$2" -eq 0 ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1"
    shift 2
    [ $# -eq 0 ] || tail -n 20 "$@"
    failures=$((failures + 1))
  fi
}

# Producer and consumer, each a process of its own under one software device. Both must end well.
pair() { # PRODUCER LINE, CONSUMER LINE
  # The outer run gives both the same driver folder.
  "$softcuda" bash -c '
    tmp=$1
    timeout 120 gst-launch-1.0 -q $3 >"$tmp/consumer" 2>&1 &
    consumer=$!
    GST_DEBUG=cudaipcsink:4 GST_DEBUG_NO_COLOR=1 GST_DEBUG_FILE=$tmp/sink.log \
      timeout 120 gst-launch-1.0 -q $2 >"$tmp/producer" 2>&1
    producer=$?
    wait $consumer && exit $producer' pair "$tmp" "$1" "$2" >"$tmp/softcuda" 2>&1
}
stat_of() { grep -o "$1=(guint64)[0-9]*" "$tmp/sink.log" | tail -n 1 | grep -o '[0-9]*$'; }

verdict() {
  [ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
}
