package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// int64Parameter asks for wide integers as strings, unless the pipe has a
// parameter of that name.
const int64Parameter = "int64"

// errPipeRole: the role is not on the pipe's list.
var errPipeRole = errors.New("there is no pipe of this name that this role may run")

// pipe runs a pipe: GET and POST /v1/pipes/<name>.
func (s *Server) pipe(w http.ResponseWriter, r *http.Request, c *request) error {
	addVary(w.Header(), "Accept")
	if err := s.identify(r, c, ""); err != nil {
		return err
	}
	pipe, err := pipeOf(r, c)
	if err != nil {
		return err
	}
	telemetry.Add(r.Context(), slog.String("pipe", pipe.Name()))
	if pipe.Writes() {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			return problem(http.StatusMethodNotAllowed, "method.not_allowed", "the pipe writes, so it answers POST alone")
		}
		if err := jsonAccepted(r.Header); err != nil {
			return err
		}
		// Outside of what is never retryable: a call that is refused here wrote
		// nothing.
		ended, err := s.admitQuery(w, c)
		if err != nil {
			return err
		}
		defer ended()
		tellCacheState(w, cacheBypass)
		w.Header().Set("Cache-Control", "no-store")
		return neverRetryable(s.writePipe(w, r, c, pipe))
	}
	hides := !c.identity.Operator && c.settings.Policy.HidesRows(c.identity.Role)
	return s.readPipe(discreetly(w, hides), r, c, pipe)
}

// pipeOf finds the pipe that the URL names, which the caller may run. Whether
// there is another is not told.
func pipeOf(r *http.Request, c *request) (*pipes.Pipe, error) {
	pipe, err := namedPipe(r, c)
	if refused := c.mayRun(pipe); refused != nil {
		return nil, refused
	}
	return pipe, err
}

// namedPipe finds the pipe that the URL names, nil with an error when there is
// none.
func namedPipe(r *http.Request, c *request) (*pipes.Pipe, error) {
	name, err := url.PathUnescape(chi.URLParam(r, "name"))
	if err != nil {
		name = chi.URLParam(r, "name")
	}
	pipe, ok := c.settings.Pipes.Get(name)
	if !ok {
		return nil, problem(http.StatusNotFound, "pipe.unknown", "unknown pipe: "+name)
	}
	return pipe, nil
}

// mayRun returns nil when the caller may run the pipe: its list is the only
// gate, which the admin role and the operator key pass. Nobody else may run nil.
func (c *request) mayRun(pipe *pipes.Pipe) error {
	rules := c.settings.Policy
	if !rules.Adopted() {
		return c.identity.Deny(policy.ErrNoPolicy)
	}
	role, ok := rules.Role(c.identity.Role)
	switch {
	case c.identity.Operator, rules.IsAdmin(role), pipe != nil && pipe.AllowsRole(role):
		return nil
	case !ok:
		return c.identity.Deny(policy.ErrNoRole)
	}
	return c.identity.Deny(errPipeRole)
}

// bindPipe reads the call's parameters. options are the parameters of the query
// string that are not the pipe's.
func (s *Server) bindPipe(w http.ResponseWriter, r *http.Request, c *request, pipe *pipes.Pipe) (statement *pipes.Statement, quoteInt64 bool, err error) {
	values := maps.Clone(c.query)
	if !pipe.Declares(int64Parameter) {
		value, err := oneOf(values, int64Parameter, "number", "string")
		if err != nil {
			return nil, false, err
		}
		quoteInt64 = value == "string"
		delete(values, int64Parameter)
	}
	body, release, err := s.pipeBody(w, r, c)
	if err != nil {
		return nil, false, err
	}
	defer release()
	statement, err = pipe.Bind(pipes.Arguments{Tenant: c.tenant, Claims: c.identity.Claims, Query: values, Body: body})
	if refusal, ok := errors.AsType[*pipes.Error](err); ok && refusal.Code == pipes.CodeClaim && c.identity.TokenErr != nil {
		err = c.identity.Deny(err)
	}
	return statement, quoteInt64, err
}

