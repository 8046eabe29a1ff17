#!/bin/sh
# Builds the wavehouse of another revision (BASE, the last tag or the first
# commit by default) and lets it and this one take turns in the benchmarks.
set -eu
cd "$(dirname "$0")/.."

base=${BASE:-$(git describe --tags --abbrev=0 2>/dev/null || git rev-list --max-parents=0 HEAD)}
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

git worktree add --quiet --detach "$work/tree" "$base"
(cd "$work/tree" && CGO_ENABLED=0 go build -tags grpcnotrace -o "$work/bin/" ./cmd/wavehouse)
echo "comparing with $base" >&2
go test -count=1 -timeout 60m -v -run 'TestCompareWithBase$' ./tests/bench/... -args -base "$work/bin" -rounds "${ROUNDS:-5}"
