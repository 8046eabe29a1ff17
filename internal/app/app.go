// Package app is the composition root: it builds the components a process
// needs and runs their lifecycle. It is the only package that knows which
// implementation stands behind a contract.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/fleet"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/letters"
	"github.com/wavehouse/wavehouse/internal/limit"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/sweep"
	"github.com/wavehouse/wavehouse/internal/telemetry"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Options are what a process starts with.
type Options struct {
	Config *config.Config
	Build  telemetry.Build
	Logger *slog.Logger
	// Started is called once the listener is bound, with its address; nil
	// calls nothing. It must not block.
	Started func(net.Addr)
	// Memory is the memory limit of the process, in bytes; 0 is none.
	Memory int64
	// LocalOnly refuses requests of web pages that are not of this machine.
	LocalOnly bool
}

// App is one process's components.
type App struct {
	config  *config.Config
	logger  *slog.Logger
	started func(net.Addr)
	metrics *prometheus.Registry
	tracing *telemetry.Tracing
	backends
	registry  *settings.Registry
	pools     *clickhouse.Pools
	passwords *secrets // of ClickHouse
	tokenKeys *secrets
	auth      *auth.Authenticator
	schemas   *schema.Store
	gate      *ingest.Gate
	worker    *insert.Worker
	sweeper   *sweep.Sweeper
	hub       *stream.Hub
	results   *results
	letters   *letters.Keeper
	watches   *ingest.Watches
	fleet     *fleet.Fleet
	api       *api.Server
	// servers are one or more; the first is everybody's, if there is one.
	servers []*http.Server
	// adopting is held by an adoption, which alone uses budgets, held and
	// removed: the tenants that have a folder, and those that lost it last.
	adopting sync.Mutex
	budgets  *budgets
	held     map[tenant.ID]bool
	removed  map[tenant.ID]bool
	windows  windows
	// rejections are those of tenants whose rows wait.
	rejections rejections
	limits     *limit.Limits
	shares     shares
	answers    *api.Answers
	failures   atomic.Pointer[failures] // of the last adoption
}

// New builds the components. Nothing is dialled and no port is bound; the
// queue on disk is opened, so that what is wrong with it refuses the start.
// When New fails it leaves nothing open.
func New(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{config: o.Config, logger: o.Logger, started: o.Started, metrics: telemetry.NewRegistry(o.Build)}
	defer func() {
		if err != nil {
			a.closeStores(ctx)
		}
	}()
	if a.tracing, err = telemetry.NewTracing(ctx, traceOptions(o)); err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	if a.passwords, err = newSecrets(o.Config.ClickHouse.Password, "clickhouse.passwords_file", o.Config.ClickHouse.PasswordsFile); err != nil {
		return nil, err
	}
	if a.tokenKeys, err = newSecrets(o.Config.Auth.JWTSecret, "auth.jwt_secrets_file", o.Config.Auth.JWTSecretsFile); err != nil {
		return nil, err
	}
	a.pools = clickhouse.NewPools(clickhouse.Options{
		Logger: component(o.Logger, "clickhouse"), Metrics: a.metrics, MaxTotalConns: o.Config.ClickHouse.MaxTotalConns,
	})
	a.schemas = schema.New(schema.Options{Pools: a.pools, Logger: component(o.Logger, "schema"), Metrics: a.metrics})
	if a.registry, err = settings.NewRegistry(o.Config.Settings.Dir, settings.Options{
		Logger: component(o.Logger, "settings"), Metrics: a.metrics, FoldCase: foldsCase(o.Config.DataDir),
		Keys: a.readTokenKeys,
	}); err != nil {
		return nil, o.Config.Blame("settings.dir", err)
	}
	a.registry.OnAdopt(a.adopt)
	if err = a.pools.Fits(a.poolConfigs(a.registry.Snapshots())); err != nil {
		return nil, o.Config.Blame("settings.dir", err)
	}
	if a.registry.Nested() && o.Config.Auth.OperatorKey.Reveal() == "" {
		o.Logger.Warn("no operator key is set (auth.operator_key): over a settings directory with a folder for each tenant nobody can use /v1/ops")
	}
	if a.backends, err = openBackends(ctx, o.Config, longestWindow(a.registry.Snapshots()), o.Logger, a.metrics); err != nil {
		return nil, err
	}
	a.warnOfRetentions()
	sealed, err := newSeals(o.Config, o.Logger)
	if err != nil {
		return nil, err
	}
	a.budgets = newBudgets(a.queue)
	a.limits = limit.New(limit.Options{Metrics: a.metrics})
	a.results = newResults(a.cache, component(o.Logger, "cache"), a.metrics)
	a.shares = sharesOf(o.Memory, o.Config.Limits)
	a.answers = api.NewAnswers(a.shares.answers, o.Config.Cache.Local.MaxBytes/16)
	a.buildPipeline(sealed.ids, o.Build)
	a.buildAPI(o, sealed.cursors)
	return a, nil
}

