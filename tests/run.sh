#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Installs, builds, runs every test, and ends with "N passed, N failed".
#
#   tests/run.sh [--quick]     --quick: the main build only, no sanitizers, no lint
set -u
cd "$(dirname "$0")/.." || exit 2
passed=0
failed=0
quick=${1:-}
werror=
[ -n "${CI:-}" ] && werror=-Dwerror=true

one() { # NAME COMMAND…
  local name=$1 start=$SECONDS
  shift
  if "$@" >"build-log.tmp" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s)"
    tail -n 60 build-log.tmp
  fi
  rm -f build-log.tmp
}

# Builds a configuration, or what is named of it, and counts its tests.
suite() { # FOLDER "SETUP ARGUMENTS" "TARGETS" MESON TEST ARGUMENTS…
  local dir=$1 setup=$2 targets=$3
  shift 3
  # shellcheck disable=SC2086
  [ -e "$dir/build.ninja" ] || meson setup "$dir" $werror $setup >"$dir.log" 2>&1
  # shellcheck disable=SC2086
  if ! ninja -C "$dir" $targets >>"$dir.log" 2>&1; then
    echo "FAILED  build of $dir"
    grep -E 'error|warning|FAILED' "$dir.log" | head -n 20
    tail -n 20 "$dir.log"
    failed=$((failed + 1))
    return
  fi
  rm -f "$dir.log"
  meson test -C "$dir" --no-rebuild --print-errorlogs "$@" </dev/null >"$dir/run.log" 2>&1
  local ok bad
  ok=$(grep -E '^Ok:' "$dir/run.log" | grep -o '[0-9]*')
  bad=$(awk '/^(Fail|Timeout|Unexpected Pass):/ {n += $NF} END {print n + 0}' "$dir/run.log")
  # Nothing run at all is a failure.
  [ "${ok:-0}" -gt 0 ] || bad=$((bad + 1))
  grep -E '^ *[0-9]+/[0-9]+ ' "$dir/run.log"
  [ "$bad" -eq 0 ] || cat "$dir/run.log"
  passed=$((passed + ${ok:-0}))
  failed=$((failed + bad))
}

one "packages" tools/install-packages.sh --tests
suite build "" ""
one "plugin loads without a driver" env -u LD_LIBRARY_PATH GST_PLUGIN_PATH=build/gst \
  GST_REGISTRY=build/registry-plain.bin gst-inspect-1.0 cudaipc
if [ "$quick" != --quick ]; then
  one "style" tools/check-style.sh
  # What the unit tests need, and no more: instrumented builds are slow.
  unit="tests/softcuda/libcuda.so.1 tests/kernels/test_kernels_soft.so tests/unit/test_wire
    tests/unit/test_channel tests/unit/test_share"
  # Not with warnings as errors: instrumented code makes gcc warn of what is not there (gcc(1),
  # -fsanitize).
  suite build-asan "-Dwerror=false -Dcuda-archs=90 -Db_sanitize=address,undefined -Db_lundef=false" \
    "$unit tests/unit/test_elements tests/unit/test_convert tests/kernels/convert_soft.so" --suite unit
  suite build-tsan "-Dwerror=false -Dcuda-archs=90 -Db_sanitize=thread -Db_lundef=false" "$unit" --suite unit
  one "examples/quickstart.sh" examples/quickstart.sh </dev/null
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
