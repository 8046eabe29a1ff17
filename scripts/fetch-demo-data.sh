#!/bin/sh
# Fetches the demo's data set from npm and writes it as one JSON object a line:
# .cache/demo/flights.ndjson, 20,000 flights of 2001. Does nothing when it is
# already there. Prints the file's path.
set -eu

say() { echo "fetch-demo-data: $*" >&2; }
fail() { say "$*"; exit 1; }

root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/scripts/deps
target=$root/.cache/demo
data=$target/flights.ndjson

if [ -f "$data" ]; then
    echo "$data"
    exit 0
fi

for tool in node npm; do
    command -v $tool >/dev/null || fail "$tool is needed to fetch the demo data: install Node.js 20 or later"
done

mkdir -p "$target"
work=$(mktemp -d "$target/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say "fetching vega-datasets (about 9 MB) into $target"
cp "$deps/package.json" "$deps/package-lock.json" "$deps/.npmrc" "$work/"
(cd "$work" && npm ci --omit=optional --no-progress >&2) || fail "npm could not fetch vega-datasets: see its message above"

node "$deps/flights.mjs" "$work/node_modules/vega-datasets/data/flights-20k.json" >"$work/flights.ndjson" ||
    fail "the data set is not what it was expected to be"
mv -f "$work/flights.ndjson" "$data"
say "ready: $data"
echo "$data"
