package mqtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func letterCases() []testCase {
	return []testCase{
		{name: "letters/come back as they were parked", run: letterContent},
		{name: "letters/counted per table", run: letterCounts},
		{name: "letters/listed by cursor", run: letterPages},
		{name: "letters/discarded", run: letterDiscard},
		{name: "letters/discarded up to one", run: letterDiscardThrough},
		{name: "letters/each leaves once", run: letterDiscardOnce},
		{name: "letters/very many, and large ones", run: letterMany},
		{name: "letters/of a whole chunk, and cut when larger", run: letterLarge},
	}
}

// Letter returns a dead letter of a table.
func Letter(t tenant.ID, table, row string) mq.DeadLetter {
	c := Chunk(t, table, "")
	c.Rows, c.Encoding, c.IDs = 1, "", 0
	return mq.DeadLetter{
		Topic: c.Topic, Header: c.Header, Row: []byte(row),
		Error: " Code: 27. é%0a\r\n\tCannot parse\x00 ", Code: "27",
		At:     time.Date(2026, 4, 5, 6, 7, 8, 9, time.UTC),
		Source: mq.NewPosition(1<<60, 12), SourceRow: 7,
	}
}

func park(t *testing.T, b mq.Broker, id tenant.ID, table string, n int) {
	t.Helper()
	var letters []mq.DeadLetter
	for i := range n {
		letters = append(letters, Letter(id, table, fmt.Sprint("row ", i)))
	}
	require.NoError(t, b.Park(t.Context(), letters...))
}

func lettersOf(t *testing.T, b mq.Broker, id tenant.ID) mq.DeadLetterStore {
	t.Helper()
	s, err := b.DeadLetters(id)
	require.NoError(t, err)
	return s
}

func list(t *testing.T, s mq.DeadLetterStore, table string) []mq.DeadLetter {
	t.Helper()
	page, err := s.List(t.Context(), table, 1000, "")
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Letters
}

func letterContent(t *testing.T, s Store) {
	b := open(t, s)
	whole := Letter("birch", "a b", "row")
	raw := mq.DeadLetter{Topic: mq.Topic{Tenant: "birch"}, Row: []byte("not a chunk"), At: whole.At, Error: "unreadable", Code: "message.malformed"}
	require.NoError(t, b.Park(t.Context(), whole, raw))
	b = reopen(t, s, b)
	store := lettersOf(t, b, "birch")
	for _, want := range []mq.DeadLetter{whole, raw} {
		got := list(t, store, want.Table)
		require.Len(t, got, 1)
		require.NotEmpty(t, got[0].ID)
		want.ID = got[0].ID
		require.Equal(t, want, got[0])
		one, ok, err := store.Get(t.Context(), want.ID)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, one)
	}
	for _, id := range []string{"", "nonsense", got(list(t, store, "a b")).ID + "9"} {
		_, ok, err := store.Get(t.Context(), id)
		require.NoError(t, err)
		require.False(t, ok)
	}
}

func got(l []mq.DeadLetter) mq.DeadLetter { return l[0] }

func letterCounts(t *testing.T, s Store) {
	b := open(t, s)
	counts, err := lettersOf(t, b, "birch").Counts(t.Context())
	require.NoError(t, err)
	require.Empty(t, counts)
	park(t, b, "birch", "a", 3)
	park(t, b, "birch", "a.b", 300)
	park(t, b, "birch", "b", 1)
	park(t, b, "cedar", "a", 2)
	counts, err = lettersOf(t, b, "birch").Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"a": 3, "a.b": 300, "b": 1}, counts)
	require.Len(t, list(t, lettersOf(t, b, "birch"), "a"), 3)
	require.Len(t, list(t, lettersOf(t, b, "cedar"), "a"), 2)
	require.Empty(t, list(t, lettersOf(t, b, "cedar"), "b"))
	require.Empty(t, list(t, lettersOf(t, b, "dogwood"), "b"))
}

func letterPages(t *testing.T, s Store) {
	b := open(t, s)
	park(t, b, "birch", "a", 7)
	park(t, b, "birch", "other", 4)
	park(t, b, "birch", "a", 5)
	store := lettersOf(t, b, "birch")
	var rows []string
	pages, cursor := 0, ""
	for {
		page, err := store.List(t.Context(), "a", 4, cursor)
		require.NoError(t, err)
		for _, l := range page.Letters {
			rows = append(rows, string(l.Row))
		}
		pages++
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, 3, pages)
	require.Len(t, rows, 12)
	require.Equal(t, "row 0", rows[0])
	require.Equal(t, "row 6", rows[6])
	require.Equal(t, "row 4", rows[11])
	for _, limit := range []int{0, -1, 1001} {
		_, err := store.List(t.Context(), "a", limit, "")
		require.Error(t, err)
	}
	_, err := store.List(t.Context(), "a", 4, "garbage")
	require.ErrorIs(t, err, mq.ErrBadCursor)
	third := list(t, store, "a")[2].ID
	page, err := store.List(t.Context(), "a", 1, third)
	require.NoError(t, err)
	require.Equal(t, "row 3", string(page.Letters[0].Row), "a letter's id is a cursor")
}

