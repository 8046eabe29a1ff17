package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Headers that say what an answer cost and how fresh it is.
const (
	headerTiming  = "Server-Timing"
	headerRows    = "X-Rows-Read"
	headerBytes   = "X-Bytes-Read"
	headerQueryID = "X-Query-Id"
	headerThrough = "X-Data-Through"
)

const (
	// noteComplete stands beside an answer in the cache all of whose tables are
	// known.
	noteComplete = "tables"
	// throughLayout is RFC 3339 in milliseconds.
	throughLayout = "2006-01-02T15:04:05.000Z07:00"
)

// cost is what an answer took to make.
type cost struct {
	// waited is for a connection, asked until ClickHouse began to answer, and sent
	// until an answer that is held whole was there.
	waited, asked, sent time.Duration
	read                clickhouse.Summary
	queryID             string
}

// tables are those that an answer depends on, asked for once.
type tables struct {
	ask   func(ctx context.Context) cache.Dependencies
	known *cache.Dependencies
}

func (t *tables) get(ctx context.Context) cache.Dependencies {
	if t.known == nil {
		found := t.ask(ctx)
		t.known = &found
	}
	return *t.known
}

// audience decides what of an answer's cost its caller is told. What is counted
// includes rows that it may not see.
type audience struct {
	rules *policy.Policy
	role  string
	here  here
	// all says that the caller may know whatever was read, own that it may know of
	// the one table that is, and none that it may know nothing, whatever was read.
	all, own, none bool
}

// audience is that of an answer of which nothing is known yet.
func (s *Server) audience(c *request) audience {
	rules := c.settings.Policy
	return audience{
		rules: rules, role: c.identity.Role, here: s.here(c),
		all: c.identity.Operator || rules.ShowsCost(c.identity.Role),
	}
}

// audienceOf is that of an answer from one table.
func (s *Server) audienceOf(c *request, table *schema.Table, grant *policy.SelectGrant) audience {
	a := s.audience(c)
	a.own = grant.ShowsCost() && holdsRows(table.Engine)
	a.none = !a.all && !grant.ShowsCost()
	return a
}

// holdsRows reports whether reading a table of the engine reads no other table.
func holdsRows(engine string) bool {
	switch engine {
	case "Memory", "Log", "TinyLog", "StripeLog", "Set", "Join", "EmbeddedRocksDB":
		return true
	}
	return strings.HasSuffix(engine, "MergeTree")
}

// sees reports whether the tables are all there are, and the caller may know what is
// counted of each.
func (a audience) sees(d cache.Dependencies) bool {
	if a.all || a.none {
		return a.all
	}
	names, all := a.here.tables(d)
	for _, table := range names {
		if grant, err := a.rules.Select(a.role, table); err != nil || !grant.ShowsCost() {
			return false
		}
	}
	return all
}

// here is the database of a tenant.
type here struct {
	database string
	tenant   tenant.ID
	schemas  Schemas
}

func (s *Server) here(c *request) here {
	return here{c.settings.Config.ClickHouse.Database, c.tenant, s.Schemas}
}

func (h here) known(table string) bool {
	catalogue, loaded := h.schemas.Catalogue(h.tenant)
	if !loaded {
		return true
	}
	_, known := catalogue.Table(table)
	return known
}

// tables are the names of those that an answer depends on, when all of them are known
// and of this database. A name with a dot stands there in both of its readings.
func (h here) tables(d cache.Dependencies) (names []string, all bool) {
	for _, name := range d.Tables {
		table, ours := strings.CutPrefix(name, h.database+".")
		if !ours {
			return nil, false
		}
		if slices.Contains(d.Tables, table) && !h.known(table) {
			continue
		}
		names = append(names, table)
	}
	return names, d.Complete
}

// tell sets the headers of an answer that was asked of ClickHouse.
func (a audience) tell(header http.Header, made cost, d cache.Dependencies, through time.Time) {
	sees := a.sees(d)
	if !sees && !a.own {
		return
	}
	timing := fmt.Sprintf("queue;dur=%s, clickhouse;dur=%s", milliseconds(made.waited), milliseconds(made.asked))
	if made.sent > 0 {
		timing += ", send;dur=" + milliseconds(made.sent)
	}
	header.Set(headerTiming, timing)
	header.Set(headerRows, strconv.FormatUint(made.read.ReadRows, 10))
	header.Set(headerBytes, strconv.FormatUint(made.read.ReadBytes, 10))
	set(header, headerQueryID, made.queryID)
	if sees && !through.IsZero() {
		header.Set(headerThrough, through.UTC().Format(throughLayout))
	}
}

