package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func at(addr, database string) *settings.Snapshot {
	c := settings.DefaultConfig()
	c.ClickHouse.Addr, c.ClickHouse.Database = addr, database
	return &settings.Snapshot{Config: c}
}

// C144: tenants on one server see each other's writes.
func TestC144_WritesAreToldToTenantsOnTheServer(t *testing.T) {
	served := map[tenant.ID]*settings.Snapshot{
		"birch": at("db.example:9000", "shared"), "cedar": at("DB.example.:9000", "shared"), "other": at("db.example:9000", "own"),
		"elm": at("elsewhere:9000", "shared"), "fir": at("localhost:9000", "shared"), "oak": at("127.0.0.1:9000", "shared"),
	}
	a := &App{logger: slog.New(slog.DiscardHandler), config: &config.Config{}, metrics: prometheus.NewRegistry(), registry: nil}
	a.config.Cache.Local.MaxBytes = 1 << 20
	r, err := a.newResults()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.close(context.Background())) })
	fill := func(table string) {
		for id := range served {
			key := cache.NewKey(id).Add(table).Key()
			_, token := r.cache.Lookup(t.Context(), key)
			r.cache.Fill(t.Context(), token, cache.NewValue([]byte("x"), "text/plain", []string{table}), time.Hour)
		}
	}
	dropped := func(table string) (ids []tenant.ID) {
		for _, id := range []tenant.ID{"birch", "cedar", "elm", "fir", "oak", "other"} {
			if v, _ := r.cache.Lookup(t.Context(), cache.NewKey(id).Add(table).Key()); v == nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	r.adopt(t.Context(), served)
	fill("shared.t")
	fill("own.t")
	r.flushed(insert.Flushed{Tenant: "birch", Table: "t", Inserted: 1})
	assert.Equal(t, []tenant.ID{"birch", "cedar", "other"}, dropped("shared.t"), "whoever may read the table")
	assert.Empty(t, dropped("own.t"))

	fill("shared.t")
	r.Wrote(t.Context(), "fir", true)
	assert.Equal(t, []tenant.ID{"fir", "oak"}, dropped("shared.t"), "one machine by two names")
	assert.Equal(t, []tenant.ID{"fir", "oak"}, dropped("own.t"), "a statement may write any database")

	fill("shared.t")
	r.flushed(insert.Flushed{Tenant: "gone", Table: "t", Inserted: 1})
	r.Wrote(t.Context(), "gone", false)
	r.adopt(t.Context(), served)
	assert.Empty(t, dropped("shared.t"), "the same tenants")
	left := map[tenant.ID]*settings.Snapshot{"cedar": served["cedar"]}
	r.adopt(t.Context(), left)
	assert.Len(t, dropped("shared.t"), 5)
	fill("shared.t")
	r.adopt(t.Context(), served)
	assert.Len(t, dropped("shared.t"), 5, "those that come back")

	// An INSERT that was on its way when its tenant left or moved still tells
	// those who stayed.
	moved := map[tenant.ID]*settings.Snapshot{"cedar": served["cedar"], "birch": at("elsewhere:9000", "shared")}
	r.adopt(t.Context(), moved)
	fill("shared.t")
	r.flushed(insert.Flushed{Tenant: "birch", Table: "t", Inserted: 1})
	assert.Contains(t, dropped("shared.t"), tenant.ID("cedar"))
	fill("shared.t")
	r.adopt(t.Context(), served)
	assert.Contains(t, dropped("shared.t"), tenant.ID("birch"), "what a tenant cached elsewhere is not found when it comes back")
	assert.NotContains(t, dropped("shared.t"), tenant.ID("cedar"))
}
