package api

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/query"
)

// pieces writes a text in pieces of random sizes.
func pieces(t *testing.T, w rowWriter, text string) {
	t.Helper()
	for text != "" {
		n := 1 + rand.IntN(min(len(text), 3*pieceBytes))
		written, err := w.Write([]byte(text[:n]))
		require.NoError(t, err)
		require.Equal(t, n, written)
		text = text[n:]
	}
}

func TestRowsAreSentAsTheyAre(t *testing.T) {
	for range 8 {
		var lines strings.Builder
		for range 8 {
			lines.WriteString(`{"text":"` + strings.Repeat("x", rand.IntN(4*pieceBytes)) + "\"}\n")
		}
		for _, rows := range append(renderings[:], rendered{}) {
			var out bytes.Buffer
			w := rendering{rows: rows}.writer(&out)
			pieces(t, w, lines.String())
			require.NoError(t, w.end())
			require.True(t, lines.String() == out.String(), rows.mediaType)
		}
		var out bytes.Buffer
		w := rendering{rows: renderings[0], array: true}.writer(&out)
		pieces(t, w, lines.String())
		require.NoError(t, w.end())
		require.True(t, string(arrayOfLines([]byte(lines.String()))) == out.String())
	}
}

func TestAnEmptyArrayIsOne(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, rendering{array: true}.writer(&out).end())
	require.Equal(t, "[]\n", out.String())
}

// However an answer is cut, what is told of it stands on a line of its own.
func TestAFailureStandsOnALineOfItsOwn(t *testing.T) {
	row := `{"text":"` + strings.Repeat("x", pieceBytes) + `"}`
	text := "[\n" + strings.Repeat(row+",\n", 5) + row
	told := map[string]any{"code": "clickhouse.unavailable", "error": "gone"}
	for range 50 {
		cut := rand.IntN(len(text))
		for _, as := range []rendering{{rows: renderings[0]}, {array: true}} {
			var out bytes.Buffer
			w := as.writer(&out)
			pieces(t, w, text[:cut])
			require.True(t, w.fail(told))
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			last := strings.TrimPrefix(lines[len(lines)-1], "[")
			var record map[string]map[string]any
			require.NoError(t, json.Unmarshal([]byte(last), &record), "%d: %.80s", cut, last)
			require.Equal(t, told, record[errorKey])
			require.False(t, json.Valid(out.Bytes()))
		}
		var out bytes.Buffer
		w := rendering{rows: rendered{"text/csv", query.FormatCSV}}.writer(&out)
		pieces(t, w, `a,"b`+"\n"+`""c"`+"\n1,\"2")
		require.True(t, w.fail(told))
		require.True(t, strings.HasSuffix(out.String(), "\"\n$error,clickhouse.unavailable,gone\n"))
		out.Reset()
		w = rendering{rows: rendered{"text/tab-separated-values", query.FormatTSV}}.writer(&out)
		pieces(t, w, "a\tb\n1\t2\n3")
		require.True(t, w.fail(map[string]any{"code": "clickhouse.unavailable", "error": "it\tis\ngone"}))
		require.Equal(t, "a\tb\n1\t2\n$error\tclickhouse.unavailable\tit\\tis\\ngone\n", out.String())
	}
}

func TestAnswersHaveAShareEach(t *testing.T) { synctest.Test(t, answersHaveAShareEach) }

func answersHaveAShareEach(t *testing.T) {
	a := NewAnswers(8*pieceBytes, 2*pieceBytes)
	first, err := a.begin(t.Context(), "a")
	require.NoError(t, err)
	require.False(t, first.hold(pieceBytes+1), "a part of all for one answer at most")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = a.begin(ctx, "a")
	require.ErrorIs(t, err, context.Canceled, "the caller left")
	other, err := a.begin(t.Context(), "b")
	require.NoError(t, err, "another tenant has room")
	_, err = a.begin(t.Context(), "c")
	require.Equal(t, "answers.busy", problemOf(err).Code)
	require.Equal(t, retryAnswers, problemOf(err).RetryAfter)
	require.True(t, first.hold(pieceBytes))
	first.end()
	other.end()
	require.Zero(t, a.pieces.Used()+a.whole.Used())
}
