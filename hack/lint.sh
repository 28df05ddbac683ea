#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the linters: hack/lint.sh TOOLS [flag of golangci-lint run…]. TOOLS is the folder that holds them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$1
shift
export GOLANGCI_LINT_CACHE="${GOLANGCI_LINT_CACHE:-$(dirname "$tools")/golangci-lint}"
failed=0
"$tools/golangci-lint" run "$@" ./... || failed=1
# How the logging library is called: structured, and through a logger from the context.
"$tools/logcheck" -check-contextual -check-value ./... || failed=1
exit $failed
