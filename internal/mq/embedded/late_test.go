package embedded

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// A table of which more chunks wait than may be open, handed back for an hour, keeps
// no other table's: from memory as they come, and from the stream after a restart.
// Once it is written all of them come, each once and in order.
func TestATableThatIsNotWrittenKeepsNoOthersChunks(t *testing.T) {
	const each = 60
	topics := map[string]mq.Topic{}
	for _, table := range []string{"stuck", "stuck too", "fine"} {
		topics[table] = mq.Topic{Tenant: "birch", Table: table}
	}
	dir := t.TempDir()
	o := Options{Dir: dir, maxOpen: 20, AckWait: time.Hour}
	b := start(t, o)
	fill := func(b *Broker, round string, tables ...string) {
		for n := range each {
			for _, table := range tables {
				_, err := b.Publish(t.Context(), mqtest.Chunk("birch", table, fmt.Sprintf("%s %03d", round, n)))
				require.NoError(t, err)
			}
		}
	}
	fill(b, "1", "stuck", "stuck too", "fine")
	require.NoError(t, b.Close(t.Context()))

	b = start(t, o)
	hold := make(chan struct{})
	came, acks := map[string]*box[string]{}, make(chan mq.Delivery, 10*each)
	for table := range topics {
		came[table] = &box[string]{}
	}
	c, err := b.Consume(context.Background(), mqtest.Work(func(d mq.Delivery) {
		table := d.Chunk().Table
		came[table].add(string(d.Chunk().Body))
		if table == "fine" {
			acks <- d
			return
		}
		select {
		case <-hold:
			acks <- d
		default:
			go func() { <-hold; acks <- d }()
		}
	}))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; n < 6*each; n++ {
			if err := c.Ack(<-acks); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })

	came["fine"].await(t, each)
	fill(b, "2", "fine", "stuck", "stuck too")
	came["fine"].await(t, 2*each)
	passer, ok := c.(mq.Passer)
	require.True(t, ok)
	require.True(t, passer.Passed(topics["stuck"]), "some of its chunks are before the newest, and were not delivered")
	require.False(t, passer.Passed(topics["fine"]))
	require.Less(t, len(came["stuck"].list())+len(came["stuck too"].list()), 20)

	close(hold)
	for table, got := range came {
		got.await(t, 2*each)
		want := make([]string, 0, 2*each)
		for _, round := range []string{"1", "2"} {
			for n := range each {
				want = append(want, fmt.Sprintf("%s %03d", round, n))
			}
		}
		require.Equal(t, want, got.list(), table)
	}
	<-done
	require.Eventually(t, func() bool {
		return statusOf(t, b, "birch").Pending == 0 && !passer.Passed(topics["stuck"]) && !passer.Passed(topics["stuck too"])
	}, time.Minute, 10*time.Millisecond)
	q, _ := b.known("birch")
	q.mu.Lock()
	defer q.mu.Unlock()
	require.Zero(t, q.waiting.total, "nothing is left of what was counted")
	require.Empty(t, q.source.opened)
}
