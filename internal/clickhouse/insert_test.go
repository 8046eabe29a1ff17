package clickhouse_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func tsv(rows string, settings map[string]string) clickhouse.Request {
	return clickhouse.Request{SQL: "INSERT INTO t FORMAT TSV", Body: strings.NewReader(rows), Settings: settings}
}

func TestStatus200WithAnExceptionIsAFailure(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")
	pool, proxy := behind(t, s)
	for name, c := range map[string]struct {
		fault clickhousetest.Fault
		class clickhouse.Class
	}{
		"header":     {clickhousetest.Answer(200, http.Header{"X-Clickhouse-Exception-Code": {"209"}}, ""), clickhouse.ClassUnavailable},
		"body":       {clickhousetest.Answer(200, nil, "Code: 60. DB::Exception: no (UNKNOWN_TABLE)\n"), clickhouse.ClassRejected},
		"mid-stream": {clickhousetest.Answer(200, http.Header{"X-Clickhouse-Exception-Tag": {"abcd"}}, "\r\n__exception__\r\nabcd\r\nCode: 241. DB::Exception: x\n29 abcd\r\n__exception__\r\n"), clickhouse.ClassSplittable},
		"a web page": {clickhousetest.Answer(200, nil, "<html>welcome</html>"), clickhouse.ClassUnknown},
	} {
		proxy.Next(c.fault)
		err := pool.Insert(t.Context(), tsv("1\n", nil))
		require.Error(t, err, name)
		require.Equal(t, c.class, clickhouse.Classify(err), name)
	}
	require.NoError(t, pool.Insert(t.Context(), tsv("1\n", nil)))
	require.Equal(t, 1, s.Count(t, "t"))
}

func TestALostAnswerAndItsRepeatStoreOnce(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
	pool, proxy := behind(t, s)
	token := map[string]string{"insert_deduplication_token": "batch-1"}
	proxy.Next(clickhousetest.LoseResponse())
	err := pool.Insert(t.Context(), tsv("1\n2\n", token))
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	require.Equal(t, 1, proxy.Count(), "an INSERT is never repeated behind its caller's back")
	require.NoError(t, pool.Insert(t.Context(), tsv("1\n2\n", token)))
	require.Equal(t, 2, s.Count(t, "t"))
}

func TestAnAsynchronousProfileDoesNotHideARefusal(t *testing.T) {
	s := clickhousetest.Start(t)
	s.Exec(t, "CREATE TABLE t (n UInt64, CONSTRAINT c CHECK n < 10) ENGINE = MergeTree ORDER BY n")
	pool, proxy := behind(t, s, func(c *clickhouse.Config) { c.Username = clickhousetest.AsyncUser })
	require.Equal(t, clickhouse.ClassRejected, clickhouse.Classify(pool.Insert(t.Context(), tsv("50\n", nil))))
	require.NoError(t, pool.Insert(t.Context(), tsv("5\n", nil)))
	require.Equal(t, 1, s.Count(t, "t"))
	sent := proxy.Requests()[0].Query
	require.Equal(t, []string{"0", "1"}, []string{sent.Get("async_insert"), sent.Get("wait_for_async_insert")})
}

func TestALargeBodyThatIsRefusedAtOnceStillTellsWhy(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	body := bytes.Repeat([]byte("1\n"), 16<<20)
	err := pool.Insert(t.Context(), clickhouse.Request{SQL: "INSERT INTO nosuch FORMAT TSV", Body: bytes.NewReader(body)})
	require.Equal(t, 60, asError(t, err).Code)
	require.Equal(t, clickhouse.ClassRejected, clickhouse.Classify(err))
}

func TestThePasswordIsInHeadersOnly(t *testing.T) {
	s := clickhousetest.Start(t)
	pool, proxy := behind(t, s, func(c *clickhouse.Config) {
		c.Username, c.Password = clickhousetest.SecuredUser, clickhousetest.SecuredPassword
		c.Headers = map[string]string{"X-Edge": "yes", "Authorization": "Basic c3RvbGVu", "x-clickhouse-user": "root", "X-ClickHouse-Key": "k"}
	})
	got, err := read(t, pool, clickhouse.Request{SQL: "SELECT currentUser()"})
	require.NoError(t, err)
	require.Equal(t, clickhousetest.SecuredUser+"\n", got)
	sent := proxy.Requests()[0]
	require.Equal(t, clickhousetest.SecuredPassword, sent.Header.Get("X-Clickhouse-Key"))
	require.Equal(t, "yes", sent.Header.Get("X-Edge"))
	require.Empty(t, sent.Header.Get("Authorization"))
	require.NotContains(t, sent.Query.Encode(), "s3cured")

	_, err = read(t, pool, clickhouse.Request{SQL: "SELECT throwIf(1, " + clickhouse.QuoteString("leak "+clickhousetest.SecuredPassword) + ")"})
	require.NotContains(t, asError(t, err).Error(), clickhousetest.SecuredPassword)
	proxy.Refuse()
	_, err = read(t, pool, clickhouse.Request{SQL: "SELECT {p:String}", Params: map[string]string{"p": "private-value"}})
	require.NotContains(t, err.Error(), "s3cured")
	require.NotContains(t, err.Error(), "private-value")
}
