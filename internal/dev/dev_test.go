package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/settings"
)

func TestSettingsAreWrittenOnceAndRepointed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "settings")
	c := &clickhouse{host: loopback, http: 8123}
	require.NoError(t, writeSettings(dir, c))
	report := settings.Validate(dir)
	require.True(t, report.OK(), "%v", report.Findings)

	// An edit of the user's stays; only the ports follow ClickHouse.
	file := filepath.Join(dir, "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"query":{"default_max_rows":7},"clickhouse":{"addr":"x:1","database":"mine"}}`), 0o600))
	require.NoError(t, writeSettings(dir, &clickhouse{host: loopback, http: 18123}))
	var config struct {
		Query      map[string]int `json:"query"`
		ClickHouse struct {
			Addr     string `json:"addr"`
			HTTPPort int    `json:"http_port"`
			Database string `json:"database"`
		} `json:"clickhouse"`
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &config))
	require.Equal(t, 7, config.Query["default_max_rows"])
	require.Equal(t, "127.0.0.1", config.ClickHouse.Addr)
	require.Equal(t, 18123, config.ClickHouse.HTTPPort)
	require.Equal(t, "mine", config.ClickHouse.Database)

	before, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, writeSettings(dir, &clickhouse{host: loopback, http: 18123}))
	after, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "what is right already is not written")

	require.NoError(t, os.WriteFile(file, []byte(`{broken`), 0o600))
	require.NoError(t, writeSettings(dir, c), "the server says what is wrong with it")
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `{broken`, string(data))
}

func TestOperatorKeyIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "operator.key")
	first, err := ensureKey(file)
	require.NoError(t, err)
	require.Len(t, first, 48)
	again, err := ensureKey(file)
	require.NoError(t, err)
	require.Equal(t, first, again)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestServerConfigIsXMLWithThePorts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a&b")
	require.NoError(t, os.Mkdir(dir, 0o750))
	file, err := writeServerConfig(dir, 18123)
	require.NoError(t, err)
	var config struct {
		HTTPPort int    `xml:"http_port"`
		Host     string `xml:"listen_host"`
		Path     string `xml:"path"`
		Users    string `xml:"users_config"`
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(data, &config))
	require.Equal(t, 18123, config.HTTPPort)
	require.Equal(t, loopback, config.Host)
	require.Equal(t, dir+"/", config.Path)
	users, err := os.ReadFile(config.Users)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(users, new(struct{})))
}

func TestFreePortPrefersTheOneThatIsWanted(t *testing.T) {
	taken := unused(t)
	listener, err := net.Listen("tcp", address(taken))
	require.NoError(t, err)
	other := freePort(taken)
	require.NotEqual(t, taken, other)
	require.ErrorContains(t, checkPort(taken), strconv.Itoa(taken))
	require.NoError(t, listener.Close())
	require.Equal(t, taken, freePort(taken))
	require.NoError(t, checkPort(taken))
}

// ingestStub answers like the server's ingest route.
type ingestStub struct {
	rows    int
	answers []func(w http.ResponseWriter) // for the first requests
}

func (s *ingestStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		answer(w)
		return
	}
	n := bytes.Count(body, []byte("\n")) + 1
	s.rows += n
	fmt.Fprintf(w, `{"total":%d,"succeeded":%[1]d,"failed":0}`, n)
}

