package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestEmptyFilesAreTheDefaults(t *testing.T) {
	r := Validate(files{}.dir(t))
	assert.True(t, r.OK())
	assert.Equal(t, ShapeFlat, r.Shape)
	assert.Equal(t, []string{"policies.json:1: warning: no policy: every request for data is denied, the admin role's included"}, warningsOf(r.Findings))
	s := r.Tenants[tenant.Default]
	require.NotNil(t, s)
	assert.Equal(t, DefaultConfig(), *s.Config)
	assert.Equal(t, tenant.Default, s.Tenant)
	assert.False(t, s.Policy.Adopted())
	assert.Len(t, s.Hash, 16)
}

func TestEveryConfigKeyIsRead(t *testing.T) {
	r := Validate(served().with("config.json", `{
		"$schema": "x", "$comment": ["a", "b"],
		"clickhouse": {"addr": "[::1]:9440", "protocol": "native", "http_port": 8443, "http_scheme": "https", "database": "d", "username": "u",
			"query_timeout": 1.5, "max_open_conns": 3, "headers": {"X-Route": "a"},
			"tls": {"enabled": true, "ca_file": "ca", "cert_file": "c", "key_file": "k", "server_name": "s"}},
		"auth": {"role_claim": "app.role", "issuer": "i", "audience": "a", "tenant_claim": ["https://x/y.z"], "subject_claim": "user.id", "require_exp": true, "max_token_age": "12h"},
		"dedupe": {"id_field": "id", "require_id": true, "retention": "7d", "when_unavailable": "defer", "max_bytes": "1GiB", "when_full": "forget_oldest", "tables": {"t": {"enabled": false, "id_field": "x", "require_id": false, "retention": "0"}}},
		"dlq": {"enabled": false, "tables": {"t": {"enabled": true}}},
		"ingest": {"flush": {"max_rows": 5, "max_bytes": "1MiB", "max_wait": "20ms"},
			"limits": {"rows_per_second": 100, "bytes_per_second": "1MiB", "burst": 500},
			"tables": {"*": {"missing_as_zero": true}, "t": {"flush": {"max_rows": 7, "max_bytes": 2048, "max_wait": "1m"}, "missing_as_zero": false}}},
		"query": {"default_max_rows": 9, "timestamp_bucket_seconds": "2m", "limits": {"concurrent": 3, "per_second": 20}},
		"schema": {"refresh_interval": 5},
		"stream": {"keepalive_interval": 10, "keepalive_buckets": 1, "gap_window_minutes": 0.5, "max_subscribers": 2},
		"mq": {"max_bytes_gb": 0.25},
		"cors": {"allowed_origins": ["https://app.example.com", "http://localhost:3000"]}
	}`).dir(t))
	require.Empty(t, r.Findings)
	c := r.Tenants[tenant.Default].Config
	assert.Equal(t, ClickHouse{
		Addr: "[::1]:9440", Protocol: "native", HTTPPort: 8443, HTTPScheme: "https", Database: "d", Username: "u",
		QueryTimeout: 1500 * time.Millisecond, MaxOpenConns: 3, MaxIdleConns: 3, Headers: map[string]string{"X-Route": "a"},
		TLS: TLS{Enabled: true, CAFile: "ca", CertFile: "c", KeyFile: "k", ServerName: "s"},
	}, c.ClickHouse, "max_idle_conns follows max_open_conns")
	assert.Equal(t, Auth{
		RoleClaim: "app.role", Issuer: "i", Audience: "a", TenantClaim: `"https://x/y.z"`, SubjectClaim: "user.id", RequireExp: true, MaxTokenAge: 12 * time.Hour,
	}, c.Auth)
	assert.Equal(t, Dedupe{IDField: "x", Retention: 0, WhenUnavailable: Defer, MaxBytes: 1 << 30, WhenFull: DedupeForget}, c.DedupeFor("t"))
	assert.Equal(t, Dedupe{IDField: "id", RequireID: true, Retention: 168 * time.Hour, WhenUnavailable: Defer, MaxBytes: 1 << 30, WhenFull: DedupeForget}, c.DedupeFor("other"))
	assert.True(t, c.DLQEnabled("t"))
	assert.False(t, c.DLQEnabled("other"))
	assert.Equal(t, Flush{MaxRows: 7, MaxBytes: 2048, MaxWait: time.Minute}, c.Flush("t"))
	assert.Equal(t, Flush{MaxRows: 5, MaxBytes: 1 << 20, MaxWait: 20 * time.Millisecond}, c.Flush("other"))
	assert.True(t, c.IngestFor("other").MissingAsZero, `"*" is every table`)
	assert.False(t, c.IngestFor("t").MissingAsZero, "a table's own entry wins")
	assert.Equal(t, Query{DefaultMaxRows: 9, TimestampBucket: 2 * time.Minute, Limits: &QueryLimits{Concurrent: new(3), PerSecond: new(20)}}, c.Query)
	assert.Equal(t, &IngestLimits{RowsPerSecond: new(100), BytesPerSecond: new(int64(1 << 20)), Burst: new(500)}, c.Ingest.Limits)
	assert.Equal(t, 5*time.Second, c.Schema.RefreshInterval)
	assert.Equal(t, Stream{KeepaliveInterval: 10 * time.Second, KeepaliveBuckets: 1, GapWindow: 30 * time.Second, MaxSubscribers: 2}, c.Stream)
	assert.Equal(t, int64(25e7), c.MQ.MaxBytes)
	assert.Equal(t, []string{"https://app.example.com", "http://localhost:3000"}, c.CORS.AllowedOrigins)
	assert.Equal(t, []string{"t"}, c.NamedTables())
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"ingest": {"limits": {"burst": 5}}}`, `ingest.limits.burst: it is of rows and does nothing without rows_per_second`},
		{`{"ingest": {"limits": {"rows_per_second": 0}}}`, `ingest.limits.rows_per_second: want at least 1`},
		{`{"query": {"limits": {"concurrent": 0}}}`, `query.limits.concurrent: want at least 1`},
		{`{"clickhouse": {"adr": "x"}}`, `clickhouse.adr: unknown key; did you mean "addr"?`},
		{`{"clickhouse": {"protocol": "tcp"}}`, `clickhouse.protocol: "tcp" is not one of http, native`},
		{`{"clickhouse": {"addr": ""}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not ""`},
		{`{"clickhouse": {"addr": "localhost:"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "localhost:"`},
		{`{"clickhouse": {"addr": "http://localhost"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "http://localhost"`},
		{`{"clickhouse": {"addr": "a:b:1"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "a:b:1"`},
		{`{"clickhouse": {"addr": ":9000"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not ":9000"`},
		{`{"clickhouse": {"addr": "h:0"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "h:0"`},
		{`{"clickhouse": {"addr": "u@h:9000"}}`, `clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "u@h:9000"`},
		{`{"clickhouse": {"http_port": 65536}}`, `clickhouse.http_port: want 1 to 65535`},
		{`{"clickhouse": {"http_scheme": "ftp"}}`, `clickhouse.http_scheme: "ftp" is not one of http, https`},
		{`{"clickhouse": {"database": ""}}`, `clickhouse.database: must not be empty; leave the key out for its default`},
		{`{"clickhouse": {"query_timeout": 0}}`, `clickhouse.query_timeout: want 1s to 1h`},
		{`{"clickhouse": {"query_timeout": -5}}`, `clickhouse.query_timeout: -5 is negative`},
		{`{"clickhouse": {"max_open_conns": 2, "max_idle_conns": 3}}`, `clickhouse.max_idle_conns: want at most max_open_conns (2)`},
		{`{"clickhouse": {"tls": {"enabled": true, "cert_file": "c"}, "http_scheme": "https"}}`, `clickhouse.tls: cert_file and key_file belong together; one of them is missing`},
		{`{"clickhouse": {"headers": {"X-ClickHouse-Key": "s3cret"}}}`, `clickhouse.headers.X-ClickHouse-Key: this header is the server's own to set; credentials are boot configuration (clickhouse.password)`},
		{`{"clickhouse": {"headers": {"authorization": "s3cret"}}}`, `clickhouse.headers.authorization: this header is the server's own to set; credentials are boot configuration (clickhouse.password)`},
		{`{"clickhouse": {"headers": {"a b": "x"}}}`, `clickhouse.headers["a b"]: not a header name`},
		{`{"clickhouse": {"headers": {"X-A": "x\r\nY: z"}}}`, `clickhouse.headers.X-A: a header's value must not hold control characters`},
		{`{"clickhouse": {"headers": {"X-A": "x", "x-a": "y"}}}`, `clickhouse.headers.x-a: the header is there twice, in different case`},
		{`{"auth": {"role_claim": "https://id.example.com/role"}}`, `auth.role_claim: a dot is a step in a claim's path, so a claim that is named by a URL must be quoted: "https://id.example.com/role"`},
		{`{"auth": {"role_claim": ""}}`, `auth.role_claim: must not be empty; leave the key out for its default`},
		{`{"dedupe": {"when_unavailable": "drop"}}`, `dedupe.when_unavailable: "drop" is not one of refuse, defer`},
		{`{"dedupe": {"id_field": ""}}`, `dedupe.id_field: must not be empty; leave the key out for its default`},
		{`{"dedupe": {"tables": {"a.b": {"id_field": ""}}}}`, `dedupe.tables["a.b"].id_field: must not be empty; leave the key out for its default`},
		{`{"dedupe": {"tables": {"t": {"retention": "1m59s"}}}}`, `dedupe.tables.t.retention: want "0" (for ever) or at least 2m`},
		{`{"dlq": {"tables": {"": {}}}}`, `dlq.tables: a name in it is empty`},
		{`{"ingest": {"flush": {"max_rows": 0}}}`, `ingest.flush.max_rows: want 1 to 1000000`},
		{`{"ingest": {"flush": {"max_bytes": "99999999TiB"}}}`, `ingest.flush.max_bytes: size "99999999TiB" is too large`},
		{`{"ingest": {"flush": {"max_wait": 1}}}`, `ingest.flush.max_wait: a number has no unit here: want a duration like "90s", "12h" or "7d"`},
		{`{"ingest": {"tables": {"t": {"flush": {"max_bytes": 10}}}}}`, `ingest.tables.t.flush.max_bytes: want 1KiB to 1GiB`},
		{`{"ingest": {"tables": {"t": {"flush": {"max_wait": "11m"}}}}}`, `ingest.tables.t.flush.max_wait: want 1ms to 10m`},
		{`{"query": {"default_max_rows": 1e3}}`, `query.default_max_rows: want a whole number, not "1e3"`},
		{`{"stream": {"gap_window_minutes": "31d"}}`, `stream.gap_window_minutes: want 0 to 30d`},
		{`{"mq": {"max_bytes_gb": 0}}`, `mq.max_bytes_gb: want 100KB to 1000000TB`},
		{`{"mq": {"max_bytes_gb": 99999999999}}`, `mq.max_bytes_gb: 99999999999 is too large`},
		{`{"cors": {"allowed_origins": ["https://a/"]}}`, `cors.allowed_origins[0]: want "*" or an origin like "https://app.example.com", not "https://a/"`},
		{`{"cors": {"allowed_origins": ["app.example.com"]}}`, `cors.allowed_origins[0]: want "*" or an origin like "https://app.example.com", not "app.example.com"`},
		{`{"cors": {"allowed_origins": null}}`, `cors.allowed_origins: null is not a value here; leave the key out to get its default`},
		{`{"$comment": 5}`, `$comment: want a string or a list of strings`},
		{`{"$schema": []}`, `$schema: want a string`},
	} {
		r := Validate(served().with("config.json", c.text).dir(t))
		assert.Equal(t, []string{"config.json:1: error: " + c.want}, errorsOf(r.Findings), c.text)
		assert.Empty(t, r.Tenants, c.text)
		assert.NotContains(t, strings.Join(errorsOf(r.Findings), ""), "s3cret", "a header's value may be a secret")
	}
}

func TestConfigWarnings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"clickhouse": {"addr": "h:8443"}}`, `clickhouse.addr: port 8443 is not used: the protocol is http, whose port is http_port (8123)`},
		{`{"clickhouse": {"tls": {"enabled": true}}}`, `clickhouse.http_scheme: nothing is encrypted: tls.enabled is for the native protocol, HTTP is encrypted by https here`},
		{`{"clickhouse": {"protocol": "native", "tls": {"enabled": true}}}`, `clickhouse.http_scheme: only the native connections are encrypted; HTTP is not`},
		{`{"clickhouse": {"protocol": "native", "http_scheme": "https"}}`, `clickhouse.tls.enabled: only HTTP is encrypted; the native connections are not`},
		{`{"clickhouse": {"http_scheme": "https", "tls": {"insecure_skip_verify": true}}}`, `clickhouse.tls.insecure_skip_verify: the server's certificate is not checked: anyone in between can read and change everything`},
		{`{"clickhouse": {"tls": {"ca_file": "ca"}}}`, `clickhouse.tls: nothing of this is used: tls.enabled is false and http_scheme is http`},
		{`{"cors": {"allowed_origins": ["*", "https://a"]}}`, `cors.allowed_origins: "*" allows every origin; the others change nothing`},
	} {
		r := Validate(served().with("config.json", c.text).dir(t))
		assert.True(t, r.OK(), c.text)
		assert.Equal(t, []string{"config.json:1: warning: " + c.want}, warningsOf(r.Findings), c.text)
	}
}

func TestListsAreBounded(t *testing.T) {
	many := func(n int, format string) string {
		return strings.TrimSuffix(strings.Repeat(format+",", n), ",")
	}
	r := Validate(served().with("config.json", `{"cors": {"allowed_origins": [`+many(1001, `"https://a"`)+`]}}`).dir(t))
	assert.Equal(t, []string{"config.json:1: error: cors.allowed_origins: want at most 1000 entries, not 1001"}, errorsOf(r.Findings))
	r = Validate(files{"roles.json": `{"roles": [` + many(1001, `"r"`) + `]}`}.dir(t))
	assert.Equal(t, []string{"roles.json:1: error: roles: want at most 1000 entries, not 1001"}, errorsOf(r.Findings))
	r = Validate(files{"pipes.json": `{"pipes": [` + many(1001, `{}`) + `]}`}.dir(t))
	assert.Contains(t, errorsOf(r.Findings), "pipes.json:1: error: pipes: want at most 1000 entries, not 1001")
	headers := `"a": "x"`
	for range 64 {
		headers += `,"a` + strings.Repeat("b", len(headers)%97) + `": "x"`
	}
	r = Validate(files{"config.json": `{"clickhouse": {"headers": {` + headers + `}}}`}.dir(t))
	assert.False(t, r.OK())
	r = Validate(files{"config.json": "{" + strings.Repeat(" ", maxFileSize) + "}"}.dir(t))
	assert.Equal(t, []string{"config.json: error: the file is larger than 1048576 bytes"}, errorsOf(r.Findings))
}

// TestRetentionShorterThanTheDuplicateWindow: "30d" is a duration of 30
// days here, so it is adopted.
func TestRetentionShorterThanTheDuplicateWindow(t *testing.T) {
	for retention, ok := range map[string]bool{
		`"30s"`: false, `300`: false, `"-1h"`: false, `"1m59s"`: false, `-1`: false, `"x"`: false,
		`"720h"`: true, `"30d"`: true, `"2m"`: true, `"0"`: true, `0`: true,
	} {
		r := Validate(served().with("config.json", `{"dedupe": {"retention": `+retention+`}}`).dir(t))
		assert.Equal(t, ok, r.OK(), retention)
		if !ok {
			require.Len(t, errorsOf(r.Findings), 1)
			assert.Contains(t, errorsOf(r.Findings)[0], "config.json:1: error: dedupe.retention: ", retention)
		}
	}
}

func TestRemembersIDs(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: false, `{"dedupe": {"enabled": true}}`: true, `{"dedupe": {"tables": {"a b": {"enabled": true}}}}`: true,
		`{"dedupe": {"enabled": true, "tables": {"a": {"enabled": false}}}}`:          true,
		`{"dedupe": {"tables": {"a": {"enabled": false}, "*": {"retention": "1h"}}}}`: false,
	} {
		r := Validate(served().with("config.json", text).dir(t))
		require.Empty(t, errorsOf(r.Findings), text)
		assert.Equal(t, want, r.Tenants[tenant.Default].Config.RemembersIDs(), text)
	}
}

// A row rule holds or is refused with its place; it is never left out.
func TestRowRulesOfPolicies(t *testing.T) {
	policies := func(entry string) files {
		return served().with("policies.json", "{\"default_role\": \"public\", \"tables\": {\"t\": {\"public\": "+entry+"}}}")
	}
	good := Validate(policies(`{"select": {"filter": {"a": {"_eq": "{{ jwt.sub }}"}}}, "insert": {"check": {"a": {"_in": [1, 2]}}}}`).dir(t))
	assert.Empty(t, errorsOf(good.Findings))
	for entry, want := range map[string]string{
		"{\"select\": {\n\"filter\": {\"a\": {\"eq\": 1}}}}":            `policies.json:2: error: tables.t.public.select.filter.a.eq: unknown operator "eq" in a filter; did you mean "_eq"?`,
		"{\"insert\": {\"check\": {\n\"a\": {\"_gt\": 1}}}}":            `policies.json:2: error: tables.t.public.insert.check.a._gt: unknown operator "_gt" in a check: want one of _eq, _in`,
		"{\"select\": {\"filter\":\n {\"a\": {\"_eq\": \"{{jwt}}\"}}}}": `policies.json:2: error: tables.t.public.select.filter.a._eq: "{{jwt}}": only claims can stand between braces: write {{ jwt.<path> }}`,
	} {
		assert.Equal(t, []string{want}, errorsOf(Validate(policies(entry).dir(t)).Findings))
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"roles": ["a", ""]}`, `roles.json:1: error: roles[1]: a role must have a name`},
		{`{"roles": ["a", "a"]}`, `roles.json:1: error: roles[1]: the role "a" is named twice`},
		{`{"roles": "a"}`, `roles.json:1: error: roles: want an array, not a string`},
		{`{"roles": ["` + strings.Repeat("r", 129) + `"]}`, `roles.json:1: error: roles[0]: want at most 128 bytes, not 129`},
		{`[]`, `roles.json:1: error: want an object, not an array`},
	} {
		assert.Equal(t, []string{c.want}, errorsOf(Validate(files{"roles.json": c.text}.dir(t)).Findings))
	}
}

func TestRolesMustBeDeclared(t *testing.T) {
	dir := files{
		"policies.json": "{\"default_role\": \"visitor\",\n\"tables\": {\"t\": {\n\"viewer\": {\"select\": {}}}}}",
		"pipes.json":    `{"pipes": [{"name": "p", "allowed_roles": ["admin", "reader"]}]}`,
	}
	found := errorsOf(Validate(dir.dir(t)).Findings)
	assert.Contains(t, found, `policies.json:1: error: default_role: role "visitor" is not in roles.json`)
	assert.Contains(t, found, `policies.json:3: error: tables.t.viewer: role "viewer" is not in roles.json`)
	assert.Contains(t, found, `pipes.json:1: error: pipes[0].allowed_roles[1]: role "reader" is not in roles.json`)

	broken := errorsOf(Validate(dir.with("roles.json", "{").dir(t)).Findings)
	assert.Len(t, broken, 2, "an unreadable roles.json is one fault, not one for each role: %v", broken)
}

func TestPipesAreCheckedAlthoughNotServed(t *testing.T) {
	r := Validate(files{"pipes.json": `{"pipes": [
		{"name": "a", "parameters": [{"name": "x", "type": "string", "required": true, "default": "d"}], "cache": {"ttl": "30s"}, "reads": ["t"]},
		{"name": "a"},
		{"sql": "SELECT 1", "description": "d"}]}`}.dir(t))
	assert.Contains(t, errorsOf(r.Findings), `pipes.json:3: error: pipes[1].name: the pipe "a" is there twice`)
	assert.Contains(t, errorsOf(r.Findings), `pipes.json:4: error: pipes[2]: a pipe must have a name`)
	assert.Contains(t, warningsOf(r.Findings), `pipes.json:2: warning: pipes[0].parameters[0].default: a required parameter's default is never used`)
}

func TestEveryFindingInOnePass(t *testing.T) {
	dir := files{
		"config.json":   "{\n\"quer\": 1,\n\"mq\": {\"max_bytes_gb\": \"x\"}}",
		"policies.json": "{\"tables\": [],}",
		"pipes.json":    "",
		"roles.json":    "\xef\xbb\xbfnull",
		"extra.json":    "{}",
	}.dir(t)
	assert.Equal(t, []string{
		`config.json:2: error: quer: unknown key; did you mean "query"?`,
		`config.json:3: error: mq.max_bytes_gb: "x" is not a size: want a number with a unit, like "512MiB" or "1GB"`,
		`extra.json: error: unexpected entry: only config.json, policies.json, pipes.json, roles.json, policy tests (*.test.json) and names that begin with a dot may be here`,
		`pipes.json: error: the file is missing; {} is an empty one`,
		`policies.json:1: error: there is a comma before the closing bracket`,
		`policies.json:1: error: tables: want an object, not an array`,
		`roles.json:1: error: the file begins with a byte order mark; save it as UTF-8 without one`,
		`roles.json:1: error: the document is null; {} is an empty object`,
	}, errorsOf(Validate(dir).Findings))
}

// What a file means is judged although there are faults in its form; what only
// follows from such a fault is not reported.
func TestFaultsOfFormHideNoMeaning(t *testing.T) {
	dir := files{
		"config.json": `{"clickhouse": {"http_port": 0, "addr": "h:0", "tls": {"cert_file": 5, "key_file": "k"}, "hedders": {}},
"cors": {"allowed_origins": ["a", 1,]}, "mq": {}, "mq": {"max_bytes_gb": 0}}`,
		"roles.json": `{"roles": ["viewer", ""], "more": 1}`,
		"policies.json": `{"defualt_role": "viewer", "tables": {"t": {"nobody": {"select": {"max_rows": -1, "colums": [],
"filter": {"a": {"eq": 1}}}}}},}`,
		"pipes.json": `{"pipes": [{"name": 5, "sql": ""}, {"nmae": "p", "sql": "SELECT 1", "allowed_roles": ["reader"]}]}`,
	}.dir(t)
	assert.Equal(t, []string{
		`config.json:1: error: clickhouse.addr: want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not "h:0"`,
		`config.json:1: error: clickhouse.hedders: unknown key; did you mean "headers"?`,
		`config.json:1: error: clickhouse.http_port: want 1 to 65535`,
		`config.json:1: error: clickhouse.tls.cert_file: want a string, not a number`,
		`config.json:2: error: cors.allowed_origins: there is a comma before the closing bracket`,
		`config.json:2: error: cors.allowed_origins[0]: want "*" or an origin like "https://app.example.com", not "a"`,
		`config.json:2: error: cors.allowed_origins[1]: want a string, not a number`,
		`config.json:2: error: mq: the key is repeated`,
		`config.json:2: error: mq.max_bytes_gb: want 100KB to 1000000TB`,
		`pipes.json:1: error: pipes[0].name: want a string, not a number`,
		`pipes.json:1: error: pipes[0].sql: a pipe must have a statement`,
		`pipes.json:1: error: pipes[1].allowed_roles[0]: role "reader" is not in roles.json`,
		`pipes.json:1: error: pipes[1].nmae: unknown key; did you mean "name"?`,
		`policies.json:1: error: defualt_role: unknown key; did you mean "default_role"?`,
		`policies.json:1: error: tables.t.nobody: role "nobody" is not in roles.json`,
		`policies.json:1: error: tables.t.nobody.select.colums: unknown key; want one of allow_columns, allowed_aggregations, denied_aggregations, deny_columns, filter, max_execution_time, max_memory_usage, max_rows, max_rows_to_read, show_cost`,
		`policies.json:1: error: tables.t.nobody.select.max_rows: want at least 0`,
		`policies.json:2: error: there is a comma before the closing bracket`,
		`policies.json:2: error: tables.t.nobody.select.filter.a.eq: unknown operator "eq" in a filter; did you mean "_eq"?`,
		`roles.json:1: error: more: unknown key; want one of roles`,
		`roles.json:1: error: roles[1]: a role must have a name`,
	}, errorsOf(Validate(dir).Findings))
}

func TestPolicyTestsMayStandBesideTheFiles(t *testing.T) {
	dir := served().dir(t)
	before := Validate(dir)
	put(t, filepath.Join(dir, "viewers.test.json"), "not even JSON")
	after := Validate(dir)
	assert.True(t, after.OK(), after.Findings)
	assert.Equal(t, before.Tenants["0"].Hash, after.Tenants["0"].Hash, "the server does not read them")
	assert.NotNil(t, after.Tenants["0"].PolicyDocument().Tables["*"])

	require.NoError(t, os.Mkdir(filepath.Join(dir, "more.test.json"), 0o750))
	assert.Len(t, errorsOf(Validate(dir).Findings), 1, "a folder is none")
	put(t, filepath.Join(dir, "test.json"), "{}")
	assert.Len(t, errorsOf(Validate(dir).Findings), 2)
}

func TestEntriesOfTheDirectory(t *testing.T) {
	dir := served().dir(t)
	put(t, filepath.Join(dir, ".config.json.swp"), "")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..data"), 0o750))
	assert.True(t, Validate(dir).OK(), "names that begin with a dot are nobody's business")

	put(t, filepath.Join(dir, "polices.json"), "{}")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "birch"), 0o750))
	found := errorsOf(Validate(dir).Findings)
	require.Len(t, found, 2)
	assert.Equal(t, "birch: error: a folder beside the four files: a settings directory is flat or nested, never both", found[0])
	assert.Contains(t, found[1], `did you mean "policies.json"?`)
}

func TestEntriesThatAreNotFiles(t *testing.T) {
	dir := files{"config.json": "", "pipes.json": "", "roles.json": ""}.dir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "config.json"), 0o750))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipes.json"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "roles.json")))
	assert.Equal(t, []string{
		"config.json: error: want a regular file",
		"pipes.json: error: want a regular file",
		"roles.json: error: the file is missing; {} is an empty one",
	}, errorsOf(Validate(dir).Findings))
}