func letterDiscard(t *testing.T, s Store) {
	b := open(t, s)
	store := lettersOf(t, b, "birch")
	n, err := store.Discard(t.Context(), "x")
	require.NoError(t, err)
	require.Zero(t, n)
	park(t, b, "birch", "a", 5)
	letters := list(t, store, "a")
	n, err = store.Discard(t.Context(), letters[1].ID, letters[3].ID, letters[1].ID, "nonsense")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	b = reopen(t, s, b)
	left := list(t, lettersOf(t, b, "birch"), "a")
	require.Equal(t, []mq.DeadLetter{letters[0], letters[2], letters[4]}, left)
}

func letterDiscardThrough(t *testing.T, s Store) {
	b := open(t, s)
	store := lettersOf(t, b, "birch")
	n, err := store.DiscardThrough(t.Context(), "a", "x")
	require.NoError(t, err)
	require.Zero(t, n)
	park(t, b, "birch", "a", 5)
	park(t, b, "birch", "a.b", 3)
	park(t, b, "birch", "a", 5)
	letters, others := list(t, store, "a"), list(t, store, "a.b")
	n, err = store.Discard(t.Context(), letters[1].ID, letters[3].ID)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = store.DiscardThrough(t.Context(), "a", letters[3].ID)
	require.NoError(t, err)
	require.Equal(t, 2, n, "those that are left, up to one that is gone")
	n, err = store.DiscardThrough(t.Context(), "a", letters[6].ID)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	b = reopen(t, s, b)
	require.Equal(t, letters[7:], list(t, lettersOf(t, b, "birch"), "a"))
	require.Equal(t, others, list(t, lettersOf(t, b, "birch"), "a.b"))
	n, err = lettersOf(t, b, "birch").DiscardThrough(t.Context(), "a", letters[9].ID)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	counts, err := lettersOf(t, b, "birch").Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"a.b": 3}, counts)
}

func letterDiscardOnce(t *testing.T, s Store) {
	b := open(t, s)
	park(t, b, "birch", "a", 200)
	letters := list(t, lettersOf(t, b, "birch"), "a")
	var ids []string
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	counted := make(chan int, 4)
	for i := range 4 {
		store := lettersOf(t, b, "birch")
		go func() {
			var n int
			var err error
			if i%2 == 0 {
				n, err = store.Discard(t.Context(), ids...)
			} else {
				n, err = store.DiscardThrough(t.Context(), "a", ids[len(ids)-1])
			}
			if err != nil {
				n = -1000
			}
			counted <- n
		}()
	}
	total := 0
	for range 4 {
		total += <-counted
	}
	require.Equal(t, 200, total)
}

func letterMany(t *testing.T, s Store) {
	b := open(t, s)
	park(t, b, "birch", "a", 2500)
	var large []mq.DeadLetter
	for i := range 40 {
		l := Letter("birch", "large", strings.Repeat(string(rune('a'+i%26)), 500<<10))
		large = append(large, l)
	}
	require.NoError(t, b.Park(t.Context(), large...))
	b = reopen(t, s, b)
	store := lettersOf(t, b, "birch")
	counts, err := store.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"a": 2500, "large": 40}, counts)
	var rows []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := store.List(t.Context(), "a", 1000, cursor)
		require.NoError(t, err)
		for _, l := range page.Letters {
			rows = append(rows, string(l.Row))
		}
		cursor = page.Next
	}
	for i, row := range rows {
		require.Equal(t, fmt.Sprint("row ", i), row, "in order")
	}
	require.Len(t, rows, 2500)
	page, err := store.List(t.Context(), "large", 1000, "")
	require.NoError(t, err)
	require.Less(t, len(page.Letters), 40, "a page is bounded by its bytes")
	require.NotEmpty(t, page.Next)
	require.Equal(t, large[0].Row, page.Letters[0].Row)
}

// letterLarge: a chunk that cannot be read is parked whole, and a message that
// is no chunk as far as there is room.
func letterLarge(t *testing.T, s Store) {
	b := open(t, s)
	whole := Letter("birch", "t", string(make([]byte, b.MaxChunkBytes())))
	whole.Version, whole.Rows, whole.Error = "", 0, strings.Repeat("\x00", 8<<10)
	require.NoError(t, b.Park(t.Context(), whole))
	raw := mq.DeadLetter{Topic: mq.Topic{Tenant: "birch", Table: "raw"}, Row: []byte(strings.Repeat("r", 9<<20)), Error: "unreadable"}
	require.NoError(t, b.Park(t.Context(), raw))
	store := lettersOf(t, b, "birch")
	require.Len(t, got(list(t, store, "t")).Row, b.MaxChunkBytes())
	kept := got(list(t, store, "raw"))
	require.GreaterOrEqual(t, len(kept.Row), b.MaxChunkBytes())
	require.Equal(t, len(kept.Row) < len(raw.Row), strings.Contains(kept.Error, fmt.Sprint(len(raw.Row))), "%q says so when it is cut", kept.Error)
}
