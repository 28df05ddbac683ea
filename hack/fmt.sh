#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Formats every Go file; with -l it writes nothing and fails where there is a file to format.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unformatted=$(hack/files.sh '*.go' | xargs -0 gofmt "${1:--w}")
[ -z "$unformatted" ] || {
  echo "$unformatted"
  exit 1
}
