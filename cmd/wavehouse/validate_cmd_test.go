package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// nestedSettings is a directory with a folder for each tenant; files change what
// settingsOf writes.
func nestedSettings(t *testing.T, tenants map[string]map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for id, files := range tenants {
		require.NoError(t, os.Rename(settingsOf(t, files), filepath.Join(dir, id)))
	}
	return dir
}

func TestValidateManyTenants(t *testing.T) {
	dir := nestedSettings(t, map[string]map[string]string{
		"acme":  {"policies.json": `{"tables": {"events": {"nobody": {"select": {}}}}}`},
		"birch": {"own.test.json": eventsTest},
	})
	out, _, code := command(t, nil, "validate", dir)
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "acme/policies.json:1: error: tables.events.nobody: role \"nobody\" is not in roles.json\n", out)

	out, talk, code := command(t, nil, "validate", "--tenant", "birch", "--show", "--format", "json", dir)
	require.Zero(t, code, talk)
	var report struct {
		Valid    bool
		Shape    string
		Settings map[string]struct {
			Query struct {
				Rows int `json:"default_max_rows"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.True(t, report.Valid)
	assert.Equal(t, "nested", report.Shape)
	assert.Len(t, report.Settings, 1)
	assert.Equal(t, 10_000, report.Settings["birch"].Query.Rows)

	for _, c := range []struct {
		id   string
		code int
	}{{"acme", exitFailure}, {"elm", exitFailure}, {"..", exitUsage}, {"", exitUsage}} {
		_, _, code = command(t, nil, "validate", "--tenant", c.id, dir)
		assert.Equal(t, c.code, code, c.id)
	}

	out, talk, code = command(t, nil, "policy", "test", "--dir", dir, "--tenant", "birch")
	assert.Zero(t, code, talk)
	assert.Contains(t, out, "own rows")
	out, talk, code = command(t, nil, "policy", "test", "--dir", dir)
	assert.Zero(t, code, talk)
	assert.Contains(t, out, "own rows", "those of every tenant")
}

func TestBootstrapOneTenant(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	for _, id := range []string{"acme", "birch"} {
		_, talk, code := command(t, nil, "bootstrap", "--tenant", id, dir)
		require.Zero(t, code, talk)
	}
	_, talk, code := command(t, nil, "validate", dir)
	assert.Zero(t, code, talk)
	_, _, code = command(t, nil, "bootstrap", "--tenant", "acme", dir)
	assert.Equal(t, exitFailure, code, "never over anything")
	_, _, code = command(t, nil, "bootstrap", "--tenant", "../acme", dir)
	assert.Equal(t, exitUsage, code)
	_, talk, code = command(t, nil, "bootstrap", "--tenant", "acme", settingsOf(t, nil))
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, talk, "flat or nested, never both")
}

// TestValidateAgainst looks at each tenant's own database as its own user, with
// its own password.
func TestValidateAgainst(t *testing.T) {
	ch := clickhousetest.Start(t)
	ch.Exec(t, "CREATE TABLE events (id String, org String, ip String) ENGINE = MergeTree ORDER BY id")
	tenant := func(database, user, more string) map[string]string {
		return map[string]string{"config.json": fmt.Sprintf(`{"auth": {"tenant_claim": "tenant"}, "clickhouse": {"database": %q, "username": %q%s}}`, database, user, more)}
	}
	empty := ch.Database + "_empty"
	ch.Exec(t, "CREATE DATABASE "+empty)
	t.Cleanup(func() { ch.Exec(t, "DROP DATABASE "+empty) })
	dir := nestedSettings(t, map[string]map[string]string{
		"acme":  tenant(ch.Database, clickhousetest.SecuredUser, ""),
		"birch": tenant(empty, "default", ""),
		"cedar": tenant(ch.Database, "default", `, "tls": {"enabled": true, "ca_file": "/nowhere/at/all.pem"}, "http_scheme": "https"`),
	})
	passwords := filepath.Join(t.TempDir(), "passwords.json")
	require.NoError(t, os.WriteFile(passwords, []byte(fmt.Sprintf(`{"acme": %q}`, clickhousetest.SecuredPassword)), 0o600))
	env := []string{"WH_CH_PASSWORDS_FILE=" + passwords}

	out, talk, code := command(t, env, "validate", "--against", ch.HTTPAddr(), dir)
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "birch/policies.json: error: tables.events: there is no table \"events\"\n", out)
	assert.Contains(t, talk, "tenant cedar: ", "one that cannot be looked at hides no other's findings")
	assert.NotContains(t, talk, "tenant acme")

	out, talk, code = command(t, env, "validate", "--against", ch.HTTPAddr(), "--tenant", "acme", dir)
	assert.Zero(t, code, talk)
	assert.Empty(t, out)

	_, talk, code = command(t, []string{"WH_CH_PASSWORDS_FILE=/nowhere/at/all"}, "validate", "--against", ch.HTTPAddr(), dir)
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, talk, "clickhouse.passwords_file")
}

// A column that a role may not read is readable in what is made from it, which
// only ClickHouse's own definitions tell.
func TestValidateAgainstWarnsOfWhatIsMadeFromDeniedColumns(t *testing.T) {
	ch := clickhousetest.Start(t)
	ch.Exec(t,
		"CREATE TABLE events (id String, org String, ip String, short String ALIAS substring(ip, 1, 3), net String MATERIALIZED upper(`short`), day String DEFAULT concat('ip', id)) ENGINE = MergeTree ORDER BY id",
		"CREATE VIEW visits AS SELECT id, org, lower(ip) AS seen FROM events",
		"CREATE VIEW everyone AS SELECT * FROM visits",
		"CREATE MATERIALIZED VIEW counted ENGINE = MergeTree ORDER BY org AS SELECT org, count() AS n FROM events GROUP BY org")
	dir := settingsOf(t, map[string]string{
		"config.json": fmt.Sprintf(`{"clickhouse": {"database": %q}}`, ch.Database),
		"roles.json":  `{"roles": ["viewer", "analyst"]}`,
		"policies.json": `{"tables": {
			"events": {"viewer": {"select": {"deny_columns": ["ip"]}}, "analyst": {"select": {"filter": {"org": {"_eq": "{{ jwt.org }}"}}}}},
			"visits": {"viewer": {"select": {}}, "analyst": {"select": {"filter": {"org": {"_eq": "{{ jwt.org }}"}}}}},
			"everyone": {"viewer": {"select": {}}},
			"counted": {"viewer": {"select": {}}, "analyst": {"select": {}}}}}`,
	})
	out, talk, code := command(t, nil, "validate", "--against", ch.HTTPAddr(), dir)
	assert.Zero(t, code, talk)
	assert.Equal(t, []string{
		`policies.json: warning: tables.counted.analyst.select: the view "counted" reads "events" without the role's row filter there`,
		`policies.json: warning: tables.events.viewer.select: the role may not read the column "ip" of "events", and reads the column "short", which is made from it`,
		`policies.json: warning: tables.events.viewer.select: the role may not read the column "ip" of "events", and reads the column "net", which is made from it`,
		`policies.json: warning: tables.everyone.viewer.select: the role may not read the column "ip" of "events", and reads the view "everyone", which is made from it`,
		`policies.json: warning: tables.visits.viewer.select: the role may not read the column "ip" of "events", and reads the view "visits", which is made from it`,
	}, strings.Split(strings.TrimSpace(out), "\n"))
}

