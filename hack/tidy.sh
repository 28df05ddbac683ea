#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Tidies each module of this repository; with -diff it writes nothing and fails where there is a difference.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
hack/files.sh go.mod '*/go.mod' | grep -zv /testdata/ | while IFS= read -r -d '' mod; do
  (cd "$(dirname "$mod")" && go mod tidy "$@") || { echo "$mod is not tidy" >&2; exit 1; }
done
