package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// againstTimeout bounds the look at ClickHouse.
const againstTimeout = 30 * time.Second

// CheckAgainst looks whether the tables and columns that the settings name
// exist in the ClickHouse at addr (host:port of the native protocol), in each
// tenant's own database and as its own user.
func CheckAgainst(ctx context.Context, report settings.Report, addr, password string) ([]settings.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, againstTimeout)
	defer cancel()
	var findings []settings.Finding
	for id, snapshot := range report.Tenants {
		discovered, err := Discover(ctx, snapshot, addr, password)
		if err != nil {
			return nil, err
		}
		more, err := settings.Against(ctx, snapshot, catalogue{discovered})
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", id, err)
		}
		findings = append(findings, more...)
	}
	return findings, nil
}

// Discover reads the tables of a tenant's database once, as the tenant's own
// user, from the ClickHouse at addr (host:port of the native protocol).
func Discover(ctx context.Context, snapshot *settings.Snapshot, addr, password string) (*schema.Catalogue, error) {
	ctx, cancel := context.WithTimeout(ctx, againstTimeout)
	defer cancel()
	pools := clickhouse.NewPools(clickhouse.Options{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = pools.Close(context.WithoutCancel(ctx)) }()
	id := snapshot.Tenant
	config := poolConfig(snapshot.Config.ClickHouse, password)
	config.Addr = addr
	if err := pools.Reconcile(map[tenant.ID]clickhouse.Config{id: config})[id]; err != nil {
		return nil, fmt.Errorf("tenant %s: %w", id, err)
	}
	discovered, err := schema.Discover(ctx, pools, id)
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", id, err)
	}
	return discovered, nil
}

// catalogue is a discovered schema as the settings' check wants it.
type catalogue struct{ *schema.Catalogue }

// Tables lists the tables' names.
func (c catalogue) Tables(context.Context) ([]string, error) {
	names := make([]string, 0, len(c.Catalogue.Tables()))
	for _, table := range c.Catalogue.Tables() {
		names = append(names, table.Name)
	}
	return names, nil
}

// Columns lists a table's columns.
func (c catalogue) Columns(_ context.Context, name string) ([]string, error) {
	table, ok := c.Table(name)
	if !ok {
		return nil, nil
	}
	names := make([]string, 0, len(table.Columns))
	for _, column := range table.Columns {
		names = append(names, column.Name)
	}
	return names, nil
}
