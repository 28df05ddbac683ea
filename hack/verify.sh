#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs one check and says how it ended, how long it took, and what repairs it:
#   hack/verify.sh NAME REPAIR COMMAND…
set -euo pipefail
name=$1 repair=$2
shift 2
SECONDS=0
if "$@"; then
  echo "ok $name (${SECONDS}s)"
else
  echo "FAILED $name (${SECONDS}s); to repair it: $repair" >&2
  exit 1
fi
