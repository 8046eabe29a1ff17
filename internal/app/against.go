package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// againstTimeout bounds the look at one tenant's ClickHouse.
const againstTimeout = 30 * time.Second

// againstAtOnce is how many tenants are looked at at once.
const againstAtOnce = 8

// CheckAgainst looks whether the tables and columns that the settings name
// exist in the ClickHouse at addr (a host, or host:port with the port of the
// tenant's protocol), in each tenant's own database and as its own user, with the
// password that password returns for it. The error joins those of the tenants that could not be looked
// at; the findings of the others are there all the same.
func CheckAgainst(
	ctx context.Context, report settings.Report, addr string, password func(tenant.ID) string,
) ([]settings.Finding, error) {
	ids := slices.Sorted(maps.Keys(report.Tenants))
	found := make([][]settings.Finding, len(ids))
	failures := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(againstAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			found[i], failures[i] = checkTenant(ctx, report.Tenants[id], addr, password(id))
			return nil
		})
	}
	_ = group.Wait() // the failures are kept by tenant
	var findings []settings.Finding
	for i, id := range ids {
		findings = append(findings, report.Lead(id, found[i])...)
	}
	return findings, errors.Join(failures...)
}

func checkTenant(ctx context.Context, snapshot *settings.Snapshot, addr, password string) ([]settings.Finding, error) {
	discovered, err := Discover(ctx, snapshot, addr, password)
	if err != nil {
		return nil, err
	}
	columns := map[string][]string{}
	for _, table := range discovered.Tables() {
		names := []string{}
		for _, column := range table.Columns {
			names = append(names, column.Name)
		}
		columns[table.Name] = names
	}
	return settings.Against(snapshot, columns), nil
}

// Discover reads the tables of a tenant's database once, as the tenant's own
// user, from the ClickHouse at addr, as CheckAgainst does.
func Discover(ctx context.Context, snapshot *settings.Snapshot, addr, password string) (*schema.Catalogue, error) {
	ctx, cancel := context.WithTimeout(ctx, againstTimeout)
	defer cancel()
	pools := clickhouse.NewPools(clickhouse.Options{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = pools.Close(context.WithoutCancel(ctx)) }()
	id := snapshot.Tenant
	config := poolConfig(pointedAt(snapshot.Config.ClickHouse, addr), "--against", password)
	if err := pools.Reconcile(map[tenant.ID]clickhouse.Config{id: config})[id]; err != nil {
		return nil, fmt.Errorf("tenant %s: %w", id, err)
	}
	discovered, err := schema.Discover(ctx, pools, id)
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", id, err)
	}
	return discovered, nil
}

// pointedAt is the tenant's ClickHouse with another address: a host, or host:port with
// the port of the tenant's protocol.
func pointedAt(c settings.ClickHouse, addr string) settings.ClickHouse {
	c.Addr = addr
	if _, port, err := net.SplitHostPort(addr); err == nil && c.Protocol == "http" {
		c.HTTPPort, _ = strconv.Atoi(port) // a port that is none cannot be dialled
	}
	return c
}
