package app

import (
	"context"
	"errors"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// adopt makes everything follow a new set of snapshots, in this order: a
// schema loop needs its pool, and a budget may be raised before rows come. A
// step that fails for a tenant is that tenant's alone, and is tried again at
// the next reload.
func (a *App) adopt(ctx context.Context, snapshots map[tenant.ID]*settings.Snapshot) {
	a.passwords.reload(a.logger)
	a.results.adopt(ctx, snapshots)
	pools := make(map[tenant.ID]clickhouse.Config, len(snapshots))
	specs := make(map[tenant.ID]schema.Spec, len(snapshots))
	for id, snapshot := range snapshots {
		pools[id] = poolConfig(snapshot.Config.ClickHouse, a.passwords.of(id))
		specs[id] = schema.Spec{RefreshInterval: snapshot.Config.Schema.RefreshInterval}
	}
	for id, err := range a.pools.Reconcile(pools) {
		if err != nil {
			a.logger.Error("cannot give the tenant its ClickHouse pool", "tenant", id, "error", err)
		}
	}
	a.schemas.Reconcile(specs)
	a.auth.Reconcile(snapshots)
	for id, snapshot := range snapshots {
		if err := a.broker.SetBudget(ctx, id, snapshot.Config.MQ.MaxBytes); err != nil {
			a.logger.Error("cannot set the tenant's queue budget", "tenant", id, "bytes", snapshot.Config.MQ.MaxBytes, "error", err)
		}
	}
	a.endStreams(snapshots)
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

func poolConfig(c settings.ClickHouse, password string) clickhouse.Config {
	return clickhouse.Config{
		Addr: c.Addr, HTTPScheme: c.HTTPScheme, HTTPPort: c.HTTPPort, Database: c.Database,
		Username: c.Username, Password: password, Headers: c.Headers, QueryTimeout: c.QueryTimeout,
		MaxOpenConns: c.MaxOpenConns, MaxIdleConns: c.MaxIdleConns,
		TLS: clickhouse.TLS{
			Enabled: c.TLS.Enabled, CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile,
			ServerName: c.TLS.ServerName, InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		},
	}
}

// tableSettings is what the worker needs to know of a table now.
func (a *App) tableSettings(id tenant.ID, table string) ingest.TableSettings {
	snapshot, err := a.registry.Get(id)
	if err != nil {
		return ingest.TableSettings{Park: true}
	}
	flush := snapshot.Config.Flush(table)
	return ingest.TableSettings{
		Served: true, Park: snapshot.Config.DLQEnabled(table),
		Flush: ingest.Flush{MaxRows: flush.MaxRows, MaxBytes: flush.MaxBytes, MaxWait: flush.MaxWait},
	}
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