// Every command that asks a ClickHouse has the password that the server would have.
func TestPasswordsOfAClickHouseThatIsAsked(t *testing.T) {
	ch := clickhousetest.Start(t)
	ch.Exec(t, "CREATE TABLE events (id String, org String, ip String) ENGINE = MergeTree ORDER BY id")
	dir := nestedSettings(t, map[string]map[string]string{"acme": {"config.json": fmt.Sprintf(
		`{"auth": {"tenant_claim": "tenant"}, "clickhouse": {"database": %q, "username": %q}}`, ch.Database, clickhousetest.SecuredUser)}})
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for _, variable := range []string{
		"WH_CH_PASSWORD=" + clickhousetest.SecuredPassword, "WH_CH_PASSWORD_FILE=" + file(clickhousetest.SecuredPassword+"\n"),
		"WH_CH_PASSWORDS_FILE=" + file(fmt.Sprintf(`{"acme": %q}`, clickhousetest.SecuredPassword)),
	} {
		for _, args := range [][]string{
			{"validate", dir}, {"policy", "explain", "--dir", dir, "--table", "events"}, {"codegen", "ts", "--dir", dir, "--role", "public"},
		} {
			args = append(args, "--tenant", "acme", "--against", ch.HTTPAddr())
			_, talk, code := command(t, nil, args...)
			assert.NotZero(t, code, "%v without a password: %s", args, talk)
			out, talk, code := command(t, []string{variable}, args...)
			assert.Zero(t, code, "%v with %s: %s %s", args, variable, out, talk)
		}
	}
}
