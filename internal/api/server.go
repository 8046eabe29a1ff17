// Package api is the HTTP surface: the router, the middleware, one file per
// resource, and the one place that turns an error into a response.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/telemetry"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Settings answers which tenants are served, and how.
type Settings interface {
	Get(id tenant.ID) (*settings.Snapshot, error)
	Tenants() []tenant.ID
	// Nested reports whether the directory holds a folder for each tenant.
	Nested() bool
	// Findings are those for which a tenant is rejected, or its warnings.
	Findings(id tenant.ID) []settings.Finding
	Reload(ctx context.Context, only *tenant.ID) settings.ReloadResult
}

// Schemas answers which tables a tenant has.
type Schemas interface {
	Catalogue(id tenant.ID) (*schema.Catalogue, bool)
	RefreshEarly(ctx context.Context, id tenant.ID) (*schema.Catalogue, error)
	Refresh(ctx context.Context, id tenant.ID) error
	// Pending holds the served tenants without a first discovery, and why.
	Pending() map[tenant.ID]error
	FirstLoaded() bool
}

// Pools answers where a tenant's ClickHouse is.
type Pools interface {
	Get(id tenant.ID) (*clickhouse.Pool, error)
	// Probe asks the pools until one answers and returns nil then, else each
	// one's failure by name.
	Probe(ctx context.Context, timeout time.Duration) map[string]error
}

// Adoptions says what a tenant's settings could not be followed in.
type Adoptions interface {
	AdoptionFailures(id tenant.ID) []AdoptionFailure
}