// tellKept sets the headers of an answer that was there, or that was asked for
// somebody else: it read nothing.
func (a audience) tellKept(header http.Header, value *cache.Value, outcome cache.Outcome) {
	sees := a.sees(cache.Dependencies{Tables: value.Tables, Complete: value.Note(noteComplete) != ""})
	if !sees && !a.own {
		return
	}
	header.Set(headerTiming, "cache;desc="+strings.ToUpper(outcome.String()))
	header.Set(headerRows, "0")
	header.Set(headerBytes, "0")
	set(header, headerQueryID, value.Note(headerQueryID))
	if sees {
		set(header, headerThrough, value.Note(headerThrough))
	}
}

func set(header http.Header, name, value string) {
	if value != "" {
		header.Set(name, value)
	}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
}

// notes are what an answer that is kept says of itself.
func (made cost) notes(d cache.Dependencies, through time.Time) (notes []cache.Note) {
	if made.queryID != "" {
		notes = append(notes, cache.Note{Name: headerQueryID, Value: made.queryID})
	}
	if d.Complete {
		notes = append(notes, cache.Note{Name: noteComplete, Value: "complete"})
	}
	if !through.IsZero() {
		notes = append(notes, cache.Note{Name: headerThrough, Value: through.UTC().Format(throughLayout)})
	}
	return notes
}

// through is the time up to which rows of all of the tables are inserted; zero when
// that is not known for certain. It is asked before the tables are read.
func (s *Server) through(ctx context.Context, id tenant.ID, h here, d cache.Dependencies) (least time.Time) {
	names, all := h.tables(d)
	if s.Frontiers == nil || !all {
		return least
	}
	for _, table := range names {
		at := s.Frontiers.Through(ctx, mq.Topic{Tenant: id, Table: table})
		if at.IsZero() {
			return at
		}
		if least.IsZero() || at.Before(least) {
			least = at
		}
	}
	return least
}

// tellFailure names the statement that failed to who may know it.
func (c *request) tellFailure(header http.Header, err error) {
	if said, ok := errors.AsType[*clickhouse.Error](err); ok && c.unheld() {
		set(header, headerQueryID, said.QueryID)
	}
}

// reading counts what the queries and pipes of tenants read.
type reading struct{ rows, bytes *prometheus.CounterVec }

func newReading(registerer prometheus.Registerer) *reading {
	auto := promauto.With(registerer)
	return &reading{
		rows: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_query_read_rows_total", Help: "Rows that queries and pipes read in ClickHouse, by tenant.",
		}, []string{"tenant"}),
		bytes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_query_read_bytes_total", Help: "Bytes that queries and pipes read in ClickHouse, by tenant.",
		}, []string{"tenant"}),
	}
}

// spent counts what a statement of the tenant read, as far as ClickHouse says it.
func (s *Server) spent(id tenant.ID, read clickhouse.Summary) {
	if read.ReadRows == 0 && read.ReadBytes == 0 {
		return
	}
	s.reading.rows.WithLabelValues(id.String()).Add(float64(read.ReadRows))
	s.reading.bytes.WithLabelValues(id.String()).Add(float64(read.ReadBytes))
	if s.Limits != nil {
		s.Limits.Read(id, int64(min(read.ReadBytes, 1<<62)))
	}
}

// spentOn is spent of a statement that failed.
func (s *Server) spentOn(id tenant.ID, err error) {
	if said, ok := errors.AsType[*clickhouse.Error](err); ok {
		s.spent(id, said.Summary)
	}
}

// Forget forgets what was counted of a tenant that is gone.
func (s *Server) Forget(id tenant.ID) {
	s.reading.rows.DeleteLabelValues(id.String())
	s.reading.bytes.DeleteLabelValues(id.String())
}

// countWhole has ClickHouse say what a statement read once it has read all of it,
// where a budget counts that: it says so in front of the answer.
func (c *request) countWhole(settings map[string]string) {
	if limits := c.settings.Config.Query.Limits; limits != nil && limits.ReadBytesPerHour != nil {
		settings["wait_end_of_query"] = "1"
	}
}
