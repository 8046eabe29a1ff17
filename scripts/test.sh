#!/bin/sh
# Runs every suite and ends with one line that counts them. A suite that fails
# does not keep the others from running.
set -u
cd "$(dirname "$0")/.."

unset WH_CONFIG WH_SETTINGS_DIR WH_DATA_DIR
totals=$(mktemp -d)
trap 'rm -rf "$totals"' EXIT
failed=

suite() { # name, command...
    name=$1
    shift
    start=$(date +%s)
    echo "== $name"
    if "$@"; then
        echo "== $name: ok in $(($(date +%s) - start)) s"
    else
        failed="$failed $name"
        echo "== $name: FAILED in $(($(date +%s) - start)) s"
    fi
}

go build -o "$totals/gotest" ./scripts/gotest || exit 1
gotest() { # name, go test arguments...
    name=$1
    shift
    "$totals/gotest" -totals "$totals/$name.totals" -- "$@"
}

# The race detector needs cgo; everything else is built the way `make build`
# does it, so that one set of compiled packages serves all.
export CGO_ENABLED=0

suite lint ./scripts/lint.sh
suite build make --no-print-directory build
suite unit env CGO_ENABLED=1 "$totals/gotest" -totals "$totals/unit.totals" -- -race -timeout 15m -coverprofile="$totals/unit.cover" -coverpkg=./internal/... \
    ./internal/... ./cmd/... ./deployments/... ./scripts/...
suite integration gotest integration -count=1 -timeout 15m -coverprofile="$totals/integration.cover" -coverpkg=./internal/... \
    ./tests/integration/...
suite e2e gotest e2e -count=1 -timeout 15m ./tests/e2e/...
suite sdk sh -c 'cd sdk/typescript && npm ci --no-audit --no-fund --silent && npm test && npm run build'
suite coverage go run ./scripts/coverage -config .testcoverage.yml "$totals/unit.cover" "$totals/integration.cover"

passed=0 broken=0 skipped=0
for file in "$totals"/*.totals; do
    read -r p f s <"$file"
    passed=$((passed + p)) broken=$((broken + f)) skipped=$((skipped + s))
done
if [ -n "$failed" ]; then
    echo "failed suites:$failed"
    [ "$broken" -gt 0 ] || broken=1
fi
echo "$passed passed, $broken failed, $skipped skipped"
[ -z "$failed" ]
