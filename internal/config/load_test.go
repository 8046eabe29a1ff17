package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/spec"
)

// dirSet is the one variable without which nothing starts.
const dirSet = "WH_SETTINGS_DIR=/etc/wavehouse"

// inDir runs the test in an empty folder, so that no config.yaml is found by
// chance.
func inDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	return dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// faultsOf loads and returns the faults, none for a configuration that is fine.
func faultsOf(t *testing.T, env []string, flags map[string]string) []string {
	t.Helper()
	_, _, err := Load(env, flags)
	if err == nil {
		return nil
	}
	var faults *Error
	require.ErrorAs(t, err, &faults)
	return faults.Faults
}

func TestDefaults(t *testing.T) {
	inDir(t)
	c, warnings, err := Load([]string{dirSet, "PATH=/bin", "NOT_WH=1"}, nil)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	want := Default()
	want.Settings.Dir = "/etc/wavehouse"
	want.InstanceID = c.InstanceID
	want.sources = c.sources
	assert.Equal(t, want, c)
	host, _ := os.Hostname()
	assert.Regexp(t, "^"+host+"-[0-9a-f]{8}$", c.InstanceID)
	assert.True(t, c.HasRole(RoleIngest))
	assert.False(t, c.HasRole("other"))
}

func TestPrecedence(t *testing.T) {
	inDir(t)
	write(t, "config.yaml", "server:\n  port: 1\n  host: file\n  shutdown_timeout: 5s\nsettings:\n  dir: s\n")
	c, _, err := Load([]string{"WH_SERVER_HOST=env", "WH_SERVER_SHUTDOWN_TIMEOUT=6s"}, map[string]string{"server.shutdown_timeout": "7s"})
	require.NoError(t, err)
	assert.Equal(t, Server{Host: "env", Port: 1, ShutdownTimeout: 7 * time.Second}, c.Server)
	origins := map[string]Origin{}
	for _, s := range c.Effective() {
		origins[s.Key] = s.Origin
	}
	assert.Equal(t, OriginFile, origins["server.port"])
	assert.Equal(t, OriginEnv, origins["server.host"])
	assert.Equal(t, OriginFlag, origins["server.shutdown_timeout"])
	assert.Equal(t, OriginDefault, origins["data_dir"])
}

func TestZeroValuesOfTheFileWinOverDefaults(t *testing.T) {
	inDir(t)
	write(t, "config.yaml", `
data_dir: ""
server: {port: 0}
prometheus: {enabled: false}
otel: {sample_ratio: 0}
settings: {dir: s}
`)
	c, _, err := Load(nil, nil)
	require.NoError(t, err)
	assert.Empty(t, c.DataDir)
	assert.Zero(t, c.Server.Port)
	assert.False(t, c.Prometheus.Enabled)
	assert.Zero(t, c.OTel.SampleRatio)
}

func TestFileNamedByVariable(t *testing.T) {
	dir := inDir(t)
	path := write(t, filepath.Join(dir, "other.yaml"), "settings: {dir: here}\nroles: [api, ingest, sweeper]\ncache: {local: {max_bytes: 2MiB}}\n")
	c, _, err := Load([]string{"WH_CONFIG=" + path}, nil)
	require.NoError(t, err)
	assert.Equal(t, "here", c.Settings.Dir)
	assert.Equal(t, int64(2<<20), c.Cache.Local.MaxBytes)

	_, warnings, err := Load([]string{"WH_CONFIG=/nowhere.yaml", dirSet}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{`WH_CONFIG: there is no file "/nowhere.yaml"`}, warnings)
	assert.Len(t, faultsOf(t, []string{"WH_CONFIG=" + dir, dirSet}, nil), 1)
}

func TestFileWithNothingSet(t *testing.T) {
	inDir(t)
	for _, text := range []string{"", "# only a comment\n", "server:\n  # port: 1\n", "---\n", "null\n"} {
		write(t, "config.yaml", text)
		assert.Empty(t, faultsOf(t, []string{dirSet}, nil), "%q", text)
	}
}

