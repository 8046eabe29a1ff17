package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// command runs a command line and returns what it prints and its exit code.
func command(t *testing.T, env []string, args ...string) (out, talk string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot(&terminal{out: &stdout, err: &stderr, env: env}, telemetry.BuildInfo("", "", ""))
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		code = exitUsage
	case err != nil:
		code = exitFailure
	}
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), code
}

func settingsOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json": "{}", "pipes.json": "{}", "roles.json": `{"roles": ["public", "viewer", "writer"]}`,
		"policies.json": `{"default_role": "public", "tables": {"events": {
			"public": {"select": {"allow_columns": ["id"], "max_rows": 5}},
			"viewer": {"select": {"deny_columns": ["ip"], "filter": {"org": {"_eq": "{{ jwt.org }}"}}, "max_execution_time": "5s"}},
			"writer": {"insert": {"check": {"org": {"_in": ["a", "b"]}}}}}}}`,
	} {
		if _, changed := files[name]; !changed {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const eventsTest = `{"tables": {"events": {"columns": [{"name": "id", "type": "String"}, {"name": "org", "type": "UInt16"}]}}, "tests": [
	{"name": "own rows", "role": "viewer", "claims": {"org": 7}, "table": "events", "select": {"rows": [
		{"row": {"id": "1", "org": 7}, "visible": true}, {"row": {"id": "2", "org": 8}, "visible": false}]}}]}`

func TestPolicyExplain(t *testing.T) {
	dir := settingsOf(t, nil)
	out, talk, code := command(t, nil, "policy", "explain", "--dir", dir, "--role", "viewer", "--claims", `{"org": "birch"}`, "--table", "events")
	require.Zero(t, code, talk)
	for _, text := range []string{
		"role            viewer\n", "column types    assumed", "columns       id, org\n", "hidden        ip\n", "`org` = {p0:String}",
		"p0 = birch\n", "max rows      10000\n", "setting       max_execution_time = 5\n", "insert          denied: ",
	} {
		assert.Contains(t, out, text)
	}
	out, _, code = command(t, []string{"WH_SETTINGS_DIR=" + dir}, "policy", "explain", "--table", "events")
	require.Zero(t, code)
	assert.Contains(t, out, "public (the default role)")
	assert.Contains(t, out, "rows          all: there is no row filter\n")
	out, _, _ = command(t, nil, "policy", "explain", "--dir", dir, "--role", "writer", "--table", "events")
	assert.Contains(t, out, "select          denied: ")
	assert.Contains(t, out, `check         org must be "a" or "b"`)
	out, _, _ = command(t, nil, "policy", "explain", "--dir", dir, "--role", "admin", "--table", "other")
	assert.Contains(t, out, "admin (the admin role: it may do everything)")
	out, talk, code = command(t, nil, "policy", "explain", "--dir", dir, "--role", "viewer", "--table", "events")
	require.Zero(t, code)
	assert.Contains(t, out, `none: the row filter needs the claim "org"`)
	assert.Empty(t, talk)
	_, talk, code = command(t, nil, "policy", "explain", "--dir", dir, "--role", "veiwer", "--table", "events")
	require.Zero(t, code)
	assert.Contains(t, talk, `the role "veiwer" is not in roles.json`)
}

func TestPolicyExplainTakesTypesFromWhereTheyAre(t *testing.T) {
	dir := settingsOf(t, map[string]string{"broken.test.json": "{", "events.test.json": eventsTest})
	explain := func(args ...string) (answer explained) {
		out, talk, code := command(t, nil, append([]string{
			"policy", "explain", "--dir", dir, "--role", "viewer", "--table", "events", "--claims", `{"org": 7}`, "--format", "json",
		}, args...)...)
		require.Zero(t, code, talk)
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		return answer
	}
	answer := explain()
	assert.Equal(t, "those of events.test.json", answer.Types)
	assert.Contains(t, answer.Select.Rows.SQL, "{p0:UInt16}")
	answer = explain("--column", "id String", "--column", "org Nullable(Int32)")
	assert.Equal(t, "those of --column", answer.Types)
	assert.Contains(t, answer.Select.Rows.SQL, "{p0:Int32}")
	assert.Equal(t, "7", answer.Select.Rows.Parameters["p0"])
}

func TestPolicyTest(t *testing.T) {
	dir := settingsOf(t, map[string]string{"events.test.json": eventsTest})
	out, talk, code := command(t, nil, "policy", "test", "--dir", dir)
	require.Zero(t, code, talk)
	assert.Equal(t, "ok   events.test.json:2: own rows\n", out)
	assert.Equal(t, "1 passed, 0 failed\n", talk)

	failing := filepath.Join(t.TempDir(), "x.test.json")
	wrong := bytes.Replace([]byte(eventsTest), []byte(`8}, "visible": false`), []byte(`8}, "visible": true`), 1)
	require.NoError(t, os.WriteFile(failing, wrong, 0o600))
	out, talk, code = command(t, nil, "policy", "test", "--dir", dir, failing)
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "FAIL x.test.json:2: own rows\n       select.rows[1]: want it visible, but it is hidden\n", out)
	assert.Contains(t, talk, "0 passed, 1 failed\n")

	broken := filepath.Join(t.TempDir(), "y.test.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"tests": []}`), 0o600))
	out, _, code = command(t, nil, "policy", "test", "--dir", dir, "--format", "json", broken, filepath.Join(dir, "events.test.json"))
	assert.Equal(t, exitFailure, code, "a fault is a failure, though every test passes")
	var answer policyTests
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	assert.Equal(t, 1, answer.Passed)
	require.Len(t, answer.Findings, 1)
	assert.Equal(t, "y.test.json", answer.Findings[0].File)
}

func TestPolicyCommandsThatCannotBeMeant(t *testing.T) {
	dir := settingsOf(t, nil)
	bad := settingsOf(t, map[string]string{"policies.json": `{"tables": {"t": {"ghost": {"select": {}}}}}`})
	for name, c := range map[string]struct {
		args []string
		code int
		talk string
	}{
		"no table":          {[]string{"explain", "--dir", dir}, exitUsage, "--table"},
		"no directory":      {[]string{"explain", "--table", "t"}, exitUsage, "WH_SETTINGS_DIR"},
		"claims":            {[]string{"explain", "--dir", dir, "--table", "t", "--claims", "org=7"}, exitUsage, "--claims"},
		"claims, a list":    {[]string{"explain", "--dir", dir, "--table", "t", "--claims", "[]"}, exitUsage, "--claims"},
		"claims, null":      {[]string{"explain", "--dir", dir, "--table", "t", "--claims", "null"}, exitUsage, "it is null"},
		"claims, two":       {[]string{"explain", "--dir", dir, "--table", "t", "--claims", "{} {}"}, exitUsage, "more behind"},
		"format":            {[]string{"explain", "--dir", dir, "--table", "t", "--format", "yaml"}, exitUsage, "--format"},
		"format of tests":   {[]string{"test", "--dir", dir, "--format", "yaml"}, exitUsage, "--format"},
		"column":            {[]string{"explain", "--dir", dir, "--table", "t", "--column", "x"}, exitUsage, "--column"},
		"both":              {[]string{"explain", "--dir", dir, "--table", "t", "--column", "x Int8", "--against", "x:1"}, exitUsage, "exclude"},
		"an argument":       {[]string{"explain", "--dir", dir, "--table", "t", "extra"}, exitUsage, "extra"},
		"a flag":            {[]string{"test", "--dirr", dir}, exitUsage, "--dirr"},
		"another command":   {[]string{"explode"}, exitUsage, "explode"},
		"tenant":            {[]string{"explain", "--dir", dir, "--table", "t", "--tenant", "a b"}, exitUsage, "--tenant"},
		"no such tenant":    {[]string{"explain", "--dir", dir, "--table", "t", "--tenant", "birch"}, exitFailure, `no tenant "birch"; it has 0`},
		"settings in error": {[]string{"test", "--dir", bad}, exitFailure, `policies.json:1: error: tables.t.ghost`},
		"no tests":          {[]string{"test", "--dir", dir}, exitFailure, "there are no policy tests"},
		"no such file":      {[]string{"test", "--dir", dir, dir + "/none.test.json"}, exitFailure, "none.test.json"},
		"nobody to ask":     {[]string{"explain", "--dir", dir, "--table", "t", "--against", "127.0.0.1:1"}, exitFailure, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, talk, code := command(t, nil, append([]string{"policy"}, c.args...)...)
			assert.Equal(t, c.code, code, talk)
			assert.Contains(t, talk, c.talk)
			assert.Empty(t, out)
		})
	}
	out, _, code := command(t, nil, "policy")
	assert.Zero(t, code)
	assert.Contains(t, out, "explain")
}

// A directory of many tenants is tested as a whole, unless a tenant is named.
func TestPolicyTestOfEveryTenant(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"acme", "birch", "untested"} {
		folder := settingsOf(t, map[string]string{"config.json": `{"auth": {"audience": "` + id + `"}}`})
		require.NoError(t, os.Rename(folder, filepath.Join(dir, id)))
	}
	_, talk, code := command(t, nil, "policy", "test", "--dir", dir)
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, talk, "no policy tests")
	for _, id := range []string{"acme", "birch"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "rows.test.json"), []byte(eventsTest), 0o600))
	}
	out, talk, code := command(t, nil, "policy", "test", "--dir", dir)
	assert.Zero(t, code, talk)
	assert.Contains(t, talk, "2 passed, 0 failed")
	assert.Regexp(t, `(?s)acme.rows.test.json.*birch.rows.test.json`, out)
	_, talk, code = command(t, nil, "policy", "test", "--dir", dir, "--tenant", "birch")
	assert.Zero(t, code, talk)
	assert.Contains(t, talk, "1 passed, 0 failed")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "birch", "config.json"), []byte(`{"nosuch": 1}`), 0o600))
	_, talk, code = command(t, nil, "policy", "test", "--dir", dir)
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, talk, "nosuch")
}

func TestAMistypedFlagIsAnsweredWithTheRightOne(t *testing.T) {
	_, talk, code := command(t, nil, "dlq", "list", "--tabel", "x")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, talk, "unknown flag: --tabel; did you mean --table?")
	_, talk, _ = command(t, nil, "dlq", "list", "--nothing-like-it")
	assert.NotContains(t, talk, "did you mean")
}
