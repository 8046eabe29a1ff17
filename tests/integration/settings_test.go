package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

func denying(column string) string {
	return `{"default_role":"public","tables":{"*":{"public":{"select":{"deny_columns":["` + column + `"]},"insert":{}}}}}`
}

// shows reports whether the query and the stream's next row show the secret.
func (s *server) shows(column string) bool {
	s.t.Helper()
	return s.query("pages", `{"columns":["`+column+`"]}`).status == http.StatusOK
}

// A file that is edited is adopted by itself: by the next request, and by the
// next row of a stream that is open.
func TestEditedFileTakesEffect(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	l := s.listen("pages", "")
	s.accept("pages", `{"event_id":"1","page":"/","secret":"a"}`)
	assert.JSONEq(t, `{"event_id":"1","page":"/","secret":"a"}`, string(l.rows(1)[0]))
	s.writeFile("policies.json", denying("secret"))
	s.eventually(func() string { return unless(!s.shows("secret"), "the edit is not adopted") })
	s.accept("pages", `{"event_id":"2","page":"/","secret":"b"}`)
	assert.JSONEq(t, `{"event_id":"2","page":"/"}`, string(l.rows(1)[0]))
	// Access that is taken away ends the stream.
	s.writeFile("policies.json", `{"default_role":"public","tables":{"pages":{"public":{"insert":{}}}}}`)
	s.eventually(func() string { return unless(!s.shows("page"), "the edit is not adopted") })
	s.accept("pages", `{"event_id":"3","page":"/"}`)
	assert.Equal(t, "access_revoked", l.event().EndReason())
	s.stored("pages", 3)
}

// A folder as Kubernetes mounts a ConfigMap.
func TestSwapOfTheDataLink(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	dir := t.TempDir()
	revision := func(name, policies string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		for _, file := range []string{"config.json", "pipes.json", "roles.json", "policies.json"} {
			text, err := os.ReadFile(filepath.Join(s.settingsDir, file))
			require.NoError(t, err)
			if file == "policies.json" {
				text = []byte(policies)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, file), text, 0o600))
		}
	}
	revision("..2026_0", openPolicy)
	require.NoError(t, os.Symlink("..2026_0", filepath.Join(dir, "..data")))
	for _, file := range []string{"config.json", "pipes.json", "roles.json", "policies.json"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)))
	}
	s.stop()
	s.settingsDir = dir
	s.run()
	require.True(t, s.shows("secret"))
	for i, hidden := range []string{"secret", "org", "page"} {
		next, old := fmt.Sprintf("..2026_%d", i+1), fmt.Sprintf("..2026_%d", i)
		revision(next, denying(hidden))
		require.NoError(t, os.Symlink(next, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
		s.eventually(func() string { return unless(!s.shows(hidden), "swap "+next+" is not adopted") })
		assert.True(t, s.shows("event_id"))
	}
	assert.True(t, s.shows("secret"), "the first swap no longer holds")
	assert.Empty(t, s.logs.lines(`"level":"ERROR"`))
}

func TestBadEditKeepsTheGoodSettings(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: denying("secret")}, pagesTable)
	edits := []struct{ name, file, content string }{
		{"trailing comma", "policies.json", `{"default_role":"public",}`},
		{"unknown key", "policies.json", `{"default_role":"public","tabels":{}}`},
		{"repeated key", "policies.json", `{"default_role":"public","default_role":"viewer"}`},
		{"byte order mark", "roles.json", "\xEF\xBB\xBF" + `{"roles":["public","viewer","writer","analyst"]}`},
		{"null", "policies.json", "null"},
		{"empty file", "pipes.json", ""},
		{"file missing", "pipes.json", "-"},
		{"undeclared role", "policies.json", `{"tables":{"pages":{"stranger":{"select":{}}}}}`},
		{"trailing data", "policies.json", openPolicy + openPolicy},
		{"wrong kind", "config.json", `{"clickhouse":[]}`},
		{"out of bounds", "config.json", `{"mq":{"max_bytes_gb":-1}}`},
		{"further file", "extra.json", `{}`},
	}
	for i, edit := range edits {
		path := filepath.Join(s.settingsDir, edit.file)
		before, _ := os.ReadFile(path)
		if edit.content == "-" {
			require.NoError(t, os.Remove(path))
		} else {
			s.writeFile(edit.file, edit.content)
		}
		a := s.reload()
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", edit.name, a.body)
		answer := decode[reloadAnswer](t, a)
		assert.False(t, answer.Adopted)
		require.NotEmpty(t, answer.Findings, edit.name)
		assert.Equal(t, edit.file, answer.Findings[0].File, edit.name)
		assert.NotEmpty(t, answer.Findings[0].Message)
		assert.True(t, s.shows("page"), "%s: queries keep working", edit.name)
		assert.False(t, s.shows("secret"), "%s: under the old policy", edit.name)
		if i == len(edits)-1 {
			break
		}
		if before == nil {
			require.NoError(t, os.Remove(path))
		} else {
			s.writeFile(edit.file, string(before))
		}
	}
	s.stop()
	s.refusesToStart(edits[len(edits)-1].file)
	require.NoError(t, os.Remove(filepath.Join(s.settingsDir, "extra.json")))
	s.run()
	assert.False(t, s.shows("secret"))
}

