package clickhousetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Exec runs statements one after the other in the test's database, as the
// default user.
func (s *Server) Exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := s.post(sql, s.Database); err != nil {
			t.Fatalf("run %q: %v", sql, err)
		}
	}
}

// Rows runs a SELECT without a FORMAT and returns its values as ClickHouse
// prints them, row by row; NULL is "ᴺᵁᴸᴸ".
func (s *Server) Rows(t testing.TB, sql string) [][]string {
	t.Helper()
	body, err := s.post(sql+" FORMAT JSONCompactStringsEachRow", s.Database)
	if err != nil {
		t.Fatalf("run %q: %v", sql, err)
	}
	var rows [][]string
	decoder := json.NewDecoder(strings.NewReader(body))
	for decoder.More() {
		var row []string
		if err := decoder.Decode(&row); err != nil {
			t.Fatalf("read the rows of %q: %v", sql, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// Value runs a SELECT of one value.
func (s *Server) Value(t testing.TB, sql string) string {
	t.Helper()
	rows := s.Rows(t, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%q: want one value, got %v", sql, rows)
	}
	return rows[0][0]
}

// Count is how many rows a table of the test's database has.
func (s *Server) Count(t testing.TB, table string) int {
	t.Helper()
	n, err := strconv.Atoi(s.Value(t, "SELECT count() FROM "+table))
	if err != nil {
		t.Fatalf("count %s: %v", table, err)
	}
	return n
}

// Try runs one statement and returns its answer as text.
func (s *Server) Try(sql string) (string, error) { return s.post(sql, s.Database) }

func (s *Server) post(sql, database string) (string, error) {
	client := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	target := "http://" + s.HTTPAddr() + "/?database=" + url.QueryEscape(database)
	resp, err := client.Post(target, "text/plain", strings.NewReader(sql))
	if err != nil {
		return "", fmt.Errorf("%w (%s)", err, s.process.state())
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