func (s *Server) pipeBody(w http.ResponseWriter, r *http.Request, c *request) (body []byte, release func(), err error) {
	if r.Method != http.MethodPost {
		return nil, func() {}, nil
	}
	return s.bodies.read(w, r, c.tenant, maxDocument)
}

func (s *Server) readPipe(w http.ResponseWriter, r *http.Request, c *request, pipe *pipes.Pipe) error {
	as, err := rowsAccepted(r.Header)
	if err != nil {
		return err
	}
	statement, quoteInt64, err := s.bindPipe(w, r, c, pipe)
	if err != nil {
		return err
	}
	ended, err := s.admitQuery(w, c)
	if err != nil {
		return err
	}
	defer ended()
	pool, err := s.Pools.Get(c.tenant)
	if err != nil {
		return err
	}
	at, err := s.Answers.begin(r.Context(), c.tenant)
	if err != nil {
		return err
	}
	defer at.end()
	ttl, set := pipe.TTL()
	q := read{
		who:  s.audience(c),
		pool: pool, as: as, ttl: ttl, uncached: set && ttl == 0,
		request: clickhouse.Request{
			SQL: statement.SQL, Params: statement.Params, Settings: query.ReadSettings(as.format, quoteInt64), ReadOnly: true,
		},
		grant: "pipe " + pipe.Name() + " " + ttl.String() + " " + strings.Join(pipe.Reads(), ","), depends: s.pipeTables(pool, pipe, statement),
	}
	if pipe.SeesAsCaller() && !c.unheld() {
		if err := s.asCaller(r.Context(), c, pipe, statement, &q); err != nil {
			return err
		}
	}
	limitTime(q.request.Settings, pool)
	c.countWhole(q.request.Settings)
	return s.answerRead(w, r, c, at, q, q.key(c.tenant))
}

// pipeTables are the tables that a pipe's answer depends on: those it names,
// else those of its statement.
func (s *Server) pipeTables(pool *clickhouse.Pool, pipe *pipes.Pipe, statement *pipes.Statement) func(ctx context.Context) cache.Dependencies {
	return func(ctx context.Context) cache.Dependencies {
		switch {
		case s.Lineage == nil:
			return cache.Dependencies{}
		case pipe.Reads() == nil:
			return s.Lineage.Statement(ctx, pool, statement.Shape)
		}
		named := s.Lineage.Tables(ctx, pool, pipe.Reads()...)
		named.Complete = true // its author says so
		return named
	}
}

// run runs a statement to its end, for what it does and not what it answers.
func (s *Server) run(ctx context.Context, c *request, pool *clickhouse.Pool, statement clickhouse.Request) error {
	response, err := pool.Query(ctx, statement)
	if err != nil {
		s.spentOn(c.tenant, err)
		return err
	}
	s.spent(c.tenant, response.Summary)
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	return nil
}

// writePipe runs a pipe that writes: on every call, to its end even when the
// caller leaves, and never twice.
func (s *Server) writePipe(w http.ResponseWriter, r *http.Request, c *request, pipe *pipes.Pipe) error {
	statement, _, err := s.bindPipe(w, r, c, pipe)
	if err != nil {
		return err
	}
	pool, err := s.Pools.Get(c.tenant)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	settings := map[string]string{"async_insert": "0", "wait_end_of_query": "1"}
	limitTime(settings, pool)
	err = s.run(ctx, c, pool, clickhouse.Request{SQL: statement.SQL, Params: statement.Params, Settings: settings, MaxResponseBytes: maxResult})
	// Whatever came of it, and before the answer: a failure may come after the
	// write.
	s.wrote(ctx, c, pipe.Changes())
	if err != nil {
		return err
	}
	return writeRaw(w, []byte("[]\n"))
}