// AdoptionFailure is a step of the last adoption that failed for a tenant. It is
// tried again at the next reload.
type AdoptionFailure struct {
	Step  string    `json:"step"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
}

// Gate makes records durable.
type Gate interface {
	Ingest(ctx context.Context, request ingest.Request) (ingest.Result, error)
	// Drift lists the unknown fields of a tenant's records.
	Drift(id tenant.ID) []ingest.DriftField
}

// Queue is what the ops and probe routes ask of the broker.
type Queue interface {
	Full() error
	DeadLetters(id tenant.ID) (mq.DeadLetterStore, error)
}

// Authenticator says who calls.
type Authenticator interface {
	// Identify works without a snapshot too: then only the operator key counts.
	Identify(r *http.Request, snapshot *settings.Snapshot, streamToken string) (auth.Identity, error)
}

// Streams serves live rows.
type Streams interface {
	Serve(w http.ResponseWriter, r *http.Request, s stream.Subscription) error
	// EventID is the event id with which a stream of t starts behind the chunk at p.
	EventID(t mq.Topic, p mq.Position) string
	// Open counts the tenant's streams.
	Open(id tenant.ID) int
}

// Options are what a Server is made of; all are required but Tenants, Faults, Adoptions,
// Limits, Frontiers, Cursors, Results, Lineage, Writes, Advice, MetricsPath, MaxBodyMemory,
// Answers and Now.
type Options struct {
	Settings Settings
	Schemas  Schemas
	Pools    Pools
	Gate     Gate
	Queue    Queue
	Letters  Letters
	Auth     Authenticator
	Streams  Streams
	// Tenants is nil where the queue does not know them.
	Tenants mq.Tenants
	// Faults is nil where the queue is not on this process's disk.
	Faults mq.Faults
	Fleet  Fleet
	// Adoptions is nil where no step of an adoption can fail, Limits where no
	// tenant has any.
	Adoptions Adoptions
	Limits    Limits
	Inserts   Inserts
	// Frontiers is nil where the queue cannot be asked how far it is.
	Frontiers Frontiers
	// Cursors seal where pages end; nil answers none.
	Cursors *query.Cursors
	// Results is nil when nothing is cached.
	Results Results
	// Lineage and Writes belong to Results.
	Lineage Lineage
	Writes  Writes
	// Advice is what /readyz warns of beside the queue; nil is nothing.
	Advice     func() []string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracer     trace.Tracer
	Build      telemetry.Build
	// AccessLog logs every request.
	AccessLog bool
	// LocalOnly answers this machine alone: neither the pages of other origins nor
	// requests for other hosts.
	LocalOnly bool
	// OpsApart keeps metrics, operations and the causes that probes name to the
	// handler of Ops.
	OpsApart bool
	// Metrics serves the exposition; nil when another listener does.
	Metrics     http.Handler
	MetricsPath string
	// MaxBodyMemory bounds the request bodies held at once, in bytes; 0 is
	// 256 MiB.
	MaxBodyMemory int64
	// Answers is the memory of those that are made and sent; nil is one of 128 MiB.
	Answers *Answers
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Server is the API's handler.
type Server struct {
	Options
	edge    *edge
	bodies  *bodyReader
	reading *reading
	known   *memo.Memo[asked, cache.Key]
	bounds  *memo.Memo[boundKey, boundEntry]
	// public and ops are their routes; public has both unless they are apart.
	public, ops chi.Router
	stopping    atomic.Bool
	// ending ends when a stop begins, and with it what waits for long.
	ending context.Context
	end    context.CancelFunc
}

// NewServer builds the routes.
func NewServer(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBodyMemory == 0 {
		o.MaxBodyMemory = 256 << 20
	}
	if o.Answers == nil {
		o.Answers = NewAnswers(0, 0)
	}
	s := &Server{
		Options: o,
		edge:    newEdge(o.Logger, o.Tracer, o.Registerer, o.Now, o.AccessLog),
		bodies:  newBodyReader(o.MaxBodyMemory),
		reading: newReading(o.Registerer),
		known:   memo.New[asked, cache.Key](maxKnown),
		bounds:  memo.New[boundKey, boundEntry](maxBounds),
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.public, s.ops = s.routes(true, !o.OpsApart), s.routes(false, true)
	return s
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.public.ServeHTTP(w, r) }

// Ops serves probes, metrics and operations, and nothing else.
func (s *Server) Ops() http.Handler { return s.ops }

// BeginStop makes /readyz answer 503 from now on: a stop has begun.
// Requests that wait for their rows to be inserted are answered.
func (s *Server) BeginStop() {
	s.stopping.Store(true)
	s.end()
}

// routes are those for everybody, those of operations, or both.
func (s *Server) routes(public, ops bool) chi.Router {
	router := chi.NewRouter()
	router.Use(s.edge.wrap, middleware.GetHead)
	if s.LocalOnly {
		router.Use(s.localOnly)
	}
	router.Use(s.preflight)
	router.NotFound(s.exempt(func(http.ResponseWriter, *http.Request) error {
		return problem(http.StatusNotFound, "route.unknown", "no such route")
	}))
	router.MethodNotAllowed(s.exempt(methodNotAllowed(router)))

	router.Get("/livez", s.exempt(probe(s.notAlive, nil, ops)))
	router.Get("/healthz", s.exempt(probe(s.notAlive, nil, ops)))
	router.Get("/readyz", s.exempt(probe(s.notReady, s.faults, ops)))
	router.Get("/version", s.exempt(s.version))
	if ops && s.Metrics != nil {
		router.Method(http.MethodGet, s.MetricsPath, s.Metrics)
	}
	compressed := router.With(compress())
	if public {
		router.Get("/openapi.json", s.exempt(s.openAPI))
		router.Get("/v1/stream", s.tenant(s.stream))
		compressed.Get("/v1/health", s.tenant(s.health))
		compressed.Get("/v1/limits", s.tenant(s.limits))
		compressed.Post("/v1/ingest", s.tenant(s.ingest))
		compressed.Post("/v1/query", s.tenant(s.discreet(s.query)))
		compressed.Get("/v1/pipes/{name}", s.tenant(s.discreet(s.pipe)))
		compressed.Post("/v1/pipes/{name}", s.tenant(s.discreet(s.pipe)))
	}
	if ops {
		s.opsRoutes(compressed)
	}
	return router
}

func (s *Server) opsRoutes(router chi.Router) {
	router.Post("/v1/ops/query", s.operator(s.opsQuery))
	router.Get("/v1/ops/schema", s.operator(s.opsSchema))
	router.Get("/v1/ops/drift", s.operator(s.opsDrift))
	router.Get("/v1/ops/types", s.operator(s.opsTypes))
	router.Post("/v1/ops/schema/refresh", s.operator(s.opsSchemaRefresh))
	router.Get("/v1/ops/pipes", s.operator(s.opsPipes))
	router.Get("/v1/ops/pipes/{name}", s.operator(s.opsPipe))
	router.Get("/v1/ops/tenants", s.operator(s.opsTenants))
	router.Get("/v1/ops/fleet", s.operator(s.opsFleet))
	router.Get("/v1/ops/dlq/stats", s.operator(s.opsDeadLetterStats))
	router.Get("/v1/ops/dlq/rows", s.operator(s.opsDeadLetterRows))
	router.Delete("/v1/ops/dlq/rows", s.operator(s.opsDeadLetterDiscard))
	router.Post("/v1/ops/dlq/replay", s.operator(s.opsDeadLetterReplay))
	router.Post("/v1/ops/settings/reload", s.operator(s.opsReload))
}

// compress answers with a compressed body when the client accepts one and it
// is worth it. The wrapper's options are constants, so a failure is a bug.
func compress() func(http.Handler) http.Handler {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.ContentTypes([]string{
		"application/json", "application/problem+json", "application/x-ndjson", "text/csv", "text/plain", "text/tab-separated-values",
	}))
	if err != nil {
		panic(err)
	}
	return func(next http.Handler) http.Handler { return wrapper(next) }
}

// route turns what a handler returns into the answer.
func (s *Server) route(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// exempt serves a route that belongs to no tenant: it is decorated with
// tenant 0's CORS list when that tenant is served.
func (s *Server) exempt(h handler) http.HandlerFunc {
	return s.route(func(w http.ResponseWriter, r *http.Request) error {
		s.decorateDefault(w, r)
		return h(w, r)
	})
}

func (s *Server) decorateDefault(w http.ResponseWriter, r *http.Request) {
	if snapshot, err := s.Settings.Get(tenant.Default); err == nil {
		decorate(w, r, snapshot.Config.CORS.AllowedOrigins)
	}
}

func methodNotAllowed(router chi.Router) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			if router.Match(chi.NewRouteContext(), method, r.URL.Path) {
				w.Header().Add("Allow", method)
			}
		}
		if allow := w.Header().Values("Allow"); slices.Contains(allow, http.MethodGet) && !slices.Contains(allow, http.MethodHead) {
			w.Header().Add("Allow", http.MethodHead)
		}
		return problem(http.StatusMethodNotAllowed, "method.not_allowed", "the route does not answer this method, but "+strings.Join(w.Header().Values("Allow"), ", "))
	}
}
