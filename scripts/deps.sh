#!/bin/sh
# Fetches what the suites need, and says what it does. Debian packages are
# installed only as root; elsewhere their names are printed.
set -eu
cd "$(dirname "$0")/.."

say() { echo "deps: $*" >&2; }

missing=
need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need gcc gcc
need curl curl
need node nodejs
need npm npm

# The browser and proxy suites skip without these; CI, which runs as root, gets
# them.
want() { # command, Debian package
    [ "$(id -u)" = 0 ] || return 0
    PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
want chromium chromium
want nginx nginx-light
want redis-server redis-server
want promtool prometheus
want valkey-server valkey-server

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing$missing"
        apt-get update -qq
        # Debian 12 has Valkey in its backports only.
        case "$missing" in *valkey*)
            if ! apt-cache show valkey-server >/dev/null 2>&1; then
                say "adding the backports of this release"
                release=$(. /etc/os-release && echo "$VERSION_CODENAME")
                sed "s/^Suites:.*/Suites: $release-backports/;/^\$/q" /etc/apt/sources.list.d/debian.sources \
                    >/etc/apt/sources.list.d/backports.sources
                apt-get update -qq
            fi ;;
        esac
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing libc6-dev ca-certificates >/dev/null
    else
        say "missing:$missing (install them with your package manager)"
        exit 1
    fi
fi

# The suites start and kill their own ClickHouse, so the engine is fetched even
# where a clickhouse is installed.
./scripts/fetch-clickhouse.sh >/dev/null
./scripts/fetch-demo-data.sh >/dev/null
./scripts/fetch-dynalite.sh >/dev/null
say "fetching Go modules"
go mod download
