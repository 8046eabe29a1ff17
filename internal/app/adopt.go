package app

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/limit"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Steps of an adoption that can fail, as GET /v1/ops/tenants names them.
const (
	stepPasswords = "clickhouse_passwords"
	stepTokenKeys = "jwt_secrets"
	stepPool      = "clickhouse_pool"
	stepBudget    = "queue_budget"
)

// adopt makes everything follow a new set of snapshots, in this order: a
// schema loop needs its pool, and a budget may be raised before rows come. A
// step that fails for a tenant is that tenant's alone, and is tried again at
// the next reload.
//
// What it does for a tenant that did not change is a look into a map: a reload
// of one folder does not cost what a reload of all of them does.
func (a *App) adopt(ctx context.Context, _ map[tenant.ID]*settings.Snapshot) {
	a.adopting.Lock()
	defer a.adopting.Unlock()
	// The set as it is now: this adoption may have waited for another.
	snapshots := a.registry.Snapshots()
	failures := newFailures(a.logger)
	a.windows.adopt(a.registry, snapshots)
	a.rejections.adopt(a.registry, snapshots, time.Now())
	a.forgetRemoved(snapshots)
	moved := a.results.adopt(ctx, snapshots)
	a.adoptPools(snapshots, failures)
	// A query of the pools before may have ended meanwhile.
	a.results.drop(ctx, moved)
	specs := make(map[tenant.ID]schema.Spec, len(snapshots))
	for id, snapshot := range snapshots {
		specs[id] = schema.Spec{RefreshInterval: snapshot.Config.Schema.RefreshInterval}
	}
	a.schemas.Reconcile(specs)
	a.adoptTokenKeys(snapshots, failures)
	a.auth.Reconcile(snapshots)
	a.limits.Reconcile(limitConfigs(snapshots))
	a.adoptDedupe(ctx, snapshots, failures)
	a.budgets.adopt(ctx, snapshots, failures)
	a.endStreams(snapshots)
	a.hub.Reseat()
	a.failures.Store(failures)
	a.fleet.Adopted(generation(snapshots))
}

func (a *App) adoptPools(snapshots map[tenant.ID]*settings.Snapshot, failures *failures) {
	if err := a.passwords.reload(); err != nil {
		a.logger.Error("keeping the ClickHouse passwords read before", "error", err)
		for id := range snapshots {
			failures.note(id, stepPasswords, err)
		}
	}
	for id, err := range a.pools.Reconcile(a.poolConfigs(snapshots)) {
		failures.add(id, stepPool, "cannot give the tenant its ClickHouse pool", err)
	}
}

// adoptTokenKeys reads the secrets of tokens again. Over a nested directory that
// was tried before its tenants were judged.
func (a *App) adoptTokenKeys(snapshots map[tenant.ID]*settings.Snapshot, failures *failures) {
	if err := a.tokenKeys.reload(); err != nil {
		a.logger.Error("keeping the secrets of tokens read before", "error", err)
		for id := range snapshots {
			failures.note(id, stepTokenKeys, err)
		}
	}
}

// readTokenKeys reads the secrets of tokens again and says which tenants have the
// same. A file that cannot be read is reported by the adoption.
func (a *App) readTokenKeys() settings.TokenKey {
	_ = a.tokenKeys.reload()
	return a.tokenKeys.print
}

func (a *App) poolConfigs(snapshots map[tenant.ID]*settings.Snapshot) map[tenant.ID]clickhouse.Config {
	configs := make(map[tenant.ID]clickhouse.Config, len(snapshots))
	for id, snapshot := range snapshots {
		configs[id] = poolConfig(snapshot.Config.ClickHouse, "clickhouse.addr of tenant "+string(id), a.passwords.of(id))
	}
	return configs
}

// endStreams ends the streams of tenants that are no longer served. Those that
// are opening find out by themselves: their grant comes from the same set.
func (a *App) endStreams(served map[tenant.ID]*settings.Snapshot) {
	for _, id := range a.hub.Tenants() {
		if _, ok := served[id]; ok {
			continue
		}
		reason := stream.EndTenantRemoved
		if _, err := a.registry.Get(id); errors.Is(err, settings.ErrRejected) {
			reason = stream.EndTenantRejected
		}
		a.hub.EndTenant(id, reason)
	}
}

