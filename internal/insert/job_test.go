package insert

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

const twoColumns = `[{"name":"id","type":"UInt8"},{"name":"n","type":"UInt8"}]`

func testChunk(t *testing.T, seq uint64, rows ...[2]byte) *chunk {
	t.Helper()
	s, err := newShapes().get(mq.Header{Format: mq.FormatRowBinary, Columns: twoColumns})
	require.NoError(t, err)
	c := &chunk{
		key: chunkKey{"birch", mq.NewPosition(1, seq)}, topic: mq.Topic{Tenant: "birch", Table: "pages"},
		shape: s, rows: len(rows), left: len(rows),
	}
	for _, r := range rows {
		c.body = append(c.body, r[0], r[1])
	}
	return c
}

func jobFor(cs ...*chunk) job {
	j := job{shape: cs[0].shape}
	for _, c := range cs {
		j.spans = append(j.spans, span{c: c, to: c.rows})
	}
	return j
}

func TestJobBodyIsHeadAndRows(t *testing.T) {
	c := testChunk(t, 1, [2]byte{1, 10}, [2]byte{2, 20}, [2]byte{3, 30})
	require.NoError(t, c.pair())
	j := jobFor(c, testChunk(t, 2, [2]byte{4, 40}))
	j.spans[0].from = 1
	body, err := j.body()
	require.NoError(t, err)
	got, err := io.ReadAll(body)
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

func TestJobTextRendersRows(t *testing.T) {
	j := jobFor(testChunk(t, 1, [2]byte{1, 10}, [2]byte{2, 20}))
	require.NoError(t, j.spans[0].c.pair())
	j.text = true
	body, err := j.body()
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "[1,10]\n[2,20]\n", string(got))
	assert.Equal(t, mq.FormatJSONCompactEachRow, j.format())
}

func TestJobTokenNamesExactlyItsRows(t *testing.T) {
	a, b := testChunk(t, 1, [2]byte{1, 1}, [2]byte{2, 2}), testChunk(t, 2, [2]byte{3, 3})
	same := jobFor(a, b).token()
	assert.Equal(t, same, jobFor(a, b).token())
	seen := map[string]bool{same: true}
	half := jobFor(a)
	half.spans[0].to = 1
	for _, j := range []job{jobFor(b, a), jobFor(a), jobFor(b), half} {
		assert.False(t, seen[j.token()], "two different sets of rows share a token")
		seen[j.token()] = true
	}
}

func TestJobSplitKeepsEveryRowInOrder(t *testing.T) {
	var rows [][2]byte
	for i := range 100 {
		rows = append(rows, [2]byte{byte(i), 0})
	}
	for _, sizes := range [][]int{{100}, {1, 99}, {99, 1}, {33, 33, 34}, {1, 1, 98}, {50, 50}, {2}, {1, 1}} {
		var chunks []*chunk
		at := 0
		for i, n := range sizes {
			chunks = append(chunks, testChunk(t, uint64(i+1), rows[at:at+n]...))
			at += n
		}
		for _, parts := range []int{2, 16} {
			assertSplits(t, jobFor(chunks...), parts)
		}
	}
}

// assertSplits splits down to single rows and expects every row once, in order.
func assertSplits(t *testing.T, j job, parts int) {
	t.Helper()
	var ids []byte
	var down func(j job)
	down = func(j job) {
		if j.rows() == 1 {
			require.NoError(t, j.spans[0].c.pair())
			ids = append(ids, j.spans[0].c.slice(j.spans[0].from, j.spans[0].to)[0])
			return
		}
		split := j.split(parts)
		require.Greater(t, len(split), 1, "a split that does not split never ends")
		require.LessOrEqual(t, len(split), max(parts, 2))
		for _, p := range split {
			require.Positive(t, p.rows())
			down(p)
		}
	}
	down(j)
	require.Len(t, ids, j.rows())
	for i, id := range ids {
		require.Equal(t, byte(i), id)
	}
}

func TestChunkThatDoesNotPairIsFound(t *testing.T) {
	c := testChunk(t, 1, [2]byte{1, 10})
	c.rows = 2
	assert.ErrorContains(t, c.pair(), "do not pair")
	lines, err := newShapes().get(mq.Header{Format: mq.FormatJSONCompactEachRow, Columns: twoColumns})
	require.NoError(t, err)
	text := &chunk{shape: lines, body: []byte("[1,2]\n[3,4]"), rows: 2}
	require.NoError(t, text.pair())
	assert.Equal(t, "[3,4]", string(text.slice(1, 2)))
	assert.Error(t, (&chunk{shape: lines, body: []byte("[1,2]\n"), rows: 2}).pair())
}

func TestShapesRefuseWhatCannotBeInserted(t *testing.T) {
	s := newShapes()
	for _, h := range []mq.Header{
		{Format: "CSV", Columns: twoColumns},
		{Format: mq.FormatRowBinary, Columns: `[]`},
		{Format: mq.FormatRowBinary, Columns: `{`},
		{Format: mq.FormatRowBinary, Columns: ``},
	} {
		_, err := s.get(h)
		assert.Error(t, err, "%+v", h)
	}
	a, err := s.get(mq.Header{Format: mq.FormatRowBinary, Columns: twoColumns})
	require.NoError(t, err)
	b, err := s.get(mq.Header{Format: mq.FormatRowBinary, Columns: twoColumns})
	require.NoError(t, err)
	assert.Same(t, a, b)
}

func TestJobAroundKeepsEveryRowInOrder(t *testing.T) {
	var chunks []*chunk
	for i, n := range []int{3, 1, 4} {
		var rows [][2]byte
		for k := range n {
			rows = append(rows, [2]byte{byte(10*i + k), 0})
		}
		c := testChunk(t, uint64(i+1), rows...)
		require.NoError(t, c.pair())
		chunks = append(chunks, c)
	}
	want := []byte{0, 1, 2, 10, 20, 21, 22, 23}
	for at := range want {
		var ids []byte
		alone := false
		for _, p := range jobFor(chunks...).around(at) {
			alone = alone || p.rows() == 1
			for _, s := range p.spans {
				for row := s.from; row < s.to; row++ {
					ids = append(ids, s.c.slice(row, row+1)[0])
				}
			}
		}
		assert.Equal(t, want, ids, "around row %d", at)
		assert.True(t, alone)
	}
}

func TestRowAtFault(t *testing.T) {
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
