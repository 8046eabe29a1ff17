package nats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A tenant that has its budget's worth waiting is refused by every process, and no
// other tenant is; it is taken again once that is written.
func TestABudgetIsKeptByAllProcesses(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	one, two := open(t, o), open(t, o)
	const budget = 400 << 10
	for _, b := range []*Broker{one, two} {
		require.NoError(t, b.SetBudget(t.Context(), "birch", budget))
		require.NoError(t, b.SetBudget(t.Context(), "cedar", budget))
		require.Error(t, b.SetBudget(t.Context(), "birch", 0))
	}
	put := func(b *Broker, id tenant.ID, table string) error {
		_, err := b.Publish(t.Context(), mqtest.Chunk(id, table, string(make([]byte, 10<<10))))
		return err
	}
	stored := 0
	for _, b := range []*Broker{one, two} {
		for {
			err := put(b, "birch", "t")
			if err != nil {
				require.ErrorIs(t, err, mq.ErrFull)
				break
			}
			stored++
			require.Less(t, stored, 100)
		}
		require.NoError(t, put(b, "cedar", "t"))
	}
	require.GreaterOrEqual(t, stored, 36, "what fits")
	// The second knows within two seconds what the first sent.
	require.LessOrEqual(t, stored, 80)
	for _, b := range []*Broker{one, two} {
		require.Eventually(t, func() bool { return put(b, "birch", "t") != nil }, time.Minute, 50*time.Millisecond)
		require.NoError(t, put(b, "cedar", "t"))
	}
	worker := newLedger().worker(t, one)
	for _, b := range []*Broker{one, two} {
		require.Eventually(t, func() bool { return put(b, "birch", "t") == nil }, time.Minute, 50*time.Millisecond, "what waited is written")
	}
	require.NoError(t, worker.Stop(t.Context()))
}

// What was counted is within a tenth of what waits, for tenants whose chunks differ
// in size, and a process that sent nothing of a tenant goes by the average.
func TestWhatWaitsIsCounted(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	o := made(t, c.JetStream(t), c, 15*time.Second, 1)
	b := open(t, o)
	sizes := map[tenant.ID]int{"birch": 1 << 10, "cedar": 40 << 10}
	for id, size := range sizes {
		for n := range 20 {
			_, err := b.Publish(t.Context(), mqtest.Chunk(id, string(rune('a'+n)), string(make([]byte, size))))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool {
		b.budgets.mu.Lock()
		defer b.budgets.mu.Unlock()
		for id, size := range sizes {
			of := b.budgets.tenants[id]
			if of == nil || of.fresh+of.before > 0 || of.waiting < int64(20*size) || of.waiting > int64(22*(size+600)) {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)
	require.Empty(t, b.Unopened())
}