// refusesToStart expects findings about a file.
func (s *server) refusesToStart(file string) {
	s.t.Helper()
	cfg, _, err := config.Load([]string{"WH_SETTINGS_DIR=" + s.settingsDir, "WH_DATA_DIR=" + s.dataDir, "WH_CONFIG=" + filepath.Join(s.dataDir, "none.yaml")}, nil)
	require.NoError(s.t, err)
	logger, err := telemetry.NewLogger(s.logs, telemetry.LogOptions{})
	require.NoError(s.t, err)
	_, err = app.New(context.Background(), app.Options{Config: cfg, Logger: logger})
	var refused *settings.FindingsError
	require.ErrorAs(s.t, err, &refused)
	assert.Contains(s.t, refused.Error(), file)
}

// The reload answers once what it adopted holds.
func TestReloadIsDoneWhenItAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	for i := range 10 {
		column := []string{"secret", "org"}[i%2]
		s.writeFile("policies.json", denying(column))
		a := s.reload()
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.JSONEq(t, `{"adopted":true,"findings":[],"changed":["0"],"refused":[],"removed":[]}`, a.body)
		require.False(t, s.shows(column))
	}
	for _, query := range []string{"?tenant=", "?tenant=a%2Fb", "?tenant=0&tenant=0"} {
		assert.Equal(t, http.StatusBadRequest, s.ops(http.MethodPost, "/v1/ops/settings/reload"+query, "").status, query)
	}
	assert.Equal(t, http.StatusNotFound, s.ops(http.MethodPost, "/v1/ops/settings/reload?tenant=other", "").status)
	assert.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/settings/reload?tenant=0", "").status)
	assert.Equal(t, http.StatusForbidden, s.do(http.MethodPost, "/v1/ops/settings/reload", "").status)
}

// A tenant whose database moves is written there from the reload on.
func TestReloadRepointsClickHouse(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.accept("pages", lines("before", 1))
	s.stored("pages", 1)
	other := s.ch.Database + "_next"
	s.ch.Exec(t, "CREATE DATABASE "+other+" ENGINE = Atomic")
	t.Cleanup(func() { _, _ = s.ch.Try("DROP DATABASE " + other + " SYNC") })
	s.ch.Exec(t, "CREATE TABLE "+other+".pages (event_id String, page String, brand_new UInt8) ENGINE = MergeTree ORDER BY event_id")
	old := s.ch.Database
	s.ch.Database = other
	s.writeSettings()
	require.Equal(t, http.StatusOK, s.reload().status)
	s.eventually(func() string {
		a := s.ingest("pages", `{"event_id":"after","page":"/","brand_new":1}`)
		return unless(a.status == http.StatusOK, a.body)
	})
	s.stored("pages", 1)
	s.ch.Database = old
	s.stored("pages", 1)
}

func TestTenantHeader(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	send := func(headers ...string) answer { return s.query("pages", `{"columns":["page"]}`, headers...) }
	for _, headers := range [][]string{nil, {"X-Tenant-ID", ""}, {"X-Tenant-ID", "0"}} {
		a := send(headers...)
		assert.Equal(t, http.StatusOK, a.status)
		assert.Contains(t, a.header.Values("Vary"), "X-Tenant-Id")
	}
	for _, id := range []string{"birch", "00", "9007199254740993"} {
		p := refused(t, send("X-Tenant-ID", id), http.StatusNotFound, "tenant.unknown")
		assert.Equal(t, "unknown tenant: "+id, p.Error)
	}
	for _, id := range []string{"../birch", "birch%2f", ".", fmt.Sprintf("%065d", 1), "a b"} {
		refused(t, send("X-Tenant-ID", id), http.StatusBadRequest, "tenant.invalid")
	}
	refused(t, send("X-Tenant-ID", "0", "X-Tenant-ID", "0"), http.StatusBadRequest, "tenant.invalid")
}
