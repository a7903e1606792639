#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Makes docs/colour.png: colour bars through cudacolorconvert and videoconvert, and their errors.
#
#   examples/colour-picture.sh [OUT.png]      needs a build; no GPU
set -eu
cd "$(dirname "$0")/.."
out=${1:-docs/colour.png}
width=240 height=160
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
run() { tests/with-softcuda gst-launch-1.0 -q "$@"; }
caps="width=$width,height=$height,framerate=30/1"
bars="video/x-raw,format=NV12,$caps,colorimetry=bt601,chroma-site=jpeg"
run videotestsrc num-buffers=1 pattern=smpte ! "$bars" ! filesink location="$tmp/bars"
for converter in cudacolorconvert videoconvert; do
  run videotestsrc num-buffers=1 pattern=smpte ! "$bars" ! $converter ! video/x-raw,format=RGB ! \
    filesink location="$tmp/$converter"
done
build/tests/oracle/picture $width $height "$tmp/bars" "$tmp/cudacolorconvert" "$tmp/videoconvert" \
  "$tmp/all"
run filesrc location="$tmp/all" ! \
  rawvideoparse format=rgb width=$((3 * width)) height=$((2 * height)) ! pngenc ! \
  filesink location="$out"
