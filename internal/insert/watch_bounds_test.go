package insert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// What is remembered of a busy table is bounded, and what is forgotten counts
// as not known.
func TestWatchedTablesAreBounded(t *testing.T) {
	a := newWatches()
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	v, err := a.watch(topic)
	require.NoError(t, err)
	at := func(seq int) mq.Position { return mq.NewPosition(1, uint64(seq)) }
	letter := func(seq, row int) mq.DeadLetter {
		return mq.DeadLetter{
			Topic: topic, Header: mq.Header{Version: mq.Version}, Source: at(seq), SourceRow: row, Error: strings.Repeat("é", 1000),
		}
	}
	for seq := 1; seq <= maxRecentChunks+10; seq++ {
		a.parked([]mq.DeadLetter{letter(seq, 7)})
		a.settled(topic, []mq.Position{at(seq)})
	}
	on := a.topics[topic]
	assert.Len(t, on.recent, maxRecentChunks)
	assert.Len(t, on.ring, maxRecentChunks)
	assert.Equal(t, maxRecentChunks, on.rows)
	assert.Empty(t, on.open)
	assert.NotContains(t, on.recent, at(10))
	kept := on.recent[at(11)].Parked
	require.Len(t, kept, 1)
	assert.LessOrEqual(t, len(kept[0].Message), maxWatchedMessage+4)

	var many []mq.DeadLetter
	for row := range maxWatchedRows + 1 {
		many = append(many, letter(9000, row))
	}
	a.parked(many)
	a.settled(topic, []mq.Position{at(9000)})
	assert.True(t, on.recent[at(9000)].Unknown)
	assert.LessOrEqual(t, on.rows, maxWatchedRows)

	// A message that cannot be read has rows that nobody knows.
	unreadable := letter(9001, 0)
	unreadable.Version = ""
	a.parked([]mq.DeadLetter{unreadable})
	a.settled(topic, []mq.Position{at(9001)})
	found := v.Wait(t.Context(), []mq.Position{at(9001), at(9001)})
	assert.True(t, found[at(9001)].Unknown)
	v.Close()
	assert.Empty(t, a.topics)
	a.parked([]mq.DeadLetter{letter(1, 1)}) // nobody waits
	a.settled(topic, []mq.Position{at(1)})
	assert.Empty(t, a.topics)
}