func TestFileFaults(t *testing.T) {
	inDir(t)
	for _, c := range []struct{ text, want string }{
		{"server:\n  prot: 1\n", "config.yaml:2: server.prot: unknown key; did you mean \"server.port\"?"},
		{"sever: {port: 1}\n", "config.yaml:1: sever: unknown key; did you mean \"server\"?"},
		{"zzz: 1\n", "config.yaml:1: zzz: unknown key"},
		{"server:\n  port: 1\n  port: 2\n", "config.yaml:3: server.port: the key is repeated"},
		{"server: 5\n", "config.yaml:1: server: want keys and values here"},
		{"- a\n", "config.yaml:1: want keys and values here"},
		{"server:\n  port:\n", `config.yaml:2: server.port: the key has no value; write "" for an empty one or leave the key out`},
		{"server:\n  port: [1]\n", "config.yaml:2: server.port: want one value here"},
		{"server:\n  port: 8o80\n", `config.yaml:2: server.port: "8o80" is not a whole number`},
		{"server:\n  port: 70000\n", "config.yaml:2: server.port: want 0 to 65535"},
		{"server:\n  shutdown_timeout: 10\n", `config.yaml:2: server.shutdown_timeout: "10" is not a duration: want a number with a unit, like "90s", "12h" or "7d"`},
		{"cache: {local: {max_bytes: 1.5}}\n", `config.yaml:1: cache.local.max_bytes: "1.5" is not a size: want a number with a unit, like "512MiB" or "1GB"`},
		{"prometheus: {enabled: yes}\n", `config.yaml:1: prometheus.enabled: "yes" is neither true nor false`},
		{"otel: {sample_ratio: much}\n", `config.yaml:1: otel.sample_ratio: "much" is not a number`},
		{"log: {level: inof}\n", `config.yaml:1: log.level: "inof" is not one of debug, info, warn, error; did you mean "info"?`},
		{"roles: [api, api, ingest]\n", `config.yaml:1: roles: "api" is named twice`},
		{"roles: [api, [x]]\n", "config.yaml:1: roles: want a list of names"},
		{"roles: [api, worker]\n", `config.yaml:1: roles: "worker" is not one of api, ingest, sweeper`},
		{"a: 1\n---\nb: 1\n", "config.yaml: there is more than one document"},
	} {
		write(t, "config.yaml", c.text)
		assert.Equal(t, []string{c.want}, faultsOf(t, []string{dirSet}, nil), "%q", c.text)
	}
	write(t, "config.yaml", "server: [\n")
	assert.Len(t, faultsOf(t, []string{dirSet}, nil), 1, "not YAML")
	write(t, "config.yaml", "#"+strings.Repeat("x", maxFile))
	assert.Len(t, faultsOf(t, []string{dirSet}, nil), 1, "too large")
}

func TestAliasesAreFollowed(t *testing.T) {
	inDir(t)
	write(t, "config.yaml", "data_dir: &d /data\nsettings: {dir: *d}\n")
	c, _, err := Load(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, "/data", c.Settings.Dir)
}

