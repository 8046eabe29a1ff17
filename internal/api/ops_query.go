package api

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
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
	at, err := s.Answers.begin(r.Context(), c.tenant)
	if err != nil {
		return err
	}
	defer at.end()
	ctx, reads := r.Context(), pipes.Reads(statement)
	if !reads {
		// One that may write runs to its end even when its caller leaves.
		ctx = context.WithoutCancel(ctx)
	}
	result, err := s.runStatement(ctx, c, pool, at, statement, reads)
	if err != nil {
		return err
	}
	defer result.close()
	as := rendering{frank: true}
	if result.format == rowsFormat || result.format == "" && len(result.head) == 0 {
		as.media, as.array = "application/json", true
	}
	return s.send(w, r, c, at, result, as)
}

// runStatement runs a statement as it is. One that may write is told of before the
// answer, and answers in full however little room there is.
func (s *Server) runStatement(ctx context.Context, c *request, pool *clickhouse.Pool, at *room, statement string, reads bool) (*fetched, error) {
	if !reads {
		// Whatever comes of it: a failure may come after the write.
		defer s.wrote(ctx, c, pipes.Changes(statement))
	}
	settings := opsSettings()
	limitTime(settings, pool)
	return s.ask(ctx, pool, at, clickhouse.Request{SQL: statement, Settings: settings, ReadOnly: reads})
}

// opsSettings pins the rendering to that of queries and streams.
func opsSettings() map[string]string {
	return map[string]string{
		"default_format":                            rowsFormat,
		"date_time_output_format":                   "iso",
		"output_format_json_escape_forward_slashes": "0",
		"output_format_json_quote_64bit_integers":   "0",
		"output_format_json_quote_decimals":         "0",
		"output_format_json_quote_denormals":        "0",
	}
}

func (s *Server) readStatement(w http.ResponseWriter, r *http.Request) (string, error) {
	body, release, err := s.bodies.read(w, r, operatorBodies, maxDocument)
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
