package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The 16 MiB hold for the decoded body, whatever its encoding.
func TestBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	big := strings.Repeat(" ", 16<<20) + `{"event_id":"x","page":"/"}`
	refused(t, s.post(ndjson, []byte(big)), http.StatusRequestEntityTooLarge, "body.too_large")
	refused(t, s.post(ndjson, gzipped(t, big), "Content-Encoding", "gzip"), http.StatusRequestEntityTooLarge, "body.too_large")
	// A body that does not say its length.
	a, err := s.try(http.MethodPost, "/v1/ingest?table=pages", struct{ *strings.Reader }{strings.NewReader(big)}, "Content-Type", ndjson)
	if err == nil {
		refused(t, a, http.StatusRequestEntityTooLarge, "body.too_large")
	}
	fits := `{"event_id":"fits","page":"/"}` + "\n"
	fits += strings.Repeat(" ", 16<<20-len(fits))
	require.Equal(t, http.StatusOK, s.post(ndjson, []byte(fits)).status)
	s.stored("pages", 1)
}

// At most 10,000 results are listed; the counts are exact beyond.
func TestResultsAreTruncatedAndCountsAreNot(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	var body bytes.Buffer
	for i := range 12_000 {
		if i%12 == 11 {
			fmt.Fprintf(&body, "{\"event_id\":\"good%d\",\"page\":\"/\"}\n", i)
			continue
		}
		fmt.Fprintf(&body, "{\"event_id\":\"bad%d\",\"nope\":1}\n", i)
	}
	a := s.do(http.MethodPost, "/v1/ingest?table=pages", body.String(), "Content-Type", ndjson)
	require.Equal(t, http.StatusOK, a.status)
	b := decode[batch](t, a)
	assert.Equal(t, [4]int{12_000, 1_000, 11_000, 0}, [4]int{b.Total, b.Succeeded, b.Failed, b.Duplicates})
	assert.True(t, b.Truncated)
	require.Len(t, b.Results, 10_000)
	last := 0
	for _, r := range b.Results {
		require.False(t, r.OK)
		require.Equal(t, "record.unknown_column", r.Code)
		require.Greater(t, r.Index, last)
		last = r.Index
	}
	s.stored("pages", 1_000)

	few := decode[batch](t, s.do(http.MethodPost, "/v1/ingest?table=pages", `{"event_id":"a","page":"/"}`+"\n"+`{"nope":1}`, "Content-Type", ndjson))
	assert.False(t, few.Truncated)
	require.Len(t, few.Results, 1, "successes are listed only when asked for")
	assert.Equal(t, 2, few.Results[0].Index)
}

// One request of many rows arrives whole, in ClickHouse and on the stream.
func TestHugeBatchArrivesExactlyOnce(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	s := start(t, options{}, pagesTable)
	l := s.listen("pages", "")
	var body bytes.Buffer
	body.WriteByte('[')
	for i := range rows {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"event_id":"h%05d","page":"/%s"}`, i, strings.Repeat("p", 40))
	}
	body.WriteByte(']')
	a := s.ingest("pages", body.String())
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, fmt.Sprintf(`{"total":%d,"succeeded":%d,"failed":0,"duplicates":0,"results":[]}`, rows, rows), a.body)
	for i := range rows {
		row, _ := l.row()
		if want := fmt.Sprintf(`{"event_id":"h%05d",`, i); !strings.HasPrefix(string(row), want) {
			require.Failf(t, "out of order", "row %d is %s", i, row)
		}
	}
	s.stored("pages", rows)
	assert.Equal(t, fmt.Sprint(rows), s.ch.Value(t, "SELECT uniqExact(event_id) FROM pages"))
}

func TestQueryBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	refused(t, s.query("pages", `{"select_all":true}`+strings.Repeat(" ", 1<<20)), http.StatusRequestEntityTooLarge, "body.too_large")
}

// What is refused before any route is found is answered like everything else.
func TestRequestsThatCannotBeReadAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for _, size := range []int{80 << 10, 300 << 10} {
		a := s.do(http.MethodGet, "/v1/health", "", "X-Long", strings.Repeat("x", size))
		p := refused(t, a, http.StatusRequestHeaderFieldsTooLarge, "request.headers_too_large")
		assert.Contains(t, p.Error, "64 KiB")
	}
	require.Equal(t, http.StatusOK, s.do(http.MethodGet, "/v1/health", "", "X-Long", strings.Repeat("x", 60<<10)).status)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"no host":          {"GET /livez HTTP/1.1\r\n\r\n", http.StatusBadRequest},
		"no HTTP":          {"hello, world\r\n\r\n", http.StatusBadRequest},
		"of a later time":  {"GET /livez HTTP/3.0\r\nHost: a\r\n\r\n", http.StatusHTTPVersionNotSupported},
		"another encoding": {"POST /v1/ingest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: rot13\r\n\r\n", http.StatusNotImplemented},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		_, err = conn.Write([]byte(c.request))
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err, name)
		require.NoError(t, response.Body.Close())
		require.NoError(t, conn.Close())
		refused(t, answer{response.StatusCode, response.Header, string(text)}, c.status, "request.malformed")
	}
}
