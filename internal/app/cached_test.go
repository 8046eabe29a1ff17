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
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func at(addr, database string) *settings.Snapshot {
	c := settings.DefaultConfig()
	c.ClickHouse.Addr, c.ClickHouse.Database = addr, database
	return &settings.Snapshot{Config: &c}
}

// Tenants on one server see each other's writes.
func TestWritesAreToldToTenantsOnTheServer(t *testing.T) {
	served := map[tenant.ID]*settings.Snapshot{
		"birch": at("db.example:9000", "shared"), "cedar": at("DB.example.:9000", "shared"), "other": at("db.example:9000", "own"),
		"elm": at("elsewhere:9000", "shared"), "fir": at("localhost:9000", "shared"), "oak": at("127.0.0.1:9000", "shared"),
	}
	store, err := local.New(local.Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
	r := newResults(store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	flushed := func(id tenant.ID, table string) notice.Notice {
		return notice.Written{Topic: mq.Topic{Tenant: id, Table: table}, Inserted: 1}
	}
	tell := func(all ...notice.Notice) { r.told(all) }
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
	tell(flushed("birch", "t"))
	assert.Equal(t, []tenant.ID{"birch", "cedar", "other"}, dropped("shared.t"), "whoever may read the table")
	assert.Empty(t, dropped("own.t"))

	fill("shared.t")
	tell(notice.Statement{Tenant: "fir", Changed: true})
	assert.Equal(t, []tenant.ID{"fir", "oak"}, dropped("shared.t"), "one machine by two names")
	assert.Equal(t, []tenant.ID{"fir", "oak"}, dropped("own.t"), "a statement may write any database")

	fill("shared.t")
	tell(flushed("gone", "t"))
	tell(notice.Statement{Tenant: "gone", Changed: false})
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
	tell(flushed("birch", "t"))
	assert.Contains(t, dropped("shared.t"), tenant.ID("cedar"))
	fill("shared.t")
	r.adopt(t.Context(), served)
	assert.Contains(t, dropped("shared.t"), tenant.ID("birch"), "what a tenant cached elsewhere is not found when it comes back")
	assert.NotContains(t, dropped("shared.t"), tenant.ID("cedar"))

	// Several at once, and any number that nobody knows.
	fill("shared.t")
	fill("own.t")
	fill("other.t")
	tell(flushed("cedar", "t"), notice.Written{Topic: mq.Topic{Tenant: "elm", Table: "t"}}, flushed("other", "t"))
	assert.Equal(t, []tenant.ID{"birch", "cedar", "other"}, dropped("shared.t"), "parked rows are in no answer")
	assert.Equal(t, []tenant.ID{"birch", "cedar", "other"}, dropped("own.t"))
	assert.Empty(t, dropped("other.t"))
	tell(notice.Lost{})
	assert.Len(t, dropped("other.t"), len(served), "what was missed may have been any table")
}
