# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
MODULE := $(shell awk '$$1 == "module" {print $$2}' go.mod)
# The version is put in by hand below, so builds need no repository around them.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# Everything that outlives `make clean` lies here, keyed by version.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/annex
TOOLS := $(CACHE)/tools-$(shell { cat hack/tools/go.sum; $(GO) env GOVERSION; } | sha256sum | cut -c1-12)

# What /version answers, which clients compare with their own: the Kubernetes version whose libraries
# these are, and as build metadata what was built.
KUBERNETES := $(shell awk '$$1 == "k8s.io/apiserver" {sub("v0", "v1", $$2); print $$2}' go.mod)
VERSION ?= $(KUBERNETES)+annex.$(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,-X $(package).gitVersion=$(VERSION))

# Packages whose promises are about concurrency run under the race detector.
RACE := registry controllers/leadership server/openapi test/integration/gatedfields
# Tests that need Kubernetes' components, or take the place of its clients and suites.
E2E := test/e2e test/compatibility test/performance test/robustness/controllerrecovery
# A test that hangs ends with a stack trace; a build of the image on a cold cache takes a quarter of an hour.
TIMEOUT := 30m
# Tests wait more than they compute.
PARALLEL := -parallel 4
# packages lists those that match a pattern, without what lies in some folders.
packages = $$($(GO) list $(1) | grep -Ev $(foreach folder,$(2),-e '^$(MODULE)/$(folder)(/|$$)'))

##@ Everyday

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/annex and bin/kubectl-feature
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

run: build ## Build and run `annex up`; ARGS='--data-dir DIR …' passes flags on
	bin/annex up $(ARGS)

clean: ## Remove what make built in the checkout (caches stay, and so does .annex)
	rm -rf bin

##@ Test

# A part is one go test. A part that fails keeps no other from running.
test: ## Run all tests, also after one that fails; the last lines say how each part ended
	@MAKE='$(MAKE)' hack/parts.sh part-unit part-race part-integration part-e2e

test-unit: ## Run the tests that lie beside the code; those about concurrency with the race detector
	@MAKE='$(MAKE)' hack/parts.sh part-unit part-race

test-integration: part-integration ## Run the tests of our servers, with real etcd: in process, under faults and under attack

test-e2e: part-e2e ## Run the tests with a real kube-apiserver, its controllers and hollow kubelets, with clients, and Kubernetes' own quick specs

part-unit:
	$(GO) test -timeout $(TIMEOUT) $(PARALLEL) $(call packages,./...,test $(RACE))
part-race:
	$(GO) test -timeout $(TIMEOUT) -race $(RACE:%=./%/...)
part-integration:
	$(GO) test -timeout $(TIMEOUT) $(PARALLEL) $(call packages,./test/...,$(E2E) $(RACE))
# TestUp of controllerrecovery finds a defect in about one run of ten, see its comment; make test-upkeep runs it.
part-e2e: kube kube-specs
	$(GO) test -timeout $(TIMEOUT) -skip '^TestUp$$' $(E2E:%=./%/...)

conformance: kube-specs ## Run Kubernetes' own end-to-end specs that need no nodes against `annex up` (some four minutes; ARGS='-only REGEXP' …)
	$(GO) test -count 1 -v -timeout 40m -run '^TestSpecs$$' ./test/compatibility/conformance -args -all $(ARGS)

faults: ## Have each fault of test/robustness/README.md in full (over an hour; RUN=REGEXP for some of them, SEED=N for an earlier run)
	$(GO) test -count 1 -v -timeout 3h -p 1 -parallel 2 -run '$(or $(RUN),.)' ./test/robustness/serving ./test/robustness/singlewriter ./test/robustness/storage -args -full $(if $(SEED),-seed $(SEED))

test-security: ## Attack a running server as in make test, and wait for the timeouts that end slow connections (two minutes)
	$(GO) test -count 1 -v -timeout 20m ./test/security -args -timeouts

govulncheck: ## Look for known vulnerabilities; it asks the Go vulnerability database, so it is no part of verify
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...

mutation: ## Show which mutants of PACKAGE's code its tests do not kill, in LIMIT at most (1h; ARGS='--diff HEAD~1' …)
	@hack/mutation.sh '$(or $(LIMIT),1h)' '$(PACKAGE)' $(ARGS)

fuzz: ## Fuzz decoding, validation, apply, list options and continue tokens for FUZZTIME each (10m)
	for target in Decode Validation Apply ListOptions ContinueToken; do \
		$(GO) test -run '^$$' -fuzz "^Fuzz$$target$$" -fuzztime $(or $(FUZZTIME),10m) ./test/security/fuzz; \
	done

test-features: ## Stop, pause and cut off replicas while a feature turns off, 20 times each instead of once (some minutes; ARGS='-seed N' …)
	$(GO) test -count 1 -v -timeout 1h -parallel 4 ./test/robustness/features -args -rounds 20 $(ARGS)

test-lifecycle: ## Turn every feature on and off in 50 rounds, with servers killed on the way (some five minutes; ARGS='-seed N' …)
	$(GO) test -count 1 -v -timeout 30m -parallel 6 -run '^(TestAnnex|TestExample)$$' ./test/robustness/lifecycle -args -rounds 50 $(ARGS)

test-claims: ## Race both well-known claims for 2000 rounds instead of 100, with kills (some six minutes; ARGS='-seed N' …)
	$(GO) test -count 1 -v -timeout 1h -run '^TestTheIDOutlivesTheMembership$$' ./test/robustness/claims -args -rounds 2000 $(ARGS)

