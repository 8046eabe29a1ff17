package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestPositionIDsReadBack(t *testing.T) {
	ids := newIDCodec(mq.Topic{Tenant: "0", Table: "pages"})
	for _, p := range []position{
		after(mq.Position{}),
		after(mq.NewPosition(1, 1)),
		{Position: mq.NewPosition(math.MaxUint64, math.MaxUint64), row: wholeChunk - 1},
		{Position: mq.NewPosition(9, 300), row: 0},
	} {
		id := ids.encode(p)
		got, err := ids.parse(id)
		require.NoError(t, err, "%+v", p)
		assert.Equal(t, p, got)
		assert.LessOrEqual(t, len(id), maxIDBytes)
	}
}

func TestPositionIDOfABrowserThatWasOpenBefore(t *testing.T) {
	ids := newIDCodec(mq.Topic{Tenant: "0", Table: "pages"})
	p := position{Position: mq.NewPosition(12345, 678), row: 9}
	assert.Equal(t, "AVelVce5YKYFCkirYg", ids.encode(p))
	got, err := ids.parse("AVelVce5YKYFCkirYg")
	require.NoError(t, err)
	assert.Equal(t, p, got)
}

func TestPositionIDsThatAreNot(t *testing.T) {
	ids := newIDCodec(mq.Topic{Tenant: "0", Table: "pages"})
	id := ids.encode(position{Position: mq.NewPosition(12345, 678), row: 9})
	bad := map[string]string{
		"garbage": "garbage", "spaces": " " + id, "padding": id + "=", "doubled": id + id,
		"ten kilobytes": strings.Repeat("a", 10<<10), "row of no chunk": ids.encode(position{Position: mq.NewPosition(1, 0), row: 3}),
	}
	for i := range id {
		bad["cut at "+id[:i]] = id[:i]
		flipped := []byte(id)
		flipped[i] = 'A' + (flipped[i]+1)%26
		if string(flipped) != id {
			bad["changed to "+string(flipped)] = string(flipped)
		}
	}
	for name, text := range bad {
		_, err := ids.parse(text)
		assert.ErrorIs(t, err, errNotAPosition, name)
	}
}

func TestPositionIDsOfAnotherTableOrTenant(t *testing.T) {
	id := newIDCodec(mq.Topic{Tenant: "0", Table: "pages"}).encode(after(mq.NewPosition(1, 1)))
	for _, other := range []mq.Topic{{Tenant: "0", Table: "page"}, {Tenant: "1", Table: "pages"}, {Tenant: "0p", Table: "ages"}} {
		_, err := newIDCodec(other).parse(id)
		assert.ErrorIs(t, err, errOtherTable, "%v", other)
	}
}

func FuzzPositionID(f *testing.F) {
	ids := newIDCodec(mq.Topic{Tenant: "0", Table: "pages"})
	f.Add(ids.encode(position{Position: mq.NewPosition(12345, 678), row: 9}))
	f.Add("garbage")
	f.Fuzz(func(t *testing.T, id string) {
		p, err := ids.parse(id)
		if err == nil {
			assert.Equal(t, id, ids.encode(p), "one spelling per position")
		}
	})
}
