#!/bin/sh
# Fetches the ClickHouse engine as a shared library from npm, into
# .cache/clickhouse/<version>/. Does nothing when it is already there.
# Prints the library's path; CLICKHOUSE_LIB names one to use instead.
set -eu

say() { echo "fetch-clickhouse: $*" >&2; }
fail() { say "$*"; exit 1; }

root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/scripts/deps

if [ -n "${CLICKHOUSE_LIB:-}" ]; then
    [ -f "$CLICKHOUSE_LIB" ] || fail "CLICKHOUSE_LIB=$CLICKHOUSE_LIB: no such file"
    echo "$CLICKHOUSE_LIB"
    exit 0
fi

package=@chdb/lib-linux-x64-gnu
version=$(sed -n "s|.*\"$package\": *\"\([^\"]*\)\".*|\1|p" "$deps/package.json")
[ -n "$version" ] || fail "$deps/package.json does not pin $package"
target=$root/.cache/clickhouse/$version
library=$target/libchdb.so

if [ -f "$library" ]; then
    echo "$library"
    exit 0
fi

for tool in node npm; do
    command -v $tool >/dev/null || fail "$tool is needed to fetch the ClickHouse library: install Node.js 20 or later, or put a clickhouse binary on PATH"
done

case $(uname -s)-$(uname -m) in
    Linux-x86_64) ;;
    Linux-aarch64 | Linux-arm64) package=@chdb/lib-linux-arm64-gnu ;;
    Darwin-arm64) package=@chdb/lib-darwin-arm64 ;;
    Darwin-x86_64) package=@chdb/lib-darwin-x64 ;;
    *) fail "no ClickHouse library for $(uname -s) on $(uname -m): put a clickhouse binary on PATH" ;;
esac

mkdir -p "$target"
work=$(mktemp -d "$target/fetch.XXXXXX")
watcher=
cleanup() {
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say "fetching $package $version (about 180 MB to download, 570 MB unpacked) into $target"
(
    while sleep 3; do
        done=$(find "$work" -name libchdb.so -exec du -m {} + 2>/dev/null | cut -f1)
        say "unpacked ${done:-0} MB"
    done
) &
watcher=$!

# The lock holds the digest for Linux on x86-64. The other platforms' packages
# are pinned by version alone.
if [ "$package" = @chdb/lib-linux-x64-gnu ]; then
    cp "$deps/package.json" "$deps/package-lock.json" "$deps/.npmrc" "$work/"
    install="npm ci --omit=dev --no-progress"
else
    cp "$deps/.npmrc" "$work/"
    echo '{"private":true}' >"$work/package.json"
    install="npm install --no-save --no-progress $package@$version"
fi
(cd "$work" && $install >&2) || fail "npm could not fetch $package $version: see its message above"

found=$work/node_modules/$package/libchdb.so
[ -f "$found" ] || fail "$package $version holds no libchdb.so"
mv -f "$found" "$library"
say "ready: $library"
echo "$library"
