package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	birch tenant.ID = "birch"
	cedar tenant.ID = "cedar"
	maple tenant.ID = "maple"
)

// keptHistory stands in for a broker whose purges are watched.
type keptHistory struct {
	tenants []tenant.ID
	purges  chan map[tenant.ID]time.Time
	err     error
}

func (h *keptHistory) Purge(_ context.Context, cutoffs map[tenant.ID]time.Time) (map[tenant.ID]uint64, error) {
	h.purges <- cutoffs
	return map[tenant.ID]uint64{birch: 3}, h.err
}

func (h *keptHistory) Tenants(_ context.Context, after tenant.ID, limit int) ([]tenant.ID, error) {
	from, _ := slices.BinarySearch(h.tenants, after+"\x00")
	return h.tenants[from:min(from+limit, len(h.tenants))], nil
}

type alwaysElected struct{ lease chan string }

func (e alwaysElected) Elect(ctx context.Context, name string, run func(context.Context, coord.Token) error) error {
	e.lease <- name
	return run(ctx, 1)
}

func TestSweeperCutsAtTheGapWindow(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h := &keptHistory{tenants: []tenant.ID{birch, cedar, maple}, purges: make(chan map[tenant.ID]time.Time, 100)}
	lease := make(chan string, 1)
	reg := prometheus.NewRegistry()
	s := New(Options{
		Queue: h, Coord: alwaysElected{lease}, Metrics: reg, Every: time.Millisecond,
		Now: func() time.Time { return now },
		Windows: func() map[tenant.ID]time.Duration {
			return map[tenant.ID]time.Duration{birch: 15 * time.Minute, cedar: KeepAll}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for range 2 {
		assert.Equal(t, map[tenant.ID]time.Time{
			birch: now.Add(-15 * time.Minute),
			maple: now, // removed: it keeps no history
		}, <-h.purges)
	}
	cancel()
	require.NoError(t, <-ended)
	assert.Equal(t, "sweeper", <-lease)
	n, err := testutil.GatherAndCount(reg, "wavehouse_sweeper_chunks_purged_total")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

func (h *keptHistory) TenantStatus(context.Context, tenant.ID) (mq.TenantStatus, error) {
	return mq.TenantStatus{}, nil
}

func TestSweeperLooksAtEveryTenant(t *testing.T) {
	h := &keptHistory{purges: make(chan map[tenant.ID]time.Time, 10), err: errors.New("one of them cannot be purged")}
	for n := range 2*tenantPage + 1 {
		h.tenants = append(h.tenants, tenant.ID(fmt.Sprintf("t%05d", n)))
	}
	s := New(Options{Queue: h, Windows: func() map[tenant.ID]time.Duration { return nil }})
	s.Sweep(t.Context())
	close(h.purges)
	total := 0
	for cutoffs := range h.purges {
		total += len(cutoffs)
	}
	assert.Equal(t, len(h.tenants), total)
}

func TestSweeperGoesOnAfterAFailure(t *testing.T) {
	var log strings.Builder
	h := &keptHistory{tenants: []tenant.ID{birch}, purges: make(chan map[tenant.ID]time.Time, 1), err: errors.New("stream is gone")}
	s := New(Options{
		Queue: h, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Windows: func() map[tenant.ID]time.Duration { return nil },
	})
	s.Sweep(t.Context())
	<-h.purges
	assert.Contains(t, log.String(), "stream is gone")
	h.tenants = nil
	s.Sweep(t.Context())
	assert.Empty(t, h.purges, "nothing to purge is no request")
}
