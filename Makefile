# WaveHouse. `make help` lists what there is.

GO        ?= go
# Without the tracer of gRPC, whose templates would keep every method of every library.
TAGS      := grpcnotrace
BIN       := bin
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS   := -s -w -X main.version=$(VERSION)
# An environment of its own for the tests: nothing a shell exports may leak in.
TEST_ENV  := env -u WH_CONFIG -u WH_SETTINGS_DIR -u WH_DATA_DIR
TIMEOUT   ?= 15m
DURATION  ?= 10m

.DEFAULT_GOAL := help
.PHONY: help run cluster build deps test test-unit test-integration test-e2e test-sdk coverage lint torture fuzz bench bench-compare generate clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Start everything here, with demo data (ARGS="--port 9090" for flags)
	@command -v clickhouse >/dev/null 2>&1 || ./scripts/fetch-clickhouse.sh >/dev/null
	@./scripts/fetch-demo-data.sh >/dev/null
	@exec ./$(BIN)/wavehouse dev $(ARGS)

cluster: build ## Three processes on a NATS cluster of three, behind one port, with demo data
	@command -v clickhouse >/dev/null 2>&1 || ./scripts/fetch-clickhouse.sh >/dev/null
	@./scripts/fetch-demo-data.sh >/dev/null
	@CGO_ENABLED=0 $(GO) build -o $(BIN)/nats-server github.com/nats-io/nats-server/v2
	@exec ./$(BIN)/wavehouse dev --cluster 3 --dir data/cluster $(ARGS)

build: ## Build the binaries into bin/
	@echo "building (the first time takes a few minutes)…" >&2
	@CGO_ENABLED=0 $(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

deps: ## Fetch what the tests need: ClickHouse, demo data, Debian packages
	@./scripts/deps.sh

test: deps ## Run every suite, as CI does
	@./scripts/test.sh

test-unit: ## Packages alone, with the race detector
	$(TEST_ENV) $(GO) test -race -short -timeout $(TIMEOUT) ./internal/... ./cmd/... ./deployments/... ./scripts/...

test-integration: build ## What crosses packages, on real services
	$(TEST_ENV) $(GO) test -count=1 -timeout $(TIMEOUT) ./tests/integration/...

test-e2e: build ## The built binary as a user runs it
	$(TEST_ENV) $(GO) test -count=1 -timeout $(TIMEOUT) ./tests/e2e/... ./tests/cluster/...

test-sdk: ## The SDKs
	cd sdk/go && $(GO) test -race ./...
	cd sdk/typescript && npm ci --no-audit --no-fund && npm test && npm run build

lint: ## golangci-lint, as .golangci.yml says
	@./scripts/lint.sh

torture: build ## Break everything under load for DURATION (10m), and account for every row
	$(TEST_ENV) $(GO) test -count=1 -timeout 0 -v ./tests/integration/torture -run 'TestTorture$$' -args -torture.for=$(DURATION) -torture.seed=0

fuzz: ## Each fuzz target for 10 seconds
	@./scripts/fuzz.sh

bench: build ## The benchmarks, whose tables stand in docs/benchmarks.md
	$(GO) test -count=1 -timeout 30m -run 'Benchmarks$$' ./tests/bench/... -args -write

bench-compare: ## This version beside another one, in turns (BASE=revision)
	@./scripts/bench-compare.sh

generate: ## Write everything generated again: reference pages, schemas, config.yaml
	$(GO) test -count=1 ./internal/config ./internal/settings ./deployments -run 'Current$$' -update
	$(GO) test -count=1 -timeout $(TIMEOUT) ./internal/record -run 'ValuesAgainstClickHouse$$' -update

clean: ## Remove what was built; data/ and .cache/ stay
	rm -rf $(BIN) coverage.out
