# Every target says what it does: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
ENVIRONMENT := $(GO) run ./internal/devenv/run

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## run the five-backup example on a real Postgres and a real Kubernetes API
	$(GO) run ./internal/devenv/demo

.PHONY: dev
dev: ## keep Postgres, a Kubernetes API, berth server and berth worker running
	$(GO) run ./internal/devenv/demo -dev

.PHONY: test
test: ## run all tests; POSTGRES=15 … 18 names a version
	$(ENVIRONMENT) $(if $(POSTGRES),-postgres $(POSTGRES)) -- $(GO) test -race -timeout 30m ./...

# Minutes of random histories that run once, in make test.
ONCE := ^(TestQueueMachine|TestConcurrentQueueUnguarded)$$

.PHONY: test-db-18
test-db-18: ## run the tests of the database on Postgres 18
	$(ENVIRONMENT) -postgres 18 -no-kubernetes -- $(GO) test -race -timeout 30m -skip '$(ONCE)' ./db/... ./migrations/...

SOAK ?= 20m

.PHONY: test-soak
test-soak: ## let the database and the planner disagree for SOAK (20m)
	$(ENVIRONMENT) $(if $(POSTGRES),-postgres $(POSTGRES)) -no-kubernetes -- env BERTH_SOAK=$(SOAK) $(GO) test -race -timeout 0 -run '^TestQueueMachine$$' -v ./db/

# Long runs that show nothing more through a pooler: the dispatchers of the first
# never poll, so that it needs notifications; the others are about many rows or
# many processes.
LONG_RUNS := ^(TestConcurrentQueue.*|TestQueueMachine|TestAuditIsCheap|TestMany.*|TestEightProcesses.*)$$

.PHONY: test-db-pooler
test-db-pooler: ## run the tests of the database through a pgbouncer in transaction mode
	$(ENVIRONMENT) -pooler -no-kubernetes -- $(GO) test -race -timeout 30m -skip '$(LONG_RUNS)' ./db/...

.PHONY: test-velero
test-velero: ## let stock Velero, built from source once, read and restore what Berth wrote
	$(GO) run ./internal/devenv/velero
	$(ENVIRONMENT) $(if $(POSTGRES),-postgres $(POSTGRES)) -- $(GO) test -race -timeout 30m -tags velero -run '^TestStockVelero' -v ./cmd/berth

.PHONY: test-containers
test-containers: ## build the images, run the tests of the database and the demo in containers
	deploy/test-containers.sh

.PHONY: bench-queue
bench-queue: ## measure the queue, and River beside it, into bench-queue.json; DEPTHS=1000 is the short form
	$(ENVIRONMENT) -postgres 15 -durable -no-kubernetes -- tools/bench-queue.sh $(if $(DEPTHS),--depths $(DEPTHS))

.PHONY: bench-engine
bench-engine: ## measure backups beside a bare list and stock Velero, into bench-engine.json; ROUNDS=3
	tools/bench-engine.sh $(if $(ROUNDS),--rounds $(ROUNDS))

.PHONY: build
build: ## build bin/berth
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/berth ./cmd/berth

.PHONY: image
image: ## build the container image berth:dev
	deploy/images.sh berth

.PHONY: generate
generate: ## generate the API's server and client from openapi.yaml
	tools/generate.sh

.PHONY: verify
verify: ## fail if what is generated, or go.mod, is not up to date
	tools/verify.sh

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	tools/lint.sh
