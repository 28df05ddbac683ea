# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# One static binary and nothing else: no shell, no libraries, not root.
#
#   docker build --build-arg VERSION=v1.37.1+annex.1 -t annex:latest .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# Everything but what .dockerignore names.
COPY . .
# The Kubernetes version whose behaviour it has, and as build metadata what was built; `make build` uses the same.
ARG VERSION=v1.37.1+annex
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/annex \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=${VERSION} -X k8s.io/client-go/pkg/version.gitVersion=${VERSION}" ./cmd/annex

FROM scratch
# To speak TLS with what has a certificate of a public authority, such as a managed etcd.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/bin/annex /annex
USER 65532:65532
ENTRYPOINT ["/annex"]
