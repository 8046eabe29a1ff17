package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// ask returns the rows of a question, its texts copied.
func ask(ctx context.Context, pool *clickhouse.Pool, sql string, columns int) (rows [][]string, err error) {
	err = pool.EachRow(ctx, sql, columns, func(row []string) error {
		rows = append(rows, append([]string(nil), row...))
		return nil
	})
	return rows, err
}

// testQuestions is what holds over every protocol.
func testQuestions(t *testing.T, s *clickhousetest.Server, pool *clickhouse.Pool) {
	t.Helper()
	require.NoError(t, pool.Ping(t.Context()))
	rows, err := ask(t.Context(), pool, "SELECT toString(number), repeat('x', number) FROM numbers(3)", 2)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"0", ""}, {"1", "x"}, {"2", "xx"}}, rows)
	rows, err = ask(t.Context(), pool, `SELECT 'a\0b\n', unhex('FF61'), repeat('y', 1000000), currentDatabase()`, 4)
	require.NoError(t, err)
	require.True(t, slices.EqualFunc(rows, [][]string{{"a\x00b\n", "\xffa", strings.Repeat("y", 1_000_000), s.Database}}, slices.Equal))
	rows, err = ask(t.Context(), pool, "SELECT '' WHERE 0", 1)
	require.NoError(t, err)
	require.Empty(t, rows)
	rows, err = ask(t.Context(), pool, "SELECT toString(number) FROM numbers(300000)", 1)
	require.NoError(t, err)
	require.Len(t, rows, 300_000)
	rows, err = ask(t.Context(), pool, "EXPLAIN AST SELECT 1 FORMAT JSON", 1)
	require.NoError(t, err)
	require.NotEmpty(t, rows, "a format in the statement is not that of the answer")

	_, err = ask(t.Context(), pool, "SELECT * FROM nosuch", 1)
	require.Equal(t, clickhouse.ClassRejected, clickhouse.Classify(err))
	require.Equal(t, 60, asError(t, err).Code)
	_, err = ask(t.Context(), pool, "SELECT toString(throwIf(number = 200000)) FROM numbers(300000) SETTINGS max_block_size = 1000", 1)
	require.Equal(t, 395, asError(t, err).Code, "what fails in the middle is no end")
	enough := errors.New("enough")
	n := 0
	require.Same(t, enough, pool.EachRow(t.Context(), "SELECT toString(number) FROM numbers(1000000)", 1, func([]string) error {
		if n++; n == 2 {
			return enough
		}
		return nil
	}))
	require.Equal(t, 2, n)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = ask(ctx, pool, "SELECT toString(sleepEachRow(1)) FROM numbers(30) SETTINGS max_block_size = 1", 1)
	require.ErrorIs(t, err, clickhouse.ErrAway)
	require.NoError(t, pool.Ping(t.Context()))
}

func TestQuestionsOverHTTP(t *testing.T) {
	s := clickhousetest.Start(t)
	testQuestions(t, s, poolOf(t, configOf(s)))
}

func TestQuestionsAreNotHeldUpByStatements(t *testing.T) {
	s := clickhousetest.Start(t)
	c := configOf(s)
	c.MaxOpenConns, c.QueryTimeout = 1, 0
	pool := poolOf(t, c)
	held, err := pool.Query(t.Context(), clickhouse.Request{SQL: "SELECT 1"})
	require.NoError(t, err)
	defer held.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, pool.Ping(ctx))
}

// A user of a profile whose settings are fixed can be asked, too.
func TestQuestionsCarryNoSettings(t *testing.T) {
	s := clickhousetest.Start(t)
	c := configOf(s)
	c.Username = clickhousetest.ReaderUser
	pool := poolOf(t, c)
	require.NoError(t, pool.Ping(t.Context()))
	_, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.Equal(t, 164, asError(t, err).Code, "as one with settings is refused")
}

func TestQuestionsShareAConnection(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := counted(t, s)
	for range 20 {
		require.NoError(t, pool.Ping(t.Context()))
	}
	require.Equal(t, 1, proxy.Accepted())
	proxy.Cut()
	require.NoError(t, pool.Ping(t.Context()), "one that was cut is replaced")
}

// What answers may be anything.
func TestAnswersThatAreNotClickHouses(t *testing.T) {
	const format = "RowBinary"
	answer := func(w http.ResponseWriter, format, body string) {
		w.Header().Set("X-ClickHouse-Format", format)
		_, _ = w.Write([]byte(body))
	}
	for name, c := range map[string]struct {
		format, body string
		class        clickhouse.Class
	}{
		"a page":            {"", "<html>", clickhouse.ClassMisconfigured},
		"another format":    {"TSV", "26.7\n", clickhouse.ClassMisconfigured},
		"an endless number": {format, strings.Repeat("\xff", 20), clickhouse.ClassMisconfigured},
		"a text too long":   {format, "\xff\xff\xff\xff\x7f", clickhouse.ClassMisconfigured},
		"half a row":        {format, "\x02ok\x05abc", clickhouse.ClassUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			pool := stub(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, c.format, c.body) })
			_, err := ask(t.Context(), pool, "SELECT 'a'", 1)
			require.Equal(t, c.class, clickhouse.ClassifyRead(err), "%v", err)
			require.ErrorContains(t, err, "clickhouse.addr of tenant birch")
		})
	}
	pool := stub(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, format, "\x02ok") })
	rows, err := ask(t.Context(), pool, "SELECT 'ok'", 1)
	require.NoError(t, err)
	require.Equal(t, "[[ok]]", fmt.Sprint(rows))
}
