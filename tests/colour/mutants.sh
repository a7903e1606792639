#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
# Passes if the colour tests fail with every mutant, each by wrong samples rather than by a crash.
#
#   mutants.sh WITH_SOFTCUDA CONTROL {NAME FILTER PROGRAM KERNELS}…
#
# CONTROL is the program without a mistake: with the same filters it must pass. KERNELS is a mutant
# of the kernels, or "-" where the mistake is in PROGRAM.
set -u
with_softcuda=$1
control=$2
shift 2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
all=()
caught=0
missed=0

while [ $# -ge 4 ]; do
  name=$1 filter=$2 program=$3 kernels=$4
  shift 4
  all+=("$filter")
  kernels_of_it=()
  [ "$kernels" = - ] || kernels_of_it=(env "SOFTCUDA_KERNELS=$(readlink -f "$kernels")")
  timeout 60 "$with_softcuda" "${kernels_of_it[@]}" "$program" "--gtest_filter=$filter" \
    >"$log" 2>&1
  status=$?
  # gtest's status of failed tests, its last line, and a sample that is judged by the oracle.
  if [ $status -eq 1 ] && grep -q '^ *[0-9]* FAILED TEST' "$log" &&
    grep -q ': got .*, want .*, off by ' "$log"; then
    caught=$((caught + 1))
    echo "caught  $name: $(grep -m 1 -o 'component .* codes' "$log")"
  else
    missed=$((missed + 1))
    echo "MISSED  $name (status $status)"
    tail -n 20 "$log"
  fi
done

filters=$(printf '%s\n' "${all[@]}" | tr : '\n' | sort -u | paste -s -d :)
if ! timeout 120 "$with_softcuda" "$control" "--gtest_filter=$filters" >"$log" 2>&1 ||
  ! grep -q '^\[  PASSED  \] [1-9]' "$log"; then
  missed=$((missed + 1))
  echo "MISSED  the program without a mistake does not pass"
  tail -n 20 "$log"
fi
echo "$caught caught, $missed missed"
[ "$missed" -eq 0 ] && [ "$caught" -gt 0 ]
