#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# From a fresh clone to frames that cross processes, with every one checked.
#
#   examples/quickstart.sh [VIDEO FILE]
#
# Installs what is missing, builds in build/, then runs one producer and two consumers, the second
# attached late. On the GPU if there is one, else on the software CUDA device. Exit status 0: every
# frame that the first consumer should have got arrived, bit-exact.
set -eu
file=${1:+$(readlink -f "$1")}
cd "$(dirname "$0")/.."
if [ -n "$file" ] && [ ! -r "$file" ]; then
  echo "quickstart: cannot read $1" >&2
  exit 2
fi
tools/install-packages.sh
[ -e build/build.ninja ] || meson setup build >/dev/null
echo "building..."
ninja -C build >build/quickstart-build.log 2>&1 || {
  tail -n 30 build/quickstart-build.log >&2
  exit 1
}

tmp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$tmp"' EXIT
if command -v nvidia-smi >/dev/null && nvidia-smi -L >"$tmp/gpus" 2>/dev/null; then
  device=$(head -n 1 "$tmp/gpus")
  run() { GST_PLUGIN_PATH=$PWD/build/gst GST_REGISTRY=$PWD/build/registry.bin "$@"; }
else
  device="software CUDA device (no GPU found)"
  run() { "$@"; }
fi
cat >"$tmp/scene" <<'S'
set -u
tmp=$1 file=$2 address=$1/socket
# The first consumer is waited for; the second comes when frames are on their way.
build/examples/consumer "$address" "$tmp/frame.png" >"$tmp/first" 2>"$tmp/first.err" &
first=$!
build/examples/producer "$address" 1 600 ${file:+"$file"} >"$tmp/producer" 2>"$tmp/producer.err" &
producer=$!
until [ -S "$address" ] || ! kill -0 $producer 2>/dev/null; do sleep 0.05; done
sleep 1
build/examples/consumer "$address" >"$tmp/second" 2>"$tmp/second.err" &
second=$!
wait $producer; echo $? >"$tmp/producer.status"
wait $first; echo $? >"$tmp/first.status"
wait $second; echo $? >"$tmp/second.status"
S
case $device in
  software*) timeout 300 tests/with-softcuda bash "$tmp/scene" "$tmp" "$file" || true ;;
  *) run timeout 300 bash "$tmp/scene" "$tmp" "$file" || true ;;
esac

value() { grep -o "$2=[^ ]*" "$tmp/$1" 2>/dev/null | cut -d= -f2; }
produced=$(value producer frames || true)
echo
echo "device:    $device"
echo "source:    ${file:-test picture, 1280x720 NV12, 60 per second}"
echo "transport: ipc-mode=$(value first ipc-mode || true) sync-mode=$(value first sync-mode || true)"
printf '%-18s %8s %6s %10s %14s\n' "" frames lost bit-exact "latency (us)"
printf '%-18s %8s\n' producer "${produced:-none}"
for consumer in first second; do
  printf '%-18s %8s %6s %10s %6s mean %s max\n' "$consumer consumer" \
    "$(value $consumer received || true)" "$(value $consumer lost || true)" \
    "$(value $consumer exact || true)" "$(value $consumer latency_mean_us || true)" \
    "$(value $consumer latency_max_us || true)"
done
if [ -s "$tmp/frame.png" ]; then
  cp "$tmp/frame.png" build/quickstart.png
  echo "picture:   build/quickstart.png"
fi
status=0
for process in producer first second; do
  if [ "$(cat "$tmp/$process.status" 2>/dev/null)" != 0 ]; then
    echo "$process failed:" >&2
    cat "$tmp/$process.err" >&2 2>/dev/null || true
    status=1
  fi
done
if [ -z "$produced" ] || [ "$produced" = 0 ] || [ "$(value first received)" != "$produced" ] ||
  [ "$(value first exact)" != "$produced" ] || [ ! -s "$tmp/frame.png" ]; then
  status=1
fi
[ $status -eq 0 ] && echo "every frame arrived, bit-exact" || echo "FAILED" >&2
exit $status
