package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// testIDs has the same key in each call.
func testIDs(t mq.Topic) idCodec { return idsUnder("a key of tests").of(t) }

func idsUnder(secret string) *IDs {
	ids, err := NewIDs([]byte(secret))
	if err != nil {
		panic(err)
	}
	return ids
}

var pages = mq.Topic{Tenant: "0", Table: "pages"}

func TestIDsReadBack(t *testing.T) {
	const epoch = 1_790_000_000_123_456_789
	ids := testIDs(pages)
	tail := mq.NewPosition(epoch, maxPlace)
	for _, p := range []position{
		after(mq.Position{}), after(mq.NewPosition(epoch, 0)), after(mq.NewPosition(epoch, 1)), after(tail),
		{Position: tail, row: idWhole - 1}, {Position: mq.NewPosition(epoch, 300), row: 0},
	} {
		id := ids.encode(p)
		assert.Len(t, id, idChars)
		said, err := ids.parse(id)
		require.NoError(t, err, "%+v", p)
		got, ok := said.in(tail)
		assert.True(t, ok)
		assert.Equal(t, p, got)
	}
}

func TestIDsThatAreOfNoPlaceInTheQueue(t *testing.T) {
	ids := testIDs(pages)
	tail := mq.NewPosition(7, 10)
	for name, id := range map[string]string{
		"ahead":                 ids.encode(after(mq.NewPosition(7, 11))),
		"far ahead":             ids.encode(after(mq.NewPosition(7, math.MaxUint64))),
		"of another queue":      ids.encode(after(mq.NewPosition(8, 3))),
		"a row of no chunk":     ids.encode(position{Position: mq.NewPosition(7, 0), row: 3}),
		"under another key":     idsUnder("another").of(pages).encode(after(mq.NewPosition(7, 3))),
		"of a plain form":       "AVelVce5YKYFCkirYg",
		"of one row, long gone": ids.encode(position{Position: mq.NewPosition(6, 1), row: 3}),
	} {
		said, err := ids.parse(id)
		require.NoError(t, err, name)
		_, ok := said.in(tail)
		assert.False(t, ok, name)
	}
}

func TestIDsThatAreNot(t *testing.T) {
	ids := testIDs(pages)
	id := ids.encode(position{Position: mq.NewPosition(12345, 678), row: 9})
	bad := map[string]string{
		"empty": "", "garbage": "garbage", "spaces": " " + id, "padding": id + "=", "doubled": id + id, "not base64": id[:23] + "!",
		"ten kilobytes": strings.Repeat("a", 10<<10), "of a version to come": "f" + id[1:], "a plain one that was changed": "AVelVce5YKYFCkirYh",
	}
	for i := range id {
		bad["cut at "+id[:i]] = id[:i]
	}
	for name, text := range bad {
		_, err := ids.parse(text)
		assert.ErrorIs(t, err, errNotAPosition, name)
	}
}

// A changed id is none of this topic: it leads nowhere.
func TestIDsThatWereChanged(t *testing.T) {
	ids := testIDs(pages)
	tail := mq.NewPosition(12345, 1000)
	id := ids.encode(position{Position: mq.NewPosition(12345, 678), row: 9})
	for i := range id {
		flipped := []byte(id)
		flipped[i] = 'A' + (flipped[i]+1)%26
		if string(flipped) == id {
			continue
		}
		if said, err := ids.parse(string(flipped)); err == nil {
			_, ok := said.in(tail)
			assert.False(t, ok, "%s", flipped)
		}
	}
}

// Who sees ids learns nothing of what lies between them: neither how many rows of
// others there are, nor how many chunks.
func TestIDsDoNotCount(t *testing.T) {
	ids := testIDs(pages)
	seen := map[string]bool{}
	clear := ids.encode(after(mq.NewPosition(7, 0)))[:2]
	for seq := range uint64(200) {
		for row := range uint32(5) {
			id := ids.encode(position{Position: mq.NewPosition(7, seq+1), row: row})
			assert.Equal(t, clear, id[:2], "the same for all")
			rest := id[3:11]
			assert.False(t, seen[rest], "part of an id is what it was")
			seen[rest] = true
		}
	}
}

func TestIDsOfAnotherTableOrTenant(t *testing.T) {
	id := testIDs(pages).encode(after(mq.NewPosition(1, 1)))
	for _, other := range []mq.Topic{{Tenant: "0", Table: "page"}, {Tenant: "1", Table: "pages"}, {Tenant: "0p", Table: "ages"}} {
		_, err := testIDs(other).parse(id)
		assert.ErrorIs(t, err, errOtherTable, "%v", other)
	}
}

func FuzzID(f *testing.F) {
	ids := testIDs(pages)
	f.Add(ids.encode(position{Position: mq.NewPosition(12345, 678), row: 9}))
	f.Add("garbage")
	f.Add("AVelVce5YKYFCkirYg")
	f.Fuzz(func(t *testing.T, id string) {
		said, err := ids.parse(id)
		if err != nil || said.foreign {
			return
		}
		if p, ok := said.in(mq.NewPosition(12345, maxPlace)); ok {
			assert.Equal(t, id, ids.encode(p), "one spelling per position")
		}
	})
}
