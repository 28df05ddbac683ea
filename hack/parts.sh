#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Makes targets one after the other, all of them even when one fails, and ends with one line for each:
#   hack/parts.sh TARGET…
set -euo pipefail
lines=() status=0
for part; do
  SECONDS=0
  if "${MAKE:-make}" --no-print-directory "$part"; then
    lines+=("ok $part (${SECONDS}s)")
  else
    lines+=("FAILED $part (${SECONDS}s)")
    status=1
  fi
done
printf '%s\n' "${lines[@]}"
exit "$status"
