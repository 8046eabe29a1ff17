package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// exceptionName is how ClickHouse ends the text of an exception.
var exceptionName = regexp.MustCompile(`\(([A-Z][A-Z0-9_]+)\)$`)

// discreet serves a read whose caller may be held by rules. ClickHouse's own
// words may quote a value that it met in a hidden row or a denied column, the
// row filter, names of other columns, and how many rows there are: only who may
// see all of it is told them.
func (s *Server) discreet(h tenantHandler) tenantHandler {
	return func(w http.ResponseWriter, r *http.Request, c *request) error {
		err := h(w, r, c)
		c.tellFailure(w.Header(), err)
		return s.told(r.Context(), c, err, false)
	}
}

// told is what the caller of a read is told of its failure. frank tells it in
// ClickHouse's own words, whoever calls.
func (s *Server) told(ctx context.Context, c *request, err error, frank bool) error {
	if frank {
		return err
	}
	if err == nil {
		return nil
	}
	err = blameless(err)
	var said *clickhouse.Error
	if c.unheld() || !errors.As(err, &said) {
		return err
	}
	p := *problemOf(err)
	if p.Message != said.Message {
		return err // it is not what the caller would be told
	}
	p.Message = refusalName("query", said.Message)
	s.Logger.DebugContext(ctx, "ClickHouse refused a query", slog.String("message", said.Message))
	return &p
}

// accessDenied is ClickHouse's code for a right that its user lacks.
const accessDenied = 497

// blameless is the answer to a caller whose read our own user may not make: it is
// the operator's fault, who finds the missing grant in the log as its cause, and no
// refusal of the caller.
func blameless(err error) error {
	var said *clickhouse.Error
	if !errors.As(err, &said) || said.Code != accessDenied {
		return err
	}
	return problem(http.StatusBadGateway, "clickhouse.misconfigured", "the server's ClickHouse user lacks a grant for this; its operator finds in the log which").
		because(err).with(map[string]any{"clickhouse_code": said.Code})
}

// refusalName tells of an exception what it is called and nothing else.
func refusalName(what, message string) string {
	text := "ClickHouse refused the " + what
	if name := exceptionName.FindStringSubmatch(message); name != nil {
		text += ": " + name[1]
	}
	return text
}

// discreetly is what a caller is told of a record that became a dead letter. A
// constraint and a materialized view may quote more than the record itself.
func (c *request) discreetly(row notice.ParkedRow) notice.ParkedRow {
	if _, err := strconv.Atoi(row.Code); err == nil && !c.unheld() {
		row.Message = refusalName("record", row.Message)
	}
	return row
}

// discreetColumns answers for a column that the table lacks as for one that the
// caller may not send, unless it may send every column.
func discreetColumns(grant *policy.InsertGrant, table *schema.Table, result ingest.Result, err error) (ingest.Result, error) {
	if grant.EveryColumn() {
		return result, err
	}
	if header, ok := errors.AsType[*record.BodyError](err); ok && header.Code == record.CodeUnknownColumn {
		err = record.HeaderNotAllowed(header.Column)
	}
	for i := range result.Results {
		r := &result.Results[i]
		if r.Code != record.CodeUnknownColumn {
			continue
		}
		// What a column of tuples lacks is told to who may send it.
		if _, known := table.Record.Lookup(r.Column); !known {
			denied := record.NotAllowed(r.Column)
			r.Code, r.Message, r.Hint = denied.Code, denied.Message, ""
		}
	}
	return result, err
}

// unheld reports whether no rule holds the caller.
func (c *request) unheld() bool {
	role, _ := c.settings.Policy.Role(c.identity.Role)
	return c.identity.Operator || c.settings.Policy.IsAdmin(role)
}