func component(logger *slog.Logger, name string) *slog.Logger { return logger.With("component", name) }

func traceOptions(o Options) telemetry.TraceOptions {
	c := o.Config.OTel
	return telemetry.TraceOptions{
		Enabled: c.Enabled, Endpoint: c.Endpoint, Protocol: c.Protocol, Insecure: c.Insecure,
		SampleRatio: c.SampleRatio, ServiceName: c.ServiceName, InstanceID: o.Config.InstanceID, Build: o.Build,
	}
}

// buildPipeline makes what takes rows from the door to ClickHouse and to the
// streams.
func (a *App) buildPipeline(ids *stream.IDs, build telemetry.Build) {
	seen := dedupe.NewMetered(a.dedupe, a.metrics)
	a.gate = ingest.NewGate(ingest.GateOptions{
		Broker: a.queue, MaxChunkBytes: a.queue.MaxChunkBytes(), Metrics: a.metrics, Dedupe: seen, Lease: a.config.Dedupe.Lease,
		MaxWaiting: a.shares.waiting,
	})
	a.letters = letters.NewKeeper(letters.Options{Broker: a.queue, MaxChunkBytes: a.queue.MaxChunkBytes(), Metrics: a.metrics})
	batches, _ := a.queue.(mq.Batches)
	a.worker = insert.NewWorker(insert.WorkerOptions{
		Broker: a.queue, Pool: a.inserter, Dedupe: seen, Settings: a.tableSettings, Table: a.tableNow, Tell: a.notices.Tell,
		Batches: batches, Logger: component(a.logger, "worker"), Metrics: a.metrics, DrainTimeout: a.drainTimeout(), MaxHeld: a.shares.batches,
	})
	if queue, ok := a.queue.(mq.Purger); ok {
		a.sweeper = sweep.New(sweep.Options{
			Queue: queue, Coord: a.coord, Windows: func() map[tenant.ID]time.Duration { return a.windows.of(a.registry) },
			Logger: component(a.logger, "sweeper"), Metrics: a.metrics,
		})
	}
	a.watches = ingest.NewWatches(a.floor)
	a.hear()
	a.fleet = fleet.New(fleet.Options{Bus: a.notices, Shards: a.shards, Self: notice.Process{
		Instance: a.config.InstanceID, Roles: a.config.Roles, Version: build.Version, Started: time.Now().UTC(),
	}})
	a.hub = stream.New(stream.Options{
		Broker: a.queue, IDs: ids, Logger: component(a.logger, "stream"), Registerer: a.metrics, Hidden: a.hiddenColumns, Memory: a.answers,
	})
}

