#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the changes of the promised packages (hack/importrules/public.go) since the last release that break programs of others, and
# fails if there are any. A change that is meant is listed in hack/apidiff.txt, as it is printed here.
#   hack/apidiff.sh [TAG]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools="$PWD/hack/tools/go.mod"
release=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [ -z "$release" ]; then
  echo "no release to compare with: there is no tag v*"
  exit 0
fi
tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/release" 2>/dev/null || true; rm -rf "$tmp"' EXIT
git worktree add --quiet --detach "$tmp/release" "$release"
apidiff=$(go tool -modfile="$tools" -n apidiff)
status=0
for package in $(cd "$tmp/release" && go run ./hack/importrules -promised); do
  if ! go list "$package" >/dev/null 2>&1; then
    echo "$package: removed"
    continue
  fi
  (cd "$tmp/release" && "$apidiff" -w "$tmp/old" "$package")
  "$apidiff" -incompatible "$tmp/old" "$package" | sed "s|^- |$package: |"
done | { grep -vxFf hack/apidiff.txt || true; } >"$tmp/changes"
if [ -s "$tmp/changes" ]; then
  echo "incompatible with $release:"
  cat "$tmp/changes"
  status=1
fi
exit "$status"
