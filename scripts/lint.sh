#!/bin/sh
# go vet and gofmt always; golangci-lint where it is installed.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l cmd internal scripts tests deployments)
if [ -n "$unformatted" ]; then
    echo "not formatted with gofmt:"
    echo "$unformatted"
    exit 1
fi
go vet ./...
if command -v golangci-lint >/dev/null 2>&1; then
    golangci-lint run ./...
fi
