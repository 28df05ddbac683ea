#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the tests of a package against mutants of its code: hack/mutation.sh LIMIT PACKAGE [flag of gremlins unleash…].
# After LIMIT, such as 1h, it stops and counts the mutants up to then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
limit=$1 package=$2
shift 2
if [ -z "$package" ]; then
  echo 'name a package: make mutation PACKAGE=./server/certificates/pki' >&2
  exit 2
fi
# The tool copies the checkout, and does not clean up when it is killed.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/mutation.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
GOBIN=$TMPDIR go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
# One mutant at a time: with more, tests that wait for etcd miss their deadlines, and mutants count as killed that are not.
status=0
timeout --signal KILL "$limit" "$TMPDIR/gremlins" unleash --workers 1 --timeout-coefficient 5 --invert-logical \
  --exclude-files '(^|/)zz_generated' "$@" "$package" | tee "$TMPDIR/output" || status=$?
case $status in
  0) ;;
  137) echo "stopped after $limit; not all mutants have been tried" ;;
  *) exit "$status" ;;
esac
awk '/ at [^ ]+:[0-9]+:[0-9]+$/ {
    count[$1 == "NOT" ? $2 : $1]++
    if ($1 == "LIVED") lived = lived $0 "\n"
  }
  END {
    killed = count["KILLED"] + count["TIMED"]
    covered = killed + count["LIVED"]
    printf "\nsurvivors:\n%s%d of %d covered mutants killed", lived, killed, covered
    if (covered > 0) printf " (%.0f %%)", 100 * killed / covered
    printf "; %d not covered\n", count["COVERED"]
  }' "$TMPDIR/output"
