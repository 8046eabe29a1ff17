package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// What is remembered of a busy table is bounded, and what is forgotten counts
// as not known.
func TestWatchedTablesAreBounded(t *testing.T) {
	a := NewWatches(nil)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	v, err := a.Watch(topic)
	require.NoError(t, err)
	at := func(seq int) mq.Position { return mq.NewPosition(1, uint64(seq)) }
	parked := func(seq, row int) notice.ParkedRow { return notice.ParkedRow{Chunk: at(seq), Row: row, Message: "no"} }
	tell := func(n notice.Written) {
		n.Topic = topic
		a.Told([]notice.Notice{n})
	}
	for seq := 1; seq <= maxRecentChunks+10; seq++ {
		tell(notice.Written{Parked: []notice.ParkedRow{parked(seq, 7)}})
		tell(notice.Written{Settled: []mq.Position{at(seq)}})
	}
	on := a.topics[topic]
	assert.Len(t, on.recent, maxRecentChunks)
	assert.Len(t, on.ring, maxRecentChunks)
	assert.Equal(t, maxRecentChunks, on.rows)
	assert.Empty(t, on.open)
	assert.NotContains(t, on.recent, at(10))
	require.Len(t, on.recent[at(11)].Parked, 1)

	var many []notice.ParkedRow
	for row := range maxWatchedRows + 1 {
		many = append(many, parked(9000, row))
	}
	tell(notice.Written{Parked: many, Settled: []mq.Position{at(9000)}})
	assert.True(t, on.recent[at(9000)].Unknown)
	assert.LessOrEqual(t, on.rows, maxWatchedRows)

	// A message that cannot be read has rows that nobody knows.
	tell(notice.Written{Parked: []notice.ParkedRow{parked(9001, -1)}})
	tell(notice.Written{Settled: []mq.Position{at(9001)}})
	found := v.Wait(t.Context(), []mq.Position{at(9001), at(9001)})
	assert.True(t, found[at(9001)].Unknown)
	v.Close()
	assert.Empty(t, a.topics)
	tell(notice.Written{Parked: []notice.ParkedRow{parked(1, 1)}, Settled: []mq.Position{at(1)}}) // nobody waits
	assert.Empty(t, a.topics)
}

// As many requests wait as may, and a tenant that has its share is refused, and
// no other.
func TestWatchesAreShared(t *testing.T) {
	a := NewWatches(nil)
	watch := func(id tenant.ID, n int) (all []*Watch) {
		for i := range n {
			v, err := a.Watch(mq.Topic{Tenant: id, Table: fmt.Sprint("t", i%7)})
			require.NoError(t, err)
			all = append(all, v)
		}
		return all
	}
	refused := func(id tenant.ID) {
		t.Helper()
		_, err := a.Watch(mq.Topic{Tenant: id})
		require.ErrorIs(t, err, ErrTooManyWatches)
	}
	all := watch("birch", maxWatches/2)
	refused("birch")
	all = append(all, watch("cedar", maxWatches/4)...)
	refused("cedar")
	refused("birch")
	maple := watch("maple", 100)
	for _, v := range append(maple, all[0]) {
		v.Close()
	}
	refused("birch")
	all = append(all[1:], watch("cedar", 1)...)
	for _, v := range all {
		v.Close()
	}
	assert.Empty(t, a.topics, "what nobody waits for is forgotten")
	watch("birch", maxWatches/2)
}

// Who may have missed a notice asks the queue, and claims to know no more than
// that the chunk is done with. Who began to wait later missed nothing.
func TestWatchAsksTheQueueAfterALoss(t *testing.T) {
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	at := func(seq uint64) mq.Position { return mq.NewPosition(1, seq) }
	asked := 0
	a := NewWatches(func(_ context.Context, of mq.Topic) (mq.Position, error) {
		require.Equal(t, topic, of)
		if asked++; asked == 1 {
			return mq.Position{}, errors.New("away")
		}
		return at(uint64(asked)), nil
	})
	before, err := a.Watch(topic)
	require.NoError(t, err)
	a.Told([]notice.Notice{notice.Written{Topic: topic, Settled: []mq.Position{at(1)}}, notice.Lost{}})
	after, err := a.Watch(topic)
	require.NoError(t, err)
	found := before.Wait(t.Context(), []mq.Position{at(1), at(2), at(3)})
	unknown := Settled{Unknown: true}
	assert.Equal(t, map[mq.Position]Settled{at(1): unknown, at(2): unknown, at(3): unknown}, found)
	before.Close()

	a.Told([]notice.Notice{notice.Written{Topic: topic, Settled: []mq.Position{at(4)}}})
	assert.Equal(t, map[mq.Position]Settled{at(4): {}}, after.Wait(t.Context(), []mq.Position{at(4)}))
	after.Close()
	assert.Equal(t, 3, asked)
	assert.Empty(t, a.topics)
}
