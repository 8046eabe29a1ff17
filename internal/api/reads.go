package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes/scope"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Results answers reads from the cache, and runs equal misses once.
type Results interface {
	Get(ctx context.Context, q cache.Query) (*cache.Value, cache.Outcome, error)
	// Peek answers from the cache alone; nil is a miss.
	Peek(ctx context.Context, key cache.Key) *cache.Value
}

// Lineage says which tables an answer depends on.
type Lineage interface {
	Tables(ctx context.Context, pool *clickhouse.Pool, names ...string) cache.Dependencies
	Statement(ctx context.Context, pool *clickhouse.Pool, sql string) cache.Dependencies
	scope.Lineage
}

// Writes is told of statements that wrote, or may have: what was cached of
// their database is dropped.
type Writes interface {
	// Wrote is called before the answer. changed says that the tables
	// themselves may be others now.
	Wrote(ctx context.Context, id tenant.ID, changed bool)
}

// The header that says where an answer is from, and its values.
const (
	cacheHeader = "X-Cache"

	cacheHit    = "HIT"
	cacheMiss   = "MISS"
	cacheBypass = "BYPASS"
)

// read is a statement that only reads, and what its answer depends on.
type read struct {
	pool    *clickhouse.Pool
	request clickhouse.Request
	as      rendered
	// document is the hash of what was asked, of a structured query.
	document [sha256.Size]byte
	// grant identifies what the caller may see; answers to others are others.
	grant string
	// rows keeps the answer to its rows; nil where nothing bounds them.
	rows    *rowCap
	depends func(ctx context.Context) cache.Dependencies
	// who may be told what the answer cost; untold says that the caller may not,
	// and nobody else is given the answer.
	who    audience
	untold bool
	on     *tables
	// ttl is the asker's bound; uncached keeps and shares nothing.
	ttl      time.Duration
	uncached bool
	// verify is asked before the statement is sent; nil needs no leave.
	verify func(ctx context.Context, request clickhouse.Request) error
}

// answerRead answers from the cache when it may. key is that of the question.
func (s *Server) answerRead(w http.ResponseWriter, r *http.Request, c *request, at *room, q read, key cache.Key) error {
	header := w.Header()
	setHeaders(header, "Cache-Control", "private, no-cache")
	q.on = &tables{ask: q.depends}
	if q.uncached || q.as.format != query.FormatJSON || s.Results == nil {
		return s.answerApart(w, r, c, at, q, nil)
	}
	var own *fetched
	defer func() { own.close() }()
	value, outcome, err := s.Results.Get(r.Context(), cache.Query{
		Key: key, TTL: q.ttl, Dependencies: q.on.get,
		Run: func(ctx context.Context) (answer cache.Answer, err error) {
			if own, err = s.fetch(ctx, at, q); err != nil {
				return answer, err
			}
			if own.rest != nil {
				return answer, cache.ErrLarge
			}
			notes := slices.Concat(own.notes, own.cost.notes(q.on.get(ctx), own.through))
			return cache.Answer{Body: own.head, ContentType: q.as.mediaType, Notes: notes}, nil
		},
	})
	switch {
	case errors.Is(err, cache.ErrLarge):
		return s.answerApart(w, r, c, at, q, own)
	case err != nil:
		return err
	}
	state := cacheMiss
	if outcome == cache.Hit {
		state = cacheHit
	}
	tellCacheState(w, state)
	if outcome == cache.Miss {
		q.tell(r.Context(), header, own)
	} else {
		q.who.tellKept(header, value, outcome)
	}
	if done, err := s.sendValue(w, r, at, value); done || err != nil {
		return err
	}
	return s.answerApart(w, r, c, at, q, nil)
}

// answerApart answers one caller alone: with what it was answered already, or else
// by asking.
func (s *Server) answerApart(w http.ResponseWriter, r *http.Request, c *request, at *room, q read, own *fetched) (err error) {
	if own == nil {
		if own, err = s.fetch(r.Context(), at, q); err != nil {
			return err
		}
		defer own.close()
	}
	tellCacheState(w, cacheBypass)
	q.tell(r.Context(), w.Header(), own)
	return s.send(w, r, c, at, own, rendering{rows: q.as, of: q})
}

// askCounted is ask, once the statement may be sent, that counts what the tenant of
// the room reads with it.
func (s *Server) askCounted(ctx context.Context, at *room, q read) (*fetched, error) {
	if q.verify != nil {
		if err := q.verify(ctx, q.request); err != nil {
			return nil, err
		}
	}
	var through time.Time
	if !q.untold {
		through = s.through(ctx, at.tenant, q.who.here, q.on.get(ctx))
	}
	request, err := s.portable(ctx, q.pool, at, q.request, q.as.format)
	if err != nil {
		s.spentOn(at.tenant, err)
		return nil, err
	}
	own, err := s.ask(ctx, q.pool, at, request)
	if own != nil {
		s.spent(at.tenant, own.cost.read)
	}
	if err != nil {
		s.spentOn(at.tenant, err)
		return nil, err
	}
	own.through = through
	return own, nil
}