func notYet(w http.ResponseWriter) {
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"error":"the tables are not known yet","code":"schema.not_loaded"}`)
}

func newLoader(t *testing.T, stub http.Handler) (*demoLoader, string) {
	t.Helper()
	web := httptest.NewServer(stub)
	t.Cleanup(web.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.ndjson")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat(`{"a":1}`+"\n", 2500)), 0o600))
	return &demoLoader{client: web.Client(), say: newProgress(io.Discard, true), url: web.URL, mark: filepath.Join(dir, "loaded")}, file
}

func TestDemoLoaderPostsOnceAndGoesOnWhereItWas(t *testing.T) {
	stub := &ingestStub{answers: []func(http.ResponseWriter){notYet, notYet}}
	loader, file := newLoader(t, stub)
	require.NoError(t, loader.load(t.Context(), file))
	require.Equal(t, 2500, stub.rows)
	require.NoError(t, loader.load(t.Context(), file))
	require.Equal(t, 2500, stub.rows, "a second run posts nothing")

	require.NoError(t, os.WriteFile(loader.mark, []byte("1000\n"), 0o600))
	require.NoError(t, loader.load(t.Context(), file))
	require.Equal(t, 4000, stub.rows, "a load that was stopped goes on")
	require.NoError(t, os.WriteFile(loader.mark, []byte("many\n"), 0o600))
	require.Error(t, loader.load(t.Context(), file))
}

func TestDemoLoaderSaysWhatWentWrong(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"refused":  func(w http.ResponseWriter) { fmt.Fprint(w, `{"failed":3,"results":[{"error":"why not"}]}`) },
		"no JSON":  func(w http.ResponseWriter) { fmt.Fprint(w, `why not`) },
		"too much": func(w http.ResponseWriter) { w.WriteHeader(413); fmt.Fprint(w, `{"error":"why not"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			loader, file := newLoader(t, &ingestStub{answers: []func(http.ResponseWriter){answer}})
			require.ErrorContains(t, loader.load(t.Context(), file), "why not")
		})
	}
	loader, file := newLoader(t, &ingestStub{answers: []func(http.ResponseWriter){notYet}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, loader.load(ctx, file), context.Canceled)
	require.Error(t, loader.load(t.Context(), filepath.Join(t.TempDir(), "nosuch")))
}

func TestSummaryFitsAScreenAndHasThreeCommands(t *testing.T) {
	c := &clickhouse{host: loopback, http: 8123, kind: "clickhouse-dev", version: "26.7"}
	o := Options{Dir: "data/dev", Port: 8080}
	for _, table := range []string{"", "flights"} {
		text := summary(o, c, table)
		require.Equal(t, 3, strings.Count(text, "\n  curl "))
		require.LessOrEqual(t, strings.Count(text, "\n"), 24)
		require.Contains(t, text, "http://localhost:8080")
		require.Contains(t, text, "clickhouse-dev 26.7")
	}
}

func TestProgressOnATerminalAndElsewhere(t *testing.T) {
	var terminal, file bytes.Buffer
	for out, interactive := range map[*bytes.Buffer]bool{&terminal: true, &file: false} {
		p := newProgress(out, interactive)
		p.update("%d", 1)
		p.update("%d", 2)
		p.line("done")
	}
	require.Equal(t, "\r\x1b[K1\r\x1b[K2\ndone\n", terminal.String())
	require.Equal(t, "done\n", file.String())
}

func TestAClickHouseThatEndsIsReported(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()
	binary := filepath.Join(path, "clickhouse")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho cannot start >&2\nexit 3\n"), 0o700))
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	_, err := startClickHouse(t.Context(), Options{Dir: dir}, newProgress(io.Discard, false))
	require.ErrorContains(t, err, "exit status 3")
	log, readErr := os.ReadFile(filepath.Join(dir, "clickhouse.log"))
	require.NoError(t, readErr)
	require.Equal(t, "cannot start\n", string(log))
}

func TestNoClickHouseAtAll(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := startClickHouse(t.Context(), Options{Dir: t.TempDir()}, newProgress(io.Discard, false))
	require.ErrorContains(t, err, "no ClickHouse found")
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:1"} {
		_, err = startClickHouse(t.Context(), Options{Dir: t.TempDir(), ClickHouse: addr, ClickHouseHTTP: 1}, newProgress(io.Discard, false))
		require.ErrorContains(t, err, "--clickhouse")
	}
}
