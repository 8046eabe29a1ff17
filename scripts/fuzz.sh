#!/bin/sh
# Runs each fuzz target for FUZZTIME (10s).
set -eu
cd "$(dirname "$0")/.."

grep -rl --include='*_test.go' '^func Fuzz' internal | while read -r file; do
    package=./$(dirname "$file")
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file" | while read -r target; do
        echo "== $package $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
    done
done