test-upkeep: kube ## Kill control planes in 10 rounds of work, and collect 10000 dependents (some six minutes; ARGS='-rounds N -seed N' …)
	$(GO) test -count 1 -v -timeout 1h ./test/robustness/controllerrecovery -args -rounds 10 -dependents 10000 $(ARGS)

test-cycles: ## Begin and end 1000 terms of leadership instead of 50, and look for what is left over (some minutes)
	$(GO) test -count 1 -v -timeout 1h -race -run '^TestCyclesLeaveNothingBehind$$' ./controllers/leadership -args -annex.cycles 1000

bench: kube ## Compare Annex with etcd alone, ConfigMaps, CRDs and Kubernetes' sample servers (some fifteen minutes; ARGS='-only create -rounds 1' …)
	@$(GO) run ./hack/kube samples
	$(GO) run ./test/performance -readme test/performance/README.md -chart test/performance/bench.svg $(ARGS)

bench-startup: build kube ## Measure start-up and idle memory, with Kubernetes' sample control plane in the same run (some six minutes; ARGS='-rounds 1' …)
	@$(GO) run ./hack/kube samples
	$(GO) run ./test/performance/startup -annex bin/annex -readme test/performance/README.md $(ARGS)

bench-leadership: kube ## Time hand-over and fail-over, with client-go's LeaderElector in the same run (some minutes; ARGS='-cycles 100' …)
	$(GO) run ./test/performance/leadership $(ARGS)

bench-features: ## Measure 10000 reporters, a question to all of them, and the clearing of 100000 objects (half an hour; ARGS='-only clearing' …)
	$(GO) run ./test/performance/features $(ARGS)

bench-balloons: kube ## Resize 500 simulated nodes at once instead of 25, and count what that asks of the cluster (some minutes; ARGS='-nodes N')
	$(GO) test -count 1 -v -timeout 1h -run '^TestManyNodes$$' ./test/e2e/nodeballoons -args -nodes 500 $(ARGS)

example-multikubelet: kube ## Share one machine among four kubelets, each with a quarter, and see what the scheduler places
	$(GO) test -count 1 -v -timeout 10m -run '^TestKubeletsShareAMachine$$' ./test/e2e/nodeballoons

##@ Change

generate: ## Write everything generated under apis/ and generated/ anew
	hack/generate.sh

diagram: ## Write docs/architecture.svg from docs/architecture.dot with Graphviz, which it installs through apt-get if it is missing
	hack/diagram.sh

fmt: ## Format Go files and add missing licence headers
	hack/fmt.sh
	hack/files.sh '*.go' '*.sh' .ci/run | xargs -0 $(GO) run ./hack/licence -write

tidy: ## Tidy every go.mod
	hack/tidy.sh

lint: $(TOOLS)/golangci-lint ## Let the linters repair what they can and show the rest
	hack/lint.sh $(TOOLS) --fix

##@ Verify (nothing is written)

CHECKS := verify-fmt verify-licence verify-tidy verify-imports verify-api verify-generated verify-lint

verify: ## Run every check below
	@$(MAKE) --no-print-directory --keep-going $(CHECKS)

verify-fmt: ## Go files are formatted
	@hack/verify.sh $@ 'make fmt' hack/fmt.sh -l

verify-licence: ## Hand-written Go files and scripts begin with the licence header
	@hack/files.sh '*.go' '*.sh' .ci/run | hack/verify.sh $@ 'make fmt' xargs -0 $(GO) run ./hack/licence

verify-tidy: ## Every go.mod is tidy
	@hack/verify.sh $@ 'make tidy' hack/tidy.sh -diff

verify-imports: ## Packages import only what their layer may, directly and through others, and the public line holds
	@hack/verify.sh $@ 'what each finding says (the rules are in hack/importrules/layers.go and public.go)' $(GO) run ./hack/importrules

verify-api: ## Promised packages are compatible with the last release
	@hack/verify.sh $@ 'a compatible change, or a line in hack/apidiff.txt for a change that is meant' hack/apidiff.sh

verify-generated: ## Generated files are what `make generate` writes
	@hack/verify.sh $@ 'make generate' hack/generate.sh --verify

verify-lint: $(TOOLS)/golangci-lint ## The linters find nothing
	@hack/verify.sh $@ 'make lint' hack/lint.sh $(TOOLS)

##@ Tools

tools: $(TOOLS)/golangci-lint ## Build the pinned linters of hack/tools/go.mod into the cache

kube: ## Build the Kubernetes components of test/modules/kube/go.mod into the cache, unless they are there
	@$(GO) run ./hack/kube

kube-specs: ## Build Kubernetes' own end-to-end specs into the cache, unless they are there
	@$(GO) run ./hack/kube specs

protoc: ## Install the protobuf compiler through apt-get, unless it is there
	@hack/protoc.sh

$(TOOLS)/golangci-lint:
	@echo "building the linters of hack/tools/go.mod, once; this takes some minutes"
	@mkdir -p $(TOOLS)
	$(GO) build -modfile=hack/tools/go.mod -o $(TOOLS)/ sigs.k8s.io/logtools/logcheck github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: help build run clean test test-unit test-integration test-e2e part-unit part-race part-integration part-e2e faults fuzz mutation govulncheck test-security test-features test-lifecycle test-claims test-cycles test-upkeep conformance bench bench-startup bench-leadership bench-features bench-balloons example-multikubelet generate diagram fmt tidy lint \
	verify $(CHECKS) tools kube kube-specs protoc