func (a *App) buildAPI(o Options, cursors *query.Cursors) {
	a.auth = auth.New(auth.Options{
		OperatorKey: o.Config.Auth.OperatorKey.Reveal(), Secret: a.tokenKeys.of,
		Logger: component(o.Logger, "auth"), Metrics: a.metrics,
	})
	options := api.Options{
		Settings: a.registry, Schemas: a.schemas, Pools: a.pools, Gate: a.gate, Queue: a.queue, Streams: a.hub,
		Inserts: a.watches, Letters: a.letters,
		Auth: a.auth, Frontiers: a.newFrontiers(), Cursors: cursors,
		Results: a.results.reads, Lineage: a.results.lineage, Writes: a, Adoptions: a, Fleet: a.fleet, Limits: a.limits, Advice: a.advice,
		Logger: component(o.Logger, "api"), Registerer: a.metrics, Tracer: a.tracing.Tracer("api"), Build: o.Build, LocalOnly: o.LocalOnly,
		AccessLog:     o.Config.Log.Access,
		MaxBodyMemory: a.shares.bodies, Answers: a.answers,
	}
	options.Tenants, _ = a.queue.(mq.Tenants)
	options.Faults, _ = a.queue.(mq.Faults)
	a.listeners(options)
}

// listeners makes the server of everybody's routes and those of operations and
// metrics, where they have a port of their own. A process without the role api
// has no routes for everybody.
func (a *App) listeners(options api.Options) {
	c := a.config
	port, ops, metrics := c.Server.Port, c.Server.OpsPort, c.Prometheus.Port
	public := c.HasRole(config.RoleAPI)
	options.OpsApart = !public || ops != 0 && ops != port
	if ops == 0 {
		ops = port
	}
	exposition := telemetry.MetricsHandler(a.metrics)
	apart := c.Prometheus.Enabled && metrics != 0 && metrics != port && metrics != ops
	if c.Prometheus.Enabled && !apart {
		options.Metrics, options.MetricsPath = exposition, c.Prometheus.Path
	}
	a.api = api.NewServer(options)
	if public {
		a.serveOn(port, a.api)
	}
	if options.OpsApart {
		a.serveOn(ops, a.api.Ops())
	}
	if apart {
		mux := http.NewServeMux()
		mux.Handle("GET "+c.Prometheus.Path, exposition)
		a.serveOn(metrics, mux)
	}
}

func (a *App) serveOn(port int, handler http.Handler) {
	a.servers = append(a.servers, newHTTPServer(net.JoinHostPort(a.config.Server.Host, strconv.Itoa(port)), handler, a.logger))
}

// newHTTPServer bounds what a client may keep open. Answers have no write
// timeout of the server's: a stream is as long as its reader stays, and sets
// its own deadlines.
func newHTTPServer(addr string, handler http.Handler, logger *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Addr: addr, Handler: handler, Protocols: protocols,
		// What has come of bodies and nobody has read yet, of all streams of one
		// connection and of each. A write of the connection may take as long as one
		// of a stream's may, and a little longer.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 64 << 10, WriteByteTimeout: 35 * time.Second,
			MaxConcurrentStreams: 250,
		},
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 120 * time.Second, MaxHeaderBytes: api.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// Reload reads the settings again, as SIGHUP asks.
func (a *App) Reload(ctx context.Context) {
	result := a.registry.Reload(ctx, nil)
	level, message := slog.LevelInfo, "settings reloaded"
	if !result.Adopted {
		// Each finding is logged with its tenant.
		level, message = slog.LevelError, "settings reloaded, and not all of them adopted"
	}
	a.logger.Log(ctx, level, message, "changed", result.Changed, "refused", result.Refused, "removed", result.Removed, "error", result.Err)
}

// inserter is the worker's way to a tenant's ClickHouse.
func (a *App) inserter(id tenant.ID) (insert.Inserter, error) {
	pool, err := a.pools.Get(id)
	if err != nil {
		return nil, err
	}
	return pool, nil
}

// closeStores closes what New opened.
func (a *App) closeStores(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var errs []error
	if a.results != nil {
		errs = append(errs, a.results.reads.Close(ctx))
	}
	if a.pools != nil {
		a.pools.Close(ctx)
	}
	errs = append(errs, a.closeBackends(ctx))
	if err := errors.Join(errs...); err != nil {
		a.logger.Error("close stores", "error", err)
	}
}