// tell sets the headers of an answer that was asked of ClickHouse.
func (q read) tell(ctx context.Context, header http.Header, own *fetched) {
	if !q.untold {
		q.who.tell(header, own.cost, q.on.get(ctx), own.through)
	}
}

// key identifies the question: the tenant, where it is asked, what the caller
// may see, and the statement with everything that travels with it.
func (q read) key(id tenant.ID) cache.Key {
	k := cache.NewKey(id).Add(q.pool.Identity()).Add(q.grant).Add(q.as.mediaType).Add(q.request.SQL)
	addSorted(k, q.request.Params)
	addSorted(k, q.request.Settings)
	if q.rows != nil {
		k.Add(q.rows.By)
		if q.rows.page != nil || q.rows.behind != nil {
			// Other documents may have the same statement, and other cursors.
			k.AddBytes(q.document[:])
		}
	}
	for _, table := range q.request.External {
		k.Add(table.Name).Add(table.Structure).Add(table.Format).AddBytes(table.Data)
	}
	return k.Key()
}

func addSorted(k *cache.KeyWriter, values map[string]string) {
	k.Add(strconv.Itoa(len(values)))
	names := make([]string, 0, 24) // more than most statements have; more is no fault
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		k.Add(name).Add(values[name])
	}
}

// limitTime has ClickHouse itself end what runs for longer than the tenant
// allows, or the role.
func limitTime(settings map[string]string, pool *clickhouse.Pool) {
	timeout := pool.QueryTimeout().Seconds()
	if timeout <= 0 {
		return
	}
	const name = "max_execution_time"
	if own, err := strconv.ParseFloat(settings[name], 64); err == nil && own > 0 && own <= timeout {
		return
	}
	settings[name] = strconv.FormatFloat(timeout, 'f', -1, 64)
}

// encodingOf is the encoding in which a result is sent, of those that it is kept in
// and the client takes, and the size of what is held to send it, in bytes.
func encodingOf(accept string, v *cache.Value) (encoding string, size int) {
	if accept != "" {
		for _, encoding := range []string{cache.EncodingZstd, cache.EncodingGzip} {
			if body, ok := v.Encoded(encoding); ok && accepts(accept, encoding) {
				return encoding, len(body)
			}
		}
	}
	return cache.EncodingPlain, v.Size
}

// accepts reports whether an Accept-Encoding header names the encoding, and not
// as one that is unwanted.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, parameter, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		quality, given := strings.CutPrefix(strings.ReplaceAll(parameter, " ", ""), "q=")
		weight, err := strconv.ParseFloat(quality, 64)
		return !given || err == nil && weight > 0
	}
	return false
}

// matches reports whether an If-None-Match header names the tag. Tags of
// answers are weak, and compared as such.
func matches(header, tag string) bool {
	if header == "" {
		return false
	}
	bare := strings.TrimPrefix(tag, "W/")
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimSpace(part)
		if part == "*" || strings.TrimPrefix(part, "W/") == bare {
			return true
		}
	}
	return false
}

// wrote tells of a statement that wrote, or may have, whatever came of it.
func (s *Server) wrote(ctx context.Context, c *request, changed bool) {
	if s.Writes != nil {
		s.Writes.Wrote(ctx, c.tenant, changed)
	}
	if !changed {
		return
	}
	// What was just created or altered is known before the answer, so that the
	// next insert finds it.
	if err := s.Schemas.Refresh(ctx, c.tenant); err != nil {
		s.Logger.WarnContext(ctx, "cannot refresh the schema after a statement", "tenant", c.tenant, "error", err)
	}
}

// tablesOf are the dependencies of reading a table.
func (s *Server) tablesOf(pool *clickhouse.Pool, tables ...string) func(ctx context.Context) cache.Dependencies {
	return func(ctx context.Context) cache.Dependencies {
		if s.Lineage == nil {
			return cache.Dependencies{}
		}
		return s.Lineage.Tables(ctx, pool, tables...)
	}
}

// neverRetryable is the answer to a write that failed: running it again may
// write twice.
func neverRetryable(err error) error {
	if err == nil {
		return nil
	}
	p := *problemOf(err)
	p.Retryable, p.RetryAfter = false, 0
	return &p
}
