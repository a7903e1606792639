# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# What the GPU runs share. Source it with the script's arguments; bash. Each script ends with
# `verdict`.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=$(readlink -f "${CUDAIPC_BUILD:-build}")
launch=("$@")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export GST_PLUGIN_PATH=$build/gst:$build/tests/elements${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}
export GST_REGISTRY=$tmp/registry.bin
passed=0
failed=0
table=()

result() { # NAME STATUS DETAIL
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  table+=("$(printf '%-44s %-6s %s' "$1" "$([ "$2" -eq 0 ] && echo pass || echo FAIL)" "$3")")
  # A run that is cut short has said how far it came.
  echo "$SECONDS s: ${table[-1]}" >&2
}

verdict() {
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
  printf '%s\n' "${table[@]}"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
