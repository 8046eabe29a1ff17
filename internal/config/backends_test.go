package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBackendsThatNobodyHas(t *testing.T) {
	inDir(t)
	assert.Equal(t, []string{`WH_MQ_BACKEND: "kafka" is not one of embedded, nats`},
		faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=kafka"}, nil))
}

func TestRolesAndBackendsThatCannotWork(t *testing.T) {
	inDir(t)
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"WH_ROLES=api,ingest"}, "roles: the embedded queue lives in one process"},
		{[]string{"WH_ROLES=sweeper"}, "roles: the embedded queue lives in one process"},
		{[]string{"WH_MQ_BACKEND=nats", "WH_ROLES=sweeper"}, "roles: sweeper alone has nothing to do on nats"},
		{[]string{"WH_MQ_BACKEND=nats"}, "dedupe.backend: pebble keeps the ids of one process"},
		{[]string{"WH_DEDUPE_BACKEND=dynamodb"}, "dedupe.dynamodb.table: required"},
		{[]string{"WH_DEDUPE_BACKEND=dynamodb", "WH_DEDUPE_DYNAMODB_CREATE_TABLE=true"}, "dedupe.dynamodb.create_table: it is for development"},
		{[]string{"WH_MQ_BACKEND=nats"}, "coord.backend: ingest on nats shares its work through leases"},
	} {
		found := false
		for _, f := range faultsOf(t, append(c.env, dirSet), nil) {
			found = found || len(f) >= len(c.want) && f[:len(c.want)] == c.want
		}
		assert.True(t, found, "%v: want %q", c.env, c.want)
	}
	_, warnings, _ := Load([]string{dirSet, "WH_MQ_BACKEND=nats", "WH_ROLES=api"}, nil)
	assert.Contains(t, warnings, "cache.backend is local: where several processes serve requests, each fills a cache of its own; redis is one for all")
}

// Whoever mends a configuration sees all that is wrong with it at once.
func TestFaultsOfRolesAreNamedTogether(t *testing.T) {
	inDir(t)
	faults := strings.Join(faultsOf(t, []string{dirSet, "WH_ROLES=api", "WH_COORD_BACKEND=nats"}, nil), "\n")
	assert.Contains(t, faults, "roles: the embedded queue lives in one process")
	assert.Contains(t, faults, "coord.backend: the bucket of leases is in the cluster of the queue")
	faults = strings.Join(faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=nats", "WH_ROLES=ingest"}, nil), "\n")
	for _, want := range []string{"coord.backend: ingest on nats", "mq.nats.urls: required", "dedupe.backend: pebble keeps the ids of one process"} {
		assert.Contains(t, faults, want)
	}
}

func TestSectionsOfOtherBackendsWarn(t *testing.T) {
	inDir(t)
	write(t, "config.yaml", "mq:\n  nats:\n    urls: [a, b]\n  backend: embedded\ncache: {redis: {addrs: [x:1]}}\n")
	_, warnings, err := Load([]string{dirSet, "WH_DEDUPE_DYNAMODB_TABLE=t", "WH_COORD_NATS_BUCKET=u"}, nil)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{
		`mq.nats.urls is not used: mq.backend is "embedded"`,
		`cache.redis.addrs is not used: cache.backend is "local"`,
		`dedupe.dynamodb.table is not used: dedupe.backend is "pebble"`,
		`coord.nats.bucket is not used: coord.backend is "local"`,
	}, warnings)

	_, warnings, _ = Load([]string{dirSet, "WH_CACHE_LOCAL_MAX_BYTES=8MiB", "WH_CACHE_BACKEND=redis", "WH_CACHE_REDIS_ADDRS=x:1"}, nil)
	assert.Contains(t, warnings, `cache.local.max_bytes is not used: cache.backend is "redis"`)
}

