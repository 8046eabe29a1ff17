package insert

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
)

const twoColumns = `[{"name":"id","type":"UInt8"},{"name":"n","type":"UInt8"}]`

func testChunk(t *testing.T, seq uint64, rows ...[2]byte) *held {
	t.Helper()
	var body []byte
	for _, r := range rows {
		body = append(body, r[0], r[1])
	}
	m := mq.Chunk{
		Topic:  mq.Topic{Tenant: "birch", Table: "pages"},
		Header: mq.Header{Version: mq.Version, Format: mq.FormatRowBinary, Columns: twoColumns, Rows: len(rows)},
		Body:   body,
	}
	opened, err := chunk.NewOpener().Open(m)
	require.NoError(t, err)
	return &held{Chunk: opened, topic: m.Topic, header: m.Header, pos: mq.NewPosition(1, seq), left: len(rows)}
}

func insertionOf(cs ...*held) insertion {
	i := insertion{form: cs[0].Form, uncertain: true}
	for _, c := range cs {
		i.spans = append(i.spans, span{c: c, to: c.Rows})
	}
	return i
}

func TestInsertionBodyIsHeadAndRows(t *testing.T) {
	t.Parallel()
	c := testChunk(t, 1, [2]byte{1, 10}, [2]byte{2, 20}, [2]byte{3, 30})
	require.NoError(t, c.Split())
	j := insertionOf(c, testChunk(t, 2, [2]byte{4, 40}))
	j.spans[0].from = 1
	got, err := io.ReadAll(j.body())
	require.NoError(t, err)
	head := "\x02\x02id\x01n\x05UInt8\x05UInt8"
	assert.Equal(t, head+"\x02\x14\x03\x1e\x04\x28", string(got))
	assert.Equal(t, "INSERT INTO `pa``ges` (`id`, `n`) FORMAT RowBinaryWithNamesAndTypes", normalQuotes(j.statement("pa`ges")))
}

// normalQuotes allows both ways of escaping a backtick.
func normalQuotes(s string) string {
	out := []byte{}
	for i := range len(s) {
		if s[i] == '\\' {
			out = append(out, '`')
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func TestInsertionTokenNamesExactlyItsRows(t *testing.T) {
	t.Parallel()
	a, b := testChunk(t, 1, [2]byte{1, 1}, [2]byte{2, 2}), testChunk(t, 2, [2]byte{3, 3})
	same := insertionOf(a, b).token()
	assert.Equal(t, same, insertionOf(a, b).token())
	seen := map[string]bool{same: true}
	half := insertionOf(a)
	half.spans[0].to = 1
	for _, j := range []insertion{insertionOf(b, a), insertionOf(a), insertionOf(b), half} {
		assert.False(t, seen[j.token()], "two different sets of rows share a token")
		seen[j.token()] = true
	}
}

func TestInsertionSplitKeepsEveryRowInOrder(t *testing.T) {
	t.Parallel()
	var rows [][2]byte
	for i := range 100 {
		rows = append(rows, [2]byte{byte(i), 0})
	}
	for _, sizes := range [][]int{{100}, {1, 99}, {99, 1}, {33, 33, 34}, {1, 1, 98}, {50, 50}, {2}, {1, 1}} {
		var chunks []*held
		at := 0
		for i, n := range sizes {
			chunks = append(chunks, testChunk(t, uint64(i+1), rows[at:at+n]...))
			at += n
		}
		for _, parts := range []int{2, 16} {
			assertSplits(t, insertionOf(chunks...), parts)
		}
	}
}

// assertSplits splits down to single rows and expects every row once, in order.
func assertSplits(t *testing.T, j insertion, parts int) {
	t.Helper()
	var ids []byte
	var down func(j insertion)
	down = func(j insertion) {
		if j.rows() == 1 {
			require.NoError(t, j.spans[0].c.Split())
			ids = append(ids, j.spans[0].c.Slice(j.spans[0].from, j.spans[0].to)[0])
			return
		}
		split := j.split(parts)
		require.Greater(t, len(split), 1, "a split that does not split never ends")
		require.LessOrEqual(t, len(split), max(parts, 2))
		for _, p := range split {
			require.Positive(t, p.rows())
			require.True(t, p.uncertain, "rows that may be written stay so")
			down(p)
		}
	}
	down(j)
	require.Len(t, ids, j.rows())
	for i, id := range ids {
		require.Equal(t, byte(i), id)
	}
}

func TestInsertionAroundKeepsEveryRowInOrder(t *testing.T) {
	t.Parallel()
	var chunks []*held
	for i, n := range []int{3, 1, 4} {
		var rows [][2]byte
		for k := range n {
			rows = append(rows, [2]byte{byte(10*i + k), 0})
		}
		c := testChunk(t, uint64(i+1), rows...)
		require.NoError(t, c.Split())
		chunks = append(chunks, c)
	}
	want := []byte{0, 1, 2, 10, 20, 21, 22, 23}
	for at := range want {
		var ids []byte
		alone := false
		for _, p := range insertionOf(chunks...).around(at) {
			assert.True(t, p.uncertain)
			alone = alone || p.rows() == 1
			for _, s := range p.spans {
				for row := s.from; row < s.to; row++ {
					ids = append(ids, s.c.Slice(row, row+1)[0])
				}
			}
		}
		assert.Equal(t, want, ids, "around row %d", at)
		assert.True(t, alone)
	}
}

func TestRowAtFault(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]int{
		"Constraint `c` is violated at row 250. Expression: (n < 1000)": 249,
		"Cannot parse input: (at row 3)":                                2, "violated at row 1": 0,
		"at row ": -1, "at row zero": -1, "at row 0": -1, "no row": -1, "at row 99999999999999999999": -1,
	} {
		at, ok := rowAtFault(errors.New(message))
		assert.Equal(t, want >= 0, ok, message)
		if ok {
			assert.Equal(t, want, at, message)
		}
	}
}
