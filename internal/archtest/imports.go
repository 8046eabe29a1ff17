package archtest

import (
	"path"
	"strings"
)

// tiers gives each package of internal/ its height; a package may import its
// own height and below. A folder below a listed one has its parent's height.
var tiers = map[string]int{
	"tenant": 0, "config": 0, "nearest": 0, "units": 0, "strictjson": 0, "spec": 0, "excerpt": 0, "memo": 0, "lifetime": 0, "claim": 0,
	"record": 1, "schema": 1, "cache": 1, "dedupe": 1, "mq": 1, "chunk": 1, "coord": 1,
	"clickhouse": 1, "telemetry": 1, "limit": 1, "fairshare": 1, "notice": 1,
	"ingest": 2, "insert": 2, "letters": 2, "sweep": 2, "fleet": 2, "query": 2, "pipes": 2,
	"stream": 2, "policy": 2, "auth": 2,
	"settings": 2, "rehearsal": 2, "codegen": 2,
	"api": 3,
	"app": 4, "dev": 4,
}

// contracts are the packages whose children are implementations of them.
var contracts = map[string]bool{"mq": true, "dedupe": true, "cache": true, "coord": true, "notice": true}

// owner limits a library to the folders that may import it.
type owner struct {
	library string
	folders []string
	reason  string
}

var owners = []owner{
	{"github.com/nats-io/", []string{"internal/mq/", "internal/coord/natskv", "internal/dedupe/natskv", "internal/notice/nats"},
		"only mq/* may know NATS, and natskv and nats of other contracts, so that it can be replaced behind them"},
	{"github.com/cockroachdb/pebble", []string{"internal/dedupe/pebble"},
		"only dedupe/pebble may know Pebble, so that the store of ids can be replaced behind its contract"},
	{"github.com/aws/", []string{"internal/dedupe/dynamo"},
		"only dedupe/dynamo may know AWS, so that the store of ids can be replaced behind its contract"},
	{"github.com/redis/", []string{"internal/cache/redis"},
		"only cache/redis may know Redis, so that the cache can be replaced behind its contract"},
	{"github.com/ClickHouse/", []string{"internal/clickhouse"},
		"connections to ClickHouse come from the pools of internal/clickhouse, which bound and classify them"},
	{"github.com/go-chi/", []string{"internal/api"},
		"routing is the API's alone; other packages speak of requests, not of routes"},
	{"github.com/spf13/", []string{"cmd/"},
		"the command line ends in cmd; packages take options"},
	{"github.com/golang-jwt/", []string{"internal/auth"},
		"tokens are read in one place, which checks the algorithm before any key is used"},
	{"github.com/ebitengine/purego", []string{"cmd/clickhouse-dev"},
		"the engine library is loaded by a process of its own, never into the server"},
	{"github.com/stretchr/testify", nil,
		"assertions belong in tests and in conformance suites"},
}

// libraryReason returns why dir may not import the library, "" when it may.
func libraryReason(dir, imported string) string {
	if testSupport(dir) {
		return ""
	}
	for _, o := range owners {
		if strings.HasPrefix(imported, o.library) && !inAny(dir, o.folders) {
			return o.reason
		}
	}
	return ""
}

func inAny(dir string, folders []string) bool {
	for _, f := range folders {
		if dir == f || strings.HasPrefix(dir, strings.TrimSuffix(f, "/")+"/") {
			return true
		}
	}
	return false
}

// chooser is the file that may name implementations.
const chooser = "internal/app/backends.go"

// internalReason returns why a file of the package in dir may not import target,
// all relative to the module root; "" when it may.
func internalReason(dir, file, target string) string {
	if testSupport(dir) {
		return ""
	}
	if testSupport(target) {
		return "test support is not part of the product"
	}
	to, ok := strings.CutPrefix(target, "internal/")
	if !ok {
		return "packages of the product live in internal/, below which nothing depends on cmd, tests or scripts"
	}
	if reason := implementationReason(dir, to); reason != "" && file != chooser {
		return reason
	}
	from, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	return tierReason(from, to)
}

// implementationReason refuses an implementation of a contract to everyone but
// its siblings.
func implementationReason(dir, to string) string {
	parent := path.Dir(to)
	if !contracts[parent] {
		return ""
	}
	if inAny(dir, []string{"internal/" + parent + "/"}) && dir != "internal/"+parent {
		return ""
	}
	return "only " + chooser + " chooses implementations; everything else depends on the contract in internal/" + parent
}

func tierReason(from, to string) string {
	fromTier, known := tiers[head(from)]
	if !known {
		return "internal/" + head(from) + " has no height yet: decide who may import it, and add it to the tiers of internal/archtest"
	}
	toTier, known := tiers[head(to)]
	if !known {
		return "internal/" + head(to) + " has no height yet: decide who may import it, and add it to the tiers of internal/archtest"
	}
	if toTier > fromTier {
		return "imports point downwards, api to the domain packages to the foundations to tenant and config, so that each can be read and tested without what stands on it"
	}
	return ""
}

func head(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// testSupport reports whether the folder exists for tests: conformance suites
// and fixtures (…test), everything in tests/, and the architecture rules.
func testSupport(dir string) bool {
	base := path.Base(dir)
	return strings.HasSuffix(base, "test") || head(dir) == "tests"
}