func TestTheSharedCacheIsHeldAgainstItself(t *testing.T) {
	inDir(t)
	for env, want := range map[string]string{
		"":                             "cache.redis.addrs: required; name one address of the server as host:port, or some of the cluster or the sentinels",
		"WH_CACHE_REDIS_ADDRS=cache":   `cache.redis.addrs: "cache" is not host:port`,
		"WH_CACHE_REDIS_ADDRS=a:1,b:1": "cache.redis.addrs: standalone is one server; name one address, or set cache.redis.mode to cluster or sentinel",
		"WH_CACHE_REDIS_ADDRS=a:1 WH_CACHE_REDIS_MODE=sentinel":                    "cache.redis.master: required with sentinels; name the primary as they do",
		"WH_CACHE_REDIS_ADDRS=a:1 WH_CACHE_REDIS_MODE=cluster WH_CACHE_REDIS_DB=2": "cache.redis.db: a cluster has database 0 only",
		"WH_CACHE_REDIS_ADDRS=a:1 WH_CACHE_REDIS_TLS_CERT_FILE=x":                  "cache.redis.tls: cert_file and key_file go together",
		"WH_CACHE_REDIS_ADDRS=a:1 WH_CACHE_REDIS_PREFIX={a}":                       "cache.redis.prefix: want printable ASCII characters without spaces, braces or any of *?[]",
	} {
		assert.Equal(t, []string{want}, faultsOf(t, append(strings.Fields(env), dirSet, "WH_CACHE_BACKEND=redis"), nil), env)
	}
	secret := write(t, "secret", "of-redis\n")
	c, warnings, err := Load([]string{
		dirSet, "WH_CACHE_BACKEND=redis", "WH_CACHE_REDIS_ADDRS=a:1,b:2", "WH_CACHE_REDIS_MODE=sentinel", "WH_CACHE_REDIS_MASTER=m",
		"WH_CACHE_REDIS_PASSWORD_FILE=" + secret, "WH_CACHE_REDIS_TLS_CA_FILE=ca.pem",
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"cache.redis.tls.enabled is false: the other keys of cache.redis.tls are not used"}, warnings)
	assert.Equal(t, []string{"a:1", "b:2"}, c.Cache.Redis.Addrs)
	assert.Equal(t, "of-redis", c.Cache.Redis.Password.Reveal())
	for _, s := range c.Effective() {
		assert.NotContains(t, s.Value, "of-redis")
	}
}

func TestTheStoreOfIdsIsHeldAgainstTheQueue(t *testing.T) {
	inDir(t)
	const refusal = "dedupe.backend: pebble keeps the ids of one process, and several may share the queue: choose another, or set dedupe.pebble.single_replica where there is only this one"
	assert.Contains(t, faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=nats"}, nil), refusal)
	assert.NotContains(t, faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=nats", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true"}, nil), refusal)
	assert.NotContains(t, faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=nats", "WH_DEDUPE_BACKEND=nats"}, nil), refusal)
	assert.Contains(t, faultsOf(t, []string{dirSet, "WH_DEDUPE_BACKEND=nats"}, nil),
		"dedupe.backend: the bucket of seen ids is in the cluster of the queue; set mq.backend to nats, or choose another")
	assert.NotContains(t, faultsOf(t, []string{dirSet, "WH_MQ_BACKEND=nats", "WH_DEDUPE_BACKEND=dynamodb", "WH_DEDUPE_DYNAMODB_TABLE=ids"}, nil), refusal)
	c, _, err := Load([]string{
		dirSet, "WH_DEDUPE_BACKEND=dynamodb", "WH_DEDUPE_DYNAMODB_TABLE=ids", "WH_DEDUPE_DYNAMODB_ENDPOINT=http://127.0.0.1:1", "WH_DEDUPE_DYNAMODB_CREATE_TABLE=true",
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, DedupeDynamoDB{Table: "ids", Endpoint: "http://127.0.0.1:1", CreateTable: true}, c.Dedupe.DynamoDB)
}
