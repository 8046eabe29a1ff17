package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// rowsFormat is how a statement without a FORMAT of its own is rendered: one
// JSON object a line. It is a spelling no statement is likely to use, so that
// the answer's format header tells the two apart.
const rowsFormat = "JSONLines"

// opsQuery runs a statement as it is: POST /v1/ops/query.
func (s *Server) opsQuery(w http.ResponseWriter, r *http.Request, values url.Values) error {
	c, err := s.servedTenant(values)
	if err != nil {
		return err
	}
	statement, err := s.readStatement(w, r)
	if err != nil {
		return err
	}
	pool, err := s.Pools.Get(c.tenant)
	if err != nil {
		return err
	}
	response, err := pool.Query(r.Context(), clickhouse.Request{
		SQL: statement, Settings: opsSettings(), MaxResponseBytes: maxResult,
	})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	result, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	if !readsOnly(statement) {
		// What was just created or altered is known before the answer, so that
		// the next insert finds it.
		if err := s.Schemas.Refresh(r.Context(), c.tenant); err != nil {
			s.Logger.WarnContext(r.Context(), "cannot refresh the schema after a statement", "tenant", c.tenant, "error", err)
		}
	}
	if response.Format == rowsFormat || response.Format == "" && len(result) == 0 {
		return writeRaw(w, arrayOfLines(result))
	}
	w.Header().Set("Content-Type", response.ContentType)
	_, _ = w.Write(result)
	return nil
}

// opsSettings pins the rendering to that of queries and streams.
func opsSettings() map[string]string {
	return map[string]string{
		"default_format":                               rowsFormat,
		"date_time_output_format":                      "iso",
		"output_format_json_escape_forward_slashes":    "0",
		"output_format_json_quote_64bit_integers":      "0",
		"output_format_json_quote_decimals":            "0",
		"output_format_json_quote_denormals":           "0",
		"cancel_http_readonly_queries_on_client_close": "1",
	}
}

func (s *Server) readStatement(w http.ResponseWriter, r *http.Request) (string, error) {
	body, release, err := s.bodies.read(w, r, maxDocument)
	if err != nil {
		return "", err
	}
	defer release()
	if isBlank(body) {
		return "", problem(http.StatusBadRequest, "body.empty", "the body is empty")
	}
	var document struct {
		SQL string `json:"sql"`
	}
	if faults := strictjson.Decode(body, &document); len(faults) > 0 {
		return "", problem(http.StatusBadRequest, "query.invalid", faults[0].Path+": "+faults[0].Message)
	}
	if strings.TrimSpace(document.SQL) == "" {
		return "", problem(http.StatusBadRequest, "query.invalid", "sql is empty")
	}
	return document.SQL, nil
}

// arrayOfLines makes one JSON array of rows that stand on a line each.
func arrayOfLines(lines []byte) []byte {
	lines = bytes.TrimRight(lines, "\n")
	array := make([]byte, 0, len(lines)+3)
	array = append(array, '[')
	array = append(array, bytes.ReplaceAll(lines, []byte("\n"), []byte(",\n"))...)
	return append(array, ']', '\n')
}

// readsOnly reports whether the statement is led by a verb that changes
// nothing. What it does not recognise may write.
func readsOnly(statement string) bool {
	rest := skipComments(statement)
	for strings.HasPrefix(rest, "(") {
		rest = skipComments(rest[1:])
	}
	word, _, _ := strings.Cut(strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r == '(' || r == ';' {
			return ' '
		}
		return r
	}, rest), " ")
	switch strings.ToUpper(word) {
	case "SELECT", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK":
		return true
	}
	return false
}

func skipComments(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n;")
		switch {
		case strings.HasPrefix(sql, "--"), strings.HasPrefix(sql, "#"):
			_, rest, found := strings.Cut(sql, "\n")
			if !found {
				return ""
			}
			sql = rest
		case strings.HasPrefix(sql, "/*"):
			_, rest, found := strings.Cut(sql, "*/")
			if !found {
				return ""
			}
			sql = rest
		default:
			return sql
		}
	}
}
