package clickhouse_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// counted is a pool whose HTTP connections are counted.
func counted(t *testing.T, s *clickhousetest.Server) (*clickhouse.Pool, *clickhousetest.TCPProxy) {
	t.Helper()
	proxy := clickhousetest.NewTCPProxy(t, s.HTTPAddr())
	c := configOf(s)
	c.HTTPPort = proxy.Port()
	return poolOf(t, c), proxy
}

// all reads an answer as its callers do who want it whole.
func all(ctx context.Context, pool *clickhouse.Pool, q clickhouse.Request) (string, error) {
	resp, err := pool.Query(ctx, q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := resp.ReadAll()
	return string(text), err
}

func TestReadsShareAConnectionThatWasReadToItsEnd(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := counted(t, s)
	for i := range 30 {
		got, err := all(t.Context(), pool, clickhouse.Request{SQL: fmt.Sprintf("SELECT %d", i), ReadOnly: true})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d\n", i), got)
	}
	got, err := all(t.Context(), pool, clickhouse.Request{SQL: "SELECT number FROM numbers(300000) FORMAT TSV", ReadOnly: true})
	require.NoError(t, err)
	assert.Equal(t, 300_000, strings.Count(got, "\n"))
	_, err = all(t.Context(), pool, clickhouse.Request{SQL: "SELECT nothing", ReadOnly: true})
	assert.Equal(t, 47, asError(t, err).Code)
	_, err = all(t.Context(), pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.NoError(t, err)
	assert.LessOrEqual(t, proxy.Accepted(), 2, "a failure alone may cost a connection")
}

func TestAnAnswerThatIsLeftEndsItsConnection(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, _ := counted(t, s)
	id := "left-" + s.Database
	resp, err := pool.Query(t.Context(), clickhouse.Request{SQL: "SELECT number FROM numbers(100000000000) FORMAT TSV", Settings: map[string]string{"query_id": id}, ReadOnly: true})
	require.NoError(t, err)
	some := make([]byte, 2)
	_, err = resp.Body.Read(some)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = resp.Body.Read(some)
	require.Error(t, err, "nothing is read after Close")
	require.Eventually(t, func() bool {
		return s.Value(t, "SELECT count() FROM system.processes WHERE query_id = '"+id+"'") == "0"
	}, time.Minute, 10*time.Millisecond)
	got, err := all(t.Context(), pool, clickhouse.Request{SQL: "SELECT 7", ReadOnly: true})
	require.NoError(t, err)
	require.Equal(t, "7\n", got)
}

// Answers are never mixed up, whatever becomes of the requests before.
func TestAConnectionHasOneRequestAtATime(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := counted(t, s)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 40 {
				want := fmt.Sprintf("%d", worker*1000+i)
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 4 {
					time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
				}
				got, err := all(ctx, pool, clickhouse.Request{SQL: "SELECT " + want, ReadOnly: true})
				if err == nil {
					assert.Equal(t, want+"\n", got)
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assert.Positive(t, proxy.Accepted())
}

func TestAKeptConnectionThatWasCutIsReplaced(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := counted(t, s)
	for range 20 {
		_, err := all(t.Context(), pool, clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
		require.NoError(t, err)
		proxy.Cut()
	}
}

func TestTheCapHoldsForAnAnswerThatIsReadWhole(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	for _, size := range []int{0, 1000, 32 << 10, 100_000} {
		q := clickhouse.Request{SQL: fmt.Sprintf("SELECT repeat('x', %d) FORMAT RawBLOB", size), ReadOnly: true, MaxResponseBytes: int64(max(size, 1))}
		got, err := all(t.Context(), pool, q)
		require.NoError(t, err, "exactly the cap passes")
		require.Len(t, got, size)
		if q.MaxResponseBytes--; q.MaxResponseBytes > 0 {
			_, err = all(t.Context(), pool, q)
			require.Equal(t, clickhouse.ClassTooLarge, clickhouse.Classify(err), "%d bytes", size)
		}
	}
}

// A header that cannot be sent fails the statement, and is not sent in part.
func TestAHeaderCannotCarryALine(t *testing.T) {
	s := clickhousetest.Start(t)
	proxy := clickhousetest.NewFaultProxy(t, s.HTTPAddr())
	c := configOf(s)
	c.HTTPPort = proxy.Port()
	c.Headers = map[string]string{"X-Note": "a\r\nX-ClickHouse-User: admin"}
	_, err := all(t.Context(), poolOf(t, c), clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.Error(t, err)
	assert.Zero(t, proxy.Count())
	c.Headers = map[string]string{"x-note": "tea", "X_Odd.Name~": "biscuit", "Authorization": "Basic eDp5"}
	_, err = all(t.Context(), poolOf(t, c), clickhouse.Request{SQL: "SELECT 1", ReadOnly: true})
	require.NoError(t, err)
	sent := proxy.Requests()[0].Header
	assert.Equal(t, "tea", sent.Get("X-Note"))
	assert.Equal(t, "biscuit", sent.Get("X_Odd.Name~"))
	assert.Empty(t, sent.Get("Authorization"))
}
