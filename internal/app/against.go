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
	"github.com/wavehouse/wavehouse/internal/codegen"
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
	var found *schema.Catalogue
	var selects map[string]string
	if err := ask(ctx, snapshot, addr, password, func(ctx context.Context, pools *clickhouse.Pools) (err error) {
		if found, err = schema.Discover(ctx, pools, snapshot.Tenant); err != nil {
			return err
		}
		selects, err = readSelects(ctx, pools, snapshot.Tenant)
		return err
	}); err != nil {
		return nil, err
	}
	columns, sources, types := map[string][]string{}, map[string]settings.Sources{}, map[string]map[string]string{}
	for _, table := range found.Tables() {
		made := settings.Sources{Expressions: map[string]string{}, Select: selects[table.Name]}
		names := []string{}
		types[table.Name] = map[string]string{}
		for _, column := range table.Columns {
			names = append(names, column.Name)
			types[table.Name][column.Name] = column.Type
			made.Expressions[column.Name] = column.DefaultExpression
		}
		columns[table.Name], sources[table.Name] = names, made
	}
	return slices.Concat(settings.Against(snapshot, columns), settings.DeniedPaths(snapshot, types), settings.Derived(snapshot, columns, sources), settings.Collectors(snapshot, types)), nil
}

// readSelects reads the SELECTs of the views by their names.
func readSelects(ctx context.Context, pools *clickhouse.Pools, id tenant.ID) (map[string]string, error) {
	pool, err := pools.Get(id)
	if err != nil {
		return nil, err
	}
	selects := map[string]string{}
	const query = "SELECT name, as_select FROM system.tables WHERE database = currentDatabase() AND as_select != ''"
	if err := pool.EachRow(ctx, query, 2, func(row []string) error {
		selects[row[0]] = row[1]
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the views: %w", err)
	}
	return selects, nil
}

// Discover reads the tables of a tenant's database once, as the tenant's own
// user, from the ClickHouse at addr, as CheckAgainst does.
func Discover(ctx context.Context, snapshot *settings.Snapshot, addr, password string) (found *schema.Catalogue, err error) {
	err = ask(ctx, snapshot, addr, password, func(ctx context.Context, pools *clickhouse.Pools) (err error) {
		found, err = schema.Discover(ctx, pools, snapshot.Tenant)
		return err
	})
	return found, err
}

// Types says what a role of the tenant sees, with the tables of the ClickHouse at
// addr, as Discover does.
func Types(ctx context.Context, snapshot *settings.Snapshot, role, addr, password string) (shape codegen.Shape, err error) {
	err = ask(ctx, snapshot, addr, password, func(ctx context.Context, pools *clickhouse.Pools) error {
		found, err := schema.Discover(ctx, pools, snapshot.Tenant)
		if err != nil {
			return err
		}
		pool, err := pools.Get(snapshot.Tenant)
		if err != nil {
			return err
		}
		shape = codegen.Of(snapshot, role, found, codegen.Describer(ctx, pool))
		return nil
	})
	return shape, err
}

// ask lends pools that reach a tenant's ClickHouse at addr.
func ask(ctx context.Context, snapshot *settings.Snapshot, addr, password string, question func(ctx context.Context, pools *clickhouse.Pools) error) error {
	ctx, cancel := context.WithTimeout(ctx, againstTimeout)
	defer cancel()
	pools := clickhouse.NewPools(clickhouse.Options{Logger: slog.New(slog.DiscardHandler)})
	defer pools.Close(context.WithoutCancel(ctx))
	id := snapshot.Tenant
	config := poolConfig(pointedAt(snapshot.Config.ClickHouse, addr), "--against", password)
	if err := pools.Reconcile(map[tenant.ID]clickhouse.Config{id: config})[id]; err != nil {
		return fmt.Errorf("tenant %s: %w", id, err)
	}
	if err := question(ctx, pools); err != nil {
		return fmt.Errorf("tenant %s: %w", id, err)
	}
	return nil
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