func TestVariableFaults(t *testing.T) {
	inDir(t)
	for _, c := range []struct{ variable, want string }{
		{"WH_SERVER_PROT=1", "WH_SERVER_PROT: no key has this variable; did you mean \"WH_SERVER_PORT\"?"},
		{"WH_NOTHING_LIKE_ANYTHING_KNOWN=1", "WH_NOTHING_LIKE_ANYTHING_KNOWN: no key has this variable"},
		{"WH_SERVER_PORT=", `WH_SERVER_PORT: "" is not a whole number`},
		{"WH_DATA_DIR_FILE=/x", "WH_DATA_DIR_FILE: no key has this variable; did you mean \"WH_DATA_DIR\"?"},
		{"WH_ROLES=api", "roles: the embedded queue lives in one process, which needs all of api, ingest and sweeper; name all three, or change mq.backend"},
		{"WH_SERVER_OPS_PORT=65536", "WH_SERVER_OPS_PORT: want 0 to 65535"},
		{"WH_OTEL_SERVICE_NAME=", "WH_OTEL_SERVICE_NAME: must not be empty; leave the key out for its default"},
		{"WH_INSTANCE_ID=a b", "instance_id: want printable ASCII characters without spaces"},
		{"WH_OTEL_SAMPLE_RATIO=2", "WH_OTEL_SAMPLE_RATIO: want 0 to 1"},
		{"WH_OTEL_SAMPLE_RATIO=NaN", "WH_OTEL_SAMPLE_RATIO: want 0 to 1"},
		{"WH_PROMETHEUS_PATH=metrics", `prometheus.path: want a path like /metrics, not "metrics"`},
		{"WH_PROMETHEUS_PATH=/v1/metrics", `prometheus.path: "/v1/metrics" lies among the API's own routes; choose another or set prometheus.port`},
		{"WH_PROMETHEUS_PORT=-1", "WH_PROMETHEUS_PORT: want 0 to 65535"},
		{"WH_SERVER_SHUTDOWN_TIMEOUT=0", "WH_SERVER_SHUTDOWN_TIMEOUT: want 1ms to 1h"},
		{"WH_DEDUPE_LEASE=1ms", "WH_DEDUPE_LEASE: want 1s to 40s"},
		{"WH_DEDUPE_LEASE=41s", "WH_DEDUPE_LEASE: want 1s to 40s"},
		{"WH_CACHE_LOCAL_MAX_BYTES=5", "WH_CACHE_LOCAL_MAX_BYTES: want at least 1MiB"},
		{"WH_CH_MAX_TOTAL_CONNS=-1", "WH_CH_MAX_TOTAL_CONNS: want at least 0"},
	} {
		assert.Equal(t, []string{c.want}, faultsOf(t, []string{dirSet, c.variable}, nil), c.variable)
	}
}

func TestServiceLinksAreRecognised(t *testing.T) {
	inDir(t)
	for _, v := range []string{
		"WH_SERVICE_HOST=10.0.0.1", "WH_SERVICE_PORT=8080", "WH_SERVICE_PORT_HTTP=8080", "WH_PORT=tcp://10.0.0.1:8080",
		"WH_PORT_8080_TCP=tcp://10.0.0.1:8080", "WH_PORT_8080_TCP_ADDR=10.0.0.1", "WH_CACHE_SERVICE_HOST=10.0.0.1",
	} {
		faults := faultsOf(t, []string{dirSet, v}, nil)
		require.Len(t, faults, 1, v)
		assert.Contains(t, faults[0], "enableServiceLinks: false", v)
	}
	assert.NotContains(t, faultsOf(t, []string{dirSet, "WH_SERVER_PROT=1"}, nil)[0], "enableServiceLinks")
}

func TestAllFaultsAtOnce(t *testing.T) {
	inDir(t)
	write(t, "config.yaml", "sever: 1\nserver: {port: x}\n")
	faults := faultsOf(t, []string{"WH_LOG_LEVLE=info", "WH_SERVICE_HOST=h", "WH_ROLES=api"}, map[string]string{"nope": "1", "log.format": "xml"})
	assert.Len(t, faults, 8)
	require.NoError(t, os.Remove("config.yaml"))
	_, _, err := Load([]string{"WH_A=1", "WH_B=1"}, nil)
	assert.Equal(t, 2, strings.Count(err.Error(), "\n"), "one fault a line: %s", err)
}

func TestSettingsDirIsRequired(t *testing.T) {
	inDir(t)
	faults := faultsOf(t, nil, nil)
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0], "settings.dir: required; set WH_SETTINGS_DIR")
}

