#!/bin/sh
# The linters that .golangci.yml names, in the version that tools/go.mod pins.
# They hold go vet and gofmt, too.
set -eu
cd "$(dirname "$0")/.."

export CGO_ENABLED=0
linter=$(go tool -modfile=tools/go.mod -n golangci-lint)
"$linter" run "$@" ./...
cd sdk/go
exec "$linter" run --config ../../.golangci.yml "$@" ./...
