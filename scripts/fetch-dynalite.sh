#!/bin/sh
# Fetches dynalite, a DynamoDB for tests, from npm into .cache/dynalite/<version>/.
# Does nothing when it is already there. Prints the directory.
set -eu

say() { echo "fetch-dynalite: $*" >&2; }
fail() { say "$*"; exit 1; }

root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/scripts/deps/dynalite
version=$(sed -n 's|.*"dynalite": *"\([^"]*\)".*|\1|p' "$deps/package.json")
[ -n "$version" ] || fail "$deps/package.json does not pin dynalite"
target=$root/.cache/dynalite/$version

if [ -d "$target/node_modules/dynalite" ]; then
    echo "$target"
    exit 0
fi

for tool in node npm; do
    command -v $tool >/dev/null || fail "$tool is needed to fetch dynalite: install Node.js 20 or later"
done

mkdir -p "$root/.cache/dynalite"
work=$(mktemp -d "$root/.cache/dynalite/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say "fetching dynalite $version (about 10 MB) into $target"
cp "$deps/package.json" "$deps/package-lock.json" "$deps/.npmrc" "$work/"
(cd "$work" && npm ci --no-progress >&2) || fail "npm could not fetch dynalite $version: see its message above"
mkdir -p "$target"
mv "$work/node_modules" "$target/"
say "ready: $target"
echo "$target"
