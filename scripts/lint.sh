#!/bin/sh
# The linters that .golangci.yml names, in the version that tools/go.mod pins.
# They hold go vet and gofmt, too.
set -eu
cd "$(dirname "$0")/.."

CGO_ENABLED=0 exec go tool -modfile=tools/go.mod golangci-lint run "$@" ./...
