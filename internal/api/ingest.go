package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// retrySchema is when to ask again while the tables are not known.
const retrySchema = 5 * time.Second

// ingest makes the records of a body durable: POST /v1/ingest?table=.
func (s *Server) ingest(w http.ResponseWriter, r *http.Request, c *request) error {
	token := ""
	if c.settings.Config.Ingest.Beacon {
		// A beacon has no headers of its own.
		token = c.query.Get("token")
		r = withoutToken(r, c)
	}
	if err := s.identify(r, c, token); err != nil {
		return err
	}
	name, err := c.tableName()
	if err != nil {
		return err
	}
	ctx := r.Context()
	telemetry.Add(ctx, slog.String("table", name))
	grant, err := c.identity.InsertGrant(c.settings.Policy, name)
	if err != nil {
		return err
	}
	table, err := s.table(ctx, c, name, c.settings.Policy.InsertsAll)
	if err != nil {
		return err
	}
	if table, err = s.writable(ctx, c, table); err != nil {
		return err
	}
	format, err := ingestFormat(r.Header, c.settings.Config.Ingest.Beacon)
	if err != nil {
		return err
	}
	all, err := allResults(c)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	timeout, err := insertTimeout(c)
	if err != nil {
		return err
	}
	if err := s.mayIngest(c); err != nil {
		return err
	}
	body, release, err := s.bodies.read(w, r, c.tenant, maxIngestBody)
	if err != nil {
		return err
	}
	defer func() { release() }()
	if isBlank(body) {
		return problem(http.StatusBadRequest, "body.empty", "the body is empty")
	}
	if err := s.admitBody(w, c, format, body); err != nil {
		return err
	}
	s.reportRule(ctx, c, name, "check does not fit the table: it refuses every record", grant.Bind(c.identity.Claims, table.Record).Fault())
	wait, err := s.waitForInsert(mq.Topic{Tenant: c.tenant, Table: name}, timeout)
	if err != nil {
		return err
	}
	defer wait.close()
	rules := c.settings.Config.IngestFor(name)
	result, err := s.Gate.Ingest(ctx, ingest.Request{
		Tenant: c.tenant, Table: table, Grant: grant, Claims: c.identity.Claims, Format: format, Body: body,
		MissingAsZero: rules.MissingAsZero, UnknownFields: rules.Unknown(), CollectInto: rules.CollectInto,
		CutTimes: rules.Times == settings.TimesTruncate, EventData: eventData(c, r.Header), IDs: recordIDs(c, name), Key: key, Caller: callerOf(c, key),
		TraceParent: traceParent(ctx), AllResults: all, Places: wait != nil,
		Refresh: func(ctx context.Context) *schema.Table { return s.refreshed(ctx, c, table) },
	})
	result, err = discreetColumns(grant, table, result, err)
	if result.Replayed {
		w.Header().Set(replayedHeader, "true")
	}
	release() // who waits, or is slow to read, holds no body
	release = func() {}
	defer s.fit(c, &result)()
	if err != nil || wait == nil || result.Replayed {
		return answerIngest(w, result, err)
	}
	return s.answerInserted(ctx, w, c, wait, result, all)
}

// fewEntries is how many results are told where there is no memory for all.
const fewEntries = 64

// fit takes the memory of an answer's results, or cuts them. The caller gives it back
// with release.
func (s *Server) fit(c *request, result *ingest.Result) (release func()) {
	n := int64(len(result.Results)) * entryBytes
	if n <= pieceBytes {
		return func() {}
	}
	if !s.Answers.whole.Take(c.tenant, n) {
		result.Results, result.Truncated = result.Results[:fewEntries], true
		return func() {}
	}
	return func() { s.Answers.Give(c.tenant, n) }
}

// recordIDs says how the table's records are told apart, nil for not at all.
func recordIDs(c *request, table string) *ingest.IDs {
	d := c.settings.Config.DedupeFor(table)
	if !d.Enabled {
		return nil
	}
	return &ingest.IDs{Field: d.IDField, Required: d.RequireID, Retention: d.Retention, Defer: d.WhenUnavailable == settings.Defer}
}

// tableName reads ?table=.
func (c *request) tableName() (string, error) {
	name, _, err := one(c.query, "table")
	switch {
	case err != nil:
		return "", err
	case name == "":
		return "", problem(http.StatusBadRequest, "table.missing", "name a table: ?table=<table>")
	}
	return name, nil
}

func schemaNotLoaded() *Problem {
	return problem(http.StatusServiceUnavailable, "schema.not_loaded",
		"the tables of this tenant are not known yet").retryable(retrySchema)
}

