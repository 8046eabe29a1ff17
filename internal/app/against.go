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
	pools := clickhouse.NewPools(clickhouse.Options{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = pools.Close(context.WithoutCancel(ctx)) }()
	configs := make(map[tenant.ID]clickhouse.Config, len(report.Tenants))
	for id, snapshot := range report.Tenants {
		configs[id] = poolConfig(snapshot.Config.ClickHouse, password)
		config := configs[id]
		config.Addr = addr
		configs[id] = config
	}
	for id, err := range pools.Reconcile(configs) {
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", id, err)
		}
	}
	var findings []settings.Finding
	for id, snapshot := range report.Tenants {
		discovered, err := schema.Discover(ctx, pools, id)
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", id, err)
		}
		more, err := settings.Against(ctx, snapshot, catalogue{discovered})
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", id, err)
		}
		findings = append(findings, more...)
	}
	return findings, nil
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
