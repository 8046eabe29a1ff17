#!/bin/sh
# Runs every suite and ends with one line that counts the Go tests. A suite that
# fails does not keep the others from running.
set -u
cd "$(dirname "$0")/.."

unset WH_CONFIG WH_SETTINGS_DIR WH_DATA_DIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

suite() { # name, command...
    name=$1
    shift
    start=$(date +%s)
    echo "== $name"
    if "$@"; then
        echo "== $name: ok in $(($(date +%s) - start)) s"
    else
        echo "$name" >>"$work/failed"
        echo "== $name: FAILED in $(($(date +%s) - start)) s"
    fi
}

# The race detector needs cgo; everything else is built the way `make build`
# does it, so that one set of compiled packages serves all.
export CGO_ENABLED=0

gotestsum=$(go tool -modfile=tools/go.mod -n gotestsum) || exit 1
gotest() { # name, go test arguments...
    verdicts=$work/$1.json
    shift
    # The linters hold what vet looks for.
    "$gotestsum" --format pkgname-and-test-fails --format-icons text --jsonfile-timing-events "$verdicts" -- \
        -count=1 -timeout 15m -vet=off "$@"
}
race() { # name, go test arguments...
    (export CGO_ENABLED=1; name=$1; shift; gotest "$name" -race -parallel 4 "$@")
}
# Packages that wait for servers of their own more than they compute.
waiting='/internal/(cache/redis|dedupe/(dynamo|natskv)|mq/(nats|natstest)|notice/nats)(/|$)'
waits=$(go list ./internal/... | grep -E "$waiting") || exit 1
# Packages that compute so much that coverage cannot be counted under the race
# detector: its counters would make minutes of seconds. They are tested twice, and
# what searches at random looks at fewer cases under the race detector (-short).
computing='/internal/(coord/natskv|insert|mq/embedded|record|stream)(/|$)'
computes=$(go list ./internal/... | grep -E "$computing") || exit 1
others=$(go list ./internal/... | grep -vE "$waiting|$computing") || exit 1
# The Go client is a module of its own.
gotest_in() { # directory, name, go test arguments...
    (cd "$1" && shift && gotest "$@")
}
sdk() { (cd sdk/typescript && npm ci --no-audit --no-fund --silent && npm test); }

suite lint ./scripts/lint.sh
suite build make --no-print-directory build
# shellcheck disable=SC2086
suite unit race unit -p 3 -coverprofile="$work/cover.unit" $others
# shellcheck disable=SC2086
suite computing race computing -p 3 -short $computes ./cmd/... ./deployments/... ./scripts/...
# What these packages stand on is covered from there too.
# shellcheck disable=SC2086
suite servers race servers -coverprofile="$work/cover.servers" \
    -coverpkg=./internal/cache/...,./internal/dedupe/...,./internal/mq/...,./internal/notice/... $waits
# Most tests that cross packages wait, so that more run at once than there are
# cores.
suite integration gotest integration -parallel 4 -coverprofile="$work/cover" -coverpkg=./internal/... ./tests/integration/...
# shellcheck disable=SC2086
suite counted gotest counted -coverprofile="$work/cover.counted" -coverpkg=./internal/... $computes
suite e2e gotest e2e -p 1 -parallel 6 ./tests/e2e/... ./tests/cluster/...
suite sdk sdk
suite sdk-go gotest_in sdk/go sdk-go ./...
suite coverage go run ./scripts/coverage -config .testcoverage.yml "$work/cover" "$work/cover.counted" "$work/cover.unit" "$work/cover.servers"

count() { cat "$work"/*.json | grep '"Test":' | grep -c "\"Action\":\"$1\""; } # pass, fail or skip
broken=$(count fail)
if [ -f "$work/failed" ]; then
    echo "failed suites: $(tr '\n' ' ' <"$work/failed")"
    [ "$broken" -gt 0 ] || broken=1
fi
echo "$(count pass) passed, $broken failed, $(count skip) skipped"
[ ! -f "$work/failed" ]