func TestManyUnexpectedEntries(t *testing.T) {
	dir := served().dir(t)
	for i := range 150 {
		put(t, filepath.Join(dir, strings.Repeat("x", i+1)), "")
	}
	assert.Len(t, Validate(dir).Findings, maxListed+1)
}

func TestDirectoriesThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "{}")
	for _, dir := range []string{"/nowhere/at/all", file, ""} {
		r := Validate(dir)
		require.Len(t, errorsOf(r.Findings), 1, dir)
		assert.Contains(t, errorsOf(r.Findings)[0], "settings directory: error: "+dir+" cannot be read", dir)
		assert.Equal(t, ShapeUnknown, r.Shape)
	}
	empty := Validate(t.TempDir())
	assert.Len(t, errorsOf(empty.Findings), 4, "an empty directory misses its four files")
}

func TestHashIsOfTheContentAlone(t *testing.T) {
	hash := func(f files) string { return Validate(f.dir(t)).Tenants[tenant.Default].Hash }
	assert.Equal(t, hash(served()), hash(served()))
	assert.NotEqual(t, hash(served()), hash(served().with("pipes.json", "{ }")))
}

func TestShowReadsBackToTheSame(t *testing.T) {
	text := `{"clickhouse": {"query_timeout": 2.5, "headers": {"X-Secret": "s3cret"}}, "stream": {"gap_window_minutes": 90},
		"dedupe": {"tables": {"a\"b": {"retention": "0"}}}, "mq": {"max_bytes_gb": 0.25}, "cors": {"allowed_origins": []}}`
	first := Validate(served().with("config.json", text).dir(t)).Tenants[tenant.Default].Config
	shown, err := first.Show()
	require.NoError(t, err)
	assert.NotContains(t, string(shown), "s3cret")
	r := Validate(served().with("config.json", string(shown)).dir(t))
	require.Empty(t, r.Findings, string(shown))
	second := r.Tenants[tenant.Default].Config
	second.ClickHouse.Headers = first.ClickHouse.Headers
	assert.Equal(t, first, second)
	assert.Contains(t, string(shown), `"gap_window_minutes": "1h30m"`)
}

func TestAnAddressNeedsNoPort(t *testing.T) {
	for _, addr := range []string{"localhost", "localhost:9000", "ch.example:9440", "h:8123", "10.0.0.1", "::1", "[::1]", "[::1]:9000"} {
		r := Validate(served().with("config.json", `{"clickhouse": {"addr": "`+addr+`"}}`).dir(t))
		assert.Empty(t, r.Findings, addr)
	}
}