func TestSecretsFromFiles(t *testing.T) {
	dir := inDir(t)
	path := write(t, filepath.Join(dir, "key"), "from-a-file-of-the-right-length\n")
	c, _, err := Load([]string{dirSet, "WH_AUTH_OPERATOR_KEY_FILE=" + path, "WH_CH_PASSWORD_FILE=" + path}, nil)
	require.NoError(t, err)
	assert.Equal(t, "from-a-file-of-the-right-length", c.Auth.OperatorKey.Reveal())
	assert.Equal(t, "from-a-file-of-the-right-length", c.ClickHouse.Password.Reveal())

	empty := write(t, filepath.Join(dir, "empty"), "\n")
	for _, env := range [][]string{
		{"WH_AUTH_OPERATOR_KEY_FILE=" + path, "WH_AUTH_OPERATOR_KEY=given-twice-given-twice"},
		{"WH_AUTH_JWT_SECRET_FILE=/nowhere"},
		{"WH_AUTH_JWT_SECRET_FILE=" + dir},
		{"WH_AUTH_JWT_SECRET_FILE=" + empty},
	} {
		assert.Len(t, faultsOf(t, append(env, dirSet), nil), 1, env)
	}
}

func TestSecretsNeverPrint(t *testing.T) {
	inDir(t)
	const secret = "hunter2-hunter2-hunter2-hunter2-hunter2"
	c, _, err := Load([]string{dirSet, "WH_AUTH_JWT_SECRET=" + secret, "WH_CH_PASSWORD=" + secret, "WH_AUTH_OPERATOR_KEY=" + secret}, nil)
	require.NoError(t, err)
	var out strings.Builder
	fmt.Fprint(&out, c.Effective())
	marshalled, err := json.Marshal(c)
	require.NoError(t, err)
	out.Write(marshalled)
	fmt.Fprintf(&out, "%v %+v %#v %s %q", c, c, c, c.Auth.JWTSecret, c.Auth.JWTSecret)
	assert.NotContains(t, out.String(), "hunter2")
	assert.Contains(t, out.String(), spec.Mask)
	assert.Empty(t, Secret("").String())
}

func TestWeakSecretsWarn(t *testing.T) {
	inDir(t)
	_, warnings, err := Load([]string{dirSet, "WH_AUTH_JWT_SECRET=short", "WH_AUTH_OPERATOR_KEY=short"}, nil)
	require.NoError(t, err)
	assert.Len(t, warnings, 2)
}

func TestEffectiveShowsValueAndOrigin(t *testing.T) {
	inDir(t)
	c, _, err := Load([]string{dirSet, "WH_SERVER_PORT=0"}, nil)
	require.NoError(t, err)
	shown := c.Effective()
	assert.Contains(t, shown, Setting{"server.port", "0", OriginEnv})
	assert.Contains(t, shown, Setting{"cache.local.max_bytes", "64MiB", OriginDefault})
	assert.Contains(t, shown, Setting{"settings.dir", "/etc/wavehouse", OriginEnv})
	assert.Len(t, shown, len(keys()))
}

func TestMemoryHasALeast(t *testing.T) {
	for variable, fault := range map[string]string{
		"WH_LIMITS_MEMORY=64MiB":   "limits.memory: want at least 128MiB, or 0",
		"WH_LIMITS_ANSWERS=1MiB":   "limits.answers: want at least 16MiB, or 0",
		"WH_LIMITS_ANSWERS=-16MiB": "WH_LIMITS_ANSWERS",
	} {
		_, _, err := Load([]string{variable, "WH_SETTINGS_DIR=s"}, nil)
		require.ErrorContains(t, err, fault)
	}
	c, _, err := Load([]string{"WH_LIMITS_MEMORY=512MiB", "WH_SETTINGS_DIR=s"}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 512<<20, c.Limits.Memory)
}
