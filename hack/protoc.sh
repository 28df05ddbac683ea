#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs the protobuf compiler that `make generate` needs, where it is missing.
set -euo pipefail
if command -v protoc >/dev/null; then
  protoc --version
  exit
fi
command -v apt-get >/dev/null || {
  echo "protoc is missing: install the protobuf compiler with this machine's package manager" >&2
  exit 1
}
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends protobuf-compiler
protoc --version
