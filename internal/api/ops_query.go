package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// rowsFormat is how a statement without a FORMAT of its own is rendered in JSON:
// one object a line. It is a spelling no statement is likely to use, so that
// the answer's format header tells the two apart.
const rowsFormat = "JSONLines"

func defaultFormat(f query.Format) string {
	if f == query.FormatJSON || f == query.FormatNDJSON {
		return rowsFormat
	}
	return f.Name()
}

// opsQuery runs a statement as it is: POST /v1/ops/query.
func (s *Server) opsQuery(w http.ResponseWriter, r *http.Request, values url.Values) error {
	addVary(w.Header(), "Accept")
	c, err := s.servedTenant(values)
	if err != nil {
		return err
	}
	statement, err := s.readStatement(w, r)
	if err != nil {
		return err
	}
	telemetry.Add(r.Context(), slog.String("statement", excerpt.Cut(pipes.Outline(statement.SQL), maxOutline)), slog.Bool("write", statement.Write))
	reads := pipes.Reads(statement.SQL)
	if !reads && !statement.Write {
		return problem(http.StatusBadRequest, "query.may_write", "the statement may write: "+excerpt.Quoted(pipes.Verb(statement.SQL))+" is no verb that only reads").
			hint(`send "write": true beside "sql" when that is meant`)
	}
	as, err := s.statementAccepted(r.Header, statement.SQL)
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
	ctx := r.Context()
	if !reads {
		// One that may write runs to its end even when its caller leaves.
		ctx = context.WithoutCancel(ctx)
	}
	result, err := s.runStatement(ctx, c, pool, at, statement, reads, as)
	if err != nil {
		return err
	}
	defer result.close()
	audience{all: true}.tell(w.Header(), result.cost, cache.Dependencies{}, time.Time{})
	sent := rendering{frank: true}
	if result.format == defaultFormat(as.format) || result.format == "" && len(result.head) == 0 {
		sent.rows, sent.array = as, as.format == query.FormatJSON
	}
	return s.send(w, r, c, at, result, sent)
}

// statementAccepted is rowsAccepted for a statement, whose own FORMAT wins.
func (s *Server) statementAccepted(header http.Header, sql string) (rendered, error) {
	as, err := rowsAccepted(header)
	if err != nil && pipes.NamesFormat(sql) {
		return renderings[0], nil
	}
	return as, err
}

// runStatement runs a statement as it is. One that may write is told of before the
// answer, and answers in full however little room there is.
func (s *Server) runStatement(ctx context.Context, c *request, pool *clickhouse.Pool, at *room, statement opsStatement, reads bool, as rendered) (*fetched, error) {
	if !reads {
		// Whatever comes of it: a failure may come after the write.
		defer s.wrote(ctx, c, pipes.Changes(statement.SQL))
	}
	settings := query.RenderSettings(as.format)
	settings["default_format"] = defaultFormat(as.format)
	limitTime(settings, pool)
	request := clickhouse.Request{SQL: statement.SQL, Params: statement.params(), Settings: settings, ReadOnly: !statement.Write}
	if reads {
		var err error
		if request, err = s.portable(ctx, pool, at, request, as.format); err != nil {
			return nil, err
		}
	}
	return s.ask(ctx, pool, at, request)
}

// maxOutline bounds what the log shows of a statement, in bytes.
const maxOutline = 1000

// opsStatement is what an operator sends.
type opsStatement struct {
	SQL string `json:"sql"`
	// Params are the values of {name:Type} in SQL: texts as ClickHouse reads them.
	Params map[string]string `json:"params"`
	// Write says that the statement may write. Else ClickHouse is told not to.
	Write bool `json:"write"`
}

// literalParam finds the parameters whose values are literals of ClickHouse's, which
// brings escapes of its own.
var literalParam = regexp.MustCompile(`\{\s*(\w+)\s*:\s*(?:Array|Map|Tuple|Nested)\b`)

func (o *opsStatement) params() map[string]string {
	ready := make(map[string]string, len(o.Params))
	for name, value := range o.Params {
		ready[name] = clickhouse.EscapeParam(value)
	}
	for _, found := range literalParam.FindAllStringSubmatch(o.SQL, -1) {
		if value, ok := o.Params[found[1]]; ok {
			ready[found[1]] = value
		}
	}
	return ready
}

func (s *Server) readStatement(w http.ResponseWriter, r *http.Request) (document opsStatement, err error) {
	if err := s.readOperator(w, r, &document, "query.invalid"); err != nil {
		return document, err
	}
	if strings.TrimSpace(document.SQL) == "" {
		return document, problem(http.StatusBadRequest, "query.invalid", "sql is empty")
	}
	return document, nil
}

// arrayOfLines makes one JSON array of rows that stand on a line each.
func arrayOfLines(lines []byte) []byte {
	lines = bytes.TrimRight(lines, "\n")
	array := make([]byte, 0, len(lines)+3)
	array = append(array, '[')
	array = append(array, bytes.ReplaceAll(lines, []byte("\n"), []byte(",\n"))...)
	return append(array, ']', '\n')
}