// table finds the table in the tenant's catalogue, looking once more at
// ClickHouse when it is not there. The caller has a grant on a table of that
// name; all says who has one on every table, and is told of one that is not there.
func (s *Server) table(ctx context.Context, c *request, name string, all func(role string) bool) (*schema.Table, error) {
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		var err error
		if catalogue, err = s.Schemas.RefreshEarly(ctx, c.tenant); err != nil || catalogue == nil {
			return nil, schemaNotLoaded()
		}
	}
	if table, ok := catalogue.Table(name); ok {
		return table, nil
	}
	if catalogue, err := s.Schemas.RefreshEarly(ctx, c.tenant); err == nil && catalogue != nil {
		if table, ok := catalogue.Table(name); ok {
			return table, nil
		}
	}
	if err := c.identity.UnknownTable(all); err != nil {
		return nil, err
	}
	return nil, problem(http.StatusNotFound, "table.unknown", "unknown table: "+name).
		hint("create it in ClickHouse: it is found within seconds")
}

// writable returns the table when it takes INSERTs. Before one that does not is
// refused, ClickHouse is looked at once more: another may have its name by now.
func (s *Server) writable(ctx context.Context, c *request, table *schema.Table) (*schema.Table, error) {
	if table.TakesInserts() {
		return table, nil
	}
	if catalogue, err := s.Schemas.RefreshEarly(ctx, c.tenant); err == nil && catalogue != nil {
		if now, ok := catalogue.Table(table.Name); ok && now.TakesInserts() {
			return now, nil
		}
	}
	return nil, problem(http.StatusBadRequest, "table.not_writable",
		"table "+table.Name+" takes no records: its engine is "+table.Engine).
		hint("ingest into the table that its rows come from").with(map[string]any{"engine": table.Engine})
}

// refreshed returns the table as ClickHouse has it now, or nil when it is the
// one the request was read against.
func (s *Server) refreshed(ctx context.Context, c *request, known *schema.Table) *schema.Table {
	catalogue, err := s.Schemas.RefreshEarly(ctx, c.tenant)
	if err != nil || catalogue == nil {
		return nil
	}
	table, ok := catalogue.Table(known.Name)
	if !ok || table.Record == known.Record {
		return nil
	}
	return table
}

func allResults(c *request) (bool, error) {
	value, err := oneOf(c.query, "results", "all")
	return value != "", err
}

// callerOf names the caller of a request with a key: its keys are its own.
func callerOf(c *request, key string) string {
	if key == "" {
		return ""
	}
	return c.identity.Caller()
}

func traceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// answerIngest writes the counts; a failure of the whole request carries those
// of what was accepted before it.
func answerIngest(w http.ResponseWriter, result ingest.Result, err error) error {
	if err != nil {
		var whole *ingest.Error
		if !errors.As(err, &whole) || result.Single {
			return err
		}
		return problemOf(err).with(map[string]any{
			"total": result.Total, "succeeded": result.Succeeded, "failed": result.Failed,
			"duplicates": result.Duplicates, "results": resultEntries(result),
		})
	}
	if result.Single {
		return answerSingle(w, result)
	}
	return writeJSON(w, http.StatusOK, batchAnswer{
		Total: result.Total, Succeeded: result.Succeeded, Failed: result.Failed, Duplicates: result.Duplicates,
		Results: resultEntries(result), Truncated: result.Truncated,
	})
}

// batchAnswer is the answer to a body of many records.
type batchAnswer struct {
	Total      int           `json:"total"`
	Succeeded  int           `json:"succeeded"`
	Failed     int           `json:"failed"`
	Duplicates int           `json:"duplicates"`
	Results    []resultEntry `json:"results"`
	Truncated  bool          `json:"results_truncated,omitempty"`
}

func answerSingle(w http.ResponseWriter, result ingest.Result) error {
	if result.Failed > 0 && len(result.Results) > 0 {
		r := result.Results[0]
		return &record.Error{Code: r.Code, Column: r.Column, Message: r.Message, Hint: r.Hint}
	}
	if result.Duplicates > 0 {
		return writeRaw(w, []byte(`{"duplicate":true}`+"\n"))
	}
	return writeRaw(w, []byte(`{"ok":true}`+"\n"))
}

// resultEntry is one record's verdict in an answer.
type resultEntry struct {
	Index     int    `json:"index"`
	OK        bool   `json:"ok,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Error     string `json:"error,omitempty"`
	Code      string `json:"code,omitempty"`
	Column    string `json:"column,omitempty"`
	Hint      string `json:"hint,omitempty"`
}

func resultEntries(result ingest.Result) []resultEntry {
	entries := make([]resultEntry, 0, len(result.Results))
	for _, r := range result.Results {
		entries = append(entries, resultEntry{
			Index: r.Index, OK: r.OK, Duplicate: r.Duplicate, Error: r.Message, Code: r.Code, Column: r.Column, Hint: r.Hint,
		})
	}
	return entries
}