// forgetRemoved drops the metrics of tenants that have no folder any more, so
// that they do not gather. It does so at the next adoption too, for what was
// still on its way at this one.
func (a *App) forgetRemoved(served map[tenant.ID]*settings.Snapshot) {
	held := make(map[tenant.ID]bool, len(served))
	for _, id := range a.registry.Tenants() {
		held[id] = true
	}
	removed := make(map[tenant.ID]bool)
	for id := range a.held {
		if !held[id] {
			removed[id] = true
		}
	}
	for _, ids := range []map[tenant.ID]bool{a.removed, removed} {
		for id := range ids {
			if !held[id] {
				a.gate.Forget(id)
				a.worker.Forget(id)
				a.letters.Forget(id)
				a.hub.Forget(id)
				a.api.Forget(id)
			}
		}
	}
	a.held, a.removed = held, removed
}

func limitConfigs(snapshots map[tenant.ID]*settings.Snapshot) map[tenant.ID]limit.Config {
	configs := map[tenant.ID]limit.Config{}
	for id, snapshot := range snapshots {
		rows, queries := snapshot.Config.Ingest.Limits, snapshot.Config.Query.Limits
		var c limit.Config
		if rows != nil {
			c.RowsPerSecond, c.BytesPerSecond, c.Burst = orNone(rows.RowsPerSecond), orNone(rows.BytesPerSecond), orNone(rows.Burst)
		}
		if queries != nil {
			c.QueriesPerSecond, c.ConcurrentQueries = orNone(queries.PerSecond), orNone(queries.Concurrent)
			c.ReadBytesPerHour = orNone(queries.ReadBytesPerHour)
		}
		if c != (limit.Config{}) {
			configs[id] = c
		}
	}
	return configs
}

func orNone[T int | int64](limit *T) T {
	if limit == nil {
		return 0
	}
	return *limit
}

// poolConfig is what the pools are asked for; source says where the address is
// from.
func poolConfig(c settings.ClickHouse, source, password string) clickhouse.Config {
	return clickhouse.Config{
		Addr: c.Addr, Source: source, Native: c.Protocol == "native", HTTPScheme: c.HTTPScheme, HTTPPort: c.HTTPPort, Database: c.Database,
		Username: c.Username, Password: password, Headers: c.Headers, QueryTimeout: c.QueryTimeout,
		MaxOpenConns: c.MaxOpenConns, MaxIdleConns: c.MaxIdleConns,
		TLS: clickhouse.TLS{
			Enabled: c.TLS.Enabled, CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile,
			ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		},
	}
}

// tableSettings is what the worker needs to know of a table now.
func (a *App) tableSettings(id tenant.ID, table string) insert.TableSettings {
	snapshot, err := a.registry.Get(id)
	if err != nil {
		return insert.TableSettings{Park: true, Waits: a.rejections.within(id, a.config.MQ.RejectedGrace, time.Now())}
	}
	flush, rules := snapshot.Config.Flush(table), snapshot.Config.IngestFor(table)
	return insert.TableSettings{
		Served: true, Park: snapshot.Config.DLQEnabled(table), Retention: snapshot.Config.DedupeFor(table).Retention,
		MissingAsZero: rules.MissingAsZero, CutTimes: rules.Times == settings.TimesTruncate,
		Flush: insert.Flush{MaxRows: flush.MaxRows, MaxBytes: flush.MaxBytes, MaxWait: flush.MaxWait},
	}
}

// tableNow asks ClickHouse what a table is by now.
func (a *App) tableNow(ctx context.Context, t mq.Topic) (*record.Table, error) {
	if err := a.schemas.Refresh(ctx, t.Tenant); err != nil {
		return nil, err
	}
	if catalogue, loaded := a.schemas.Catalogue(t.Tenant); loaded {
		if table, known := catalogue.Table(t.Table); known {
			return table.Record, nil
		}
	}
	return nil, insert.ErrNoTable
}

// hiddenColumns are the columns of a table that are never read back: EPHEMERAL
// ones travel with an INSERT and are stored nowhere.
func (a *App) hiddenColumns(id tenant.ID, name string) (columns []string, known bool) {
	catalogue, loaded := a.schemas.Catalogue(id)
	if !loaded {
		return nil, false
	}
	table, known := catalogue.Table(name)
	if !known {
		return nil, false
	}
	for _, column := range table.Columns {
		if column.DefaultKind == "EPHEMERAL" {
			columns = append(columns, column.Name)
		}
	}
	return columns, true
}
