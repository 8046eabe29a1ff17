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
	localcache "github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// slowCache takes its time to drop something.
type slowCache struct {
	cache.Cache
	entered, release chan struct{}
}

func (c *slowCache) Invalidate(ctx context.Context, ids []tenant.ID, tables []string) error {
	close(c.entered)
	<-c.release
	return c.Cache.Invalidate(ctx, ids, tables)
}

// Who waits for its rows is answered once no answer without them is left.
func TestWhoWaitsFindsItsRowsWhereverItLooks(t *testing.T) {
	near, err := localcache.New(localcache.Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, near.Close(context.Background())) })
	store := &slowCache{near, make(chan struct{}), make(chan struct{})}
	a := &App{
		config: &config.Config{Roles: []string{config.RoleAPI}}, backends: backends{notices: local.New()},
		results: newResults(store, slog.New(slog.DiscardHandler), prometheus.NewRegistry()), watches: ingest.NewWatches(nil),
	}
	a.results.adopt(t.Context(), map[tenant.ID]*settings.Snapshot{"birch": at("db.example", "d")})
	a.hear()
	go func() { _ = a.notices.Run(t.Context()) }()
	pages, chunk := mq.Topic{Tenant: "birch", Table: "pages"}, mq.NewPosition(1, 1)
	watch, err := a.watches.Watch(pages)
	require.NoError(t, err)
	defer watch.Close()
	answered := make(chan map[mq.Position]ingest.Settled, 1)
	go func() { answered <- watch.Wait(t.Context(), []mq.Position{chunk}) }()
	a.notices.Tell(notice.Written{Topic: pages, Inserted: 1, Settled: []mq.Position{chunk}})
	<-store.entered
	assert.Never(t, func() bool { return len(answered) > 0 }, 20*time.Millisecond, time.Millisecond, "the answer without the row is still kept")
	close(store.release)
	assert.Equal(t, map[mq.Position]ingest.Settled{chunk: {}}, <-answered)
}

// Who is answered after a statement that wrote is never answered with what was
// cached before it.
func TestAStatementIsAnsweredOnceItWasHeard(t *testing.T) {
	bus := local.New()
	a := &App{backends: backends{notices: bus}}
	entered, release, heard := make(chan struct{}), make(chan struct{}), false
	bus.Listen(func(all []notice.Notice) {
		close(entered)
		<-release
		heard = assert.ObjectsAreEqual([]notice.Notice{notice.Statement{Tenant: "birch", Changed: true}}, all)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bus.Run(ctx) }()
	go func() {
		<-entered
		close(release)
	}()
	a.Wrote(t.Context(), "birch", true)
	assert.True(t, heard)
	cancel()
	require.NoError(t, <-ended)
}
