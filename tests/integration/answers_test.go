package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// largePipes answer with 30 MB of rows, the second with an error behind some of
// them.
var largePipes = pipesFile(
	"large", `"sql":"SELECT number AS n, repeat('x', 1000) AS text FROM numbers(30000)"`,
	"broken", `"sql":"SELECT number AS n, hex(randomString(500)) AS text, throwIf(number = 25000, 'a secret of a row') AS t FROM numbers(30000) SETTINGS max_block_size = 500"`,
	"small", `"sql":"SELECT 1 AS one"`,
)

type largeRow struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// An answer that is too large to be held is passed on as ClickHouse makes it, and
// is as whole as another, shared question or not.
func TestLargeAnswersAreWhole(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adopt(largePipes)
	whole := func(a answer) {
		var rows []largeRow
		if !assert.Equal(t, http.StatusOK, a.status) || !assert.NoError(t, json.Unmarshal([]byte(a.body), &rows)) || !assert.Len(t, rows, 30000) {
			return
		}
		for i, row := range rows {
			if row.N != i || len(row.Text) != 1000 {
				assert.Fail(t, "a row is not as ClickHouse has it", "%d: %v", i, row)
				return
			}
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			a, err := s.try(http.MethodGet, "/v1/pipes/large", nil)
			if assert.NoError(t, err) {
				whole(a)
				assert.Equal(t, "BYPASS", a.header.Get("X-Cache"))
				assert.NotContains(t, a.header, "X-Answer-Error")
			}
		})
	}
	all.Wait()
	whole(s.pipe("large", "Accept-Encoding", "identity"))
	a := s.opsSQL("SELECT number AS n, repeat('x', 1000) AS text FROM numbers(30000)")
	whole(a)
	require.True(t, strings.HasSuffix(a.body, "}]\n"))
	a = s.pipe("large", "Accept", "application/x-ndjson")
	require.Equal(t, 30000, strings.Count(a.body, "\n"))
}

// A failure in the middle of an answer is no end of it.
func TestFailureInALargeAnswerIsSeen(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adopt(largePipes)
	for _, encoding := range []string{"identity", "gzip"} {
		for _, accept := range []string{"application/json", "application/x-ndjson", "text/csv", "text/tab-separated-values"} {
			t.Run(accept+" "+encoding, func(t *testing.T) {
				text, trailer := s.raw(t, "/v1/pipes/broken", "Accept", accept, "Accept-Encoding", encoding)
				require.Equal(t, "clickhouse.rejected", trailer.Get("X-Answer-Error"))
				require.NotContains(t, text, "a secret of a row", "ClickHouse's words are not for those whom rules hold")
				lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
				last := lines[len(lines)-1]
				require.Greater(t, len(lines), 20000)
				if accept == "text/csv" {
					records, err := csv.NewReader(strings.NewReader(last)).ReadAll()
					require.NoError(t, err)
					require.Equal(t, []string{"$error", "clickhouse.rejected"}, records[0][:2])
					return
				}
				if accept == "text/tab-separated-values" {
					require.Equal(t, []string{"$error", "clickhouse.rejected"}, strings.Split(last, "\t")[:2])
					return
				}
				var failure map[string]problem
				require.NoError(t, json.Unmarshal([]byte(last), &failure))
				require.Equal(t, "clickhouse.rejected", failure["$error"].Code)
				require.False(t, failure["$error"].Retryable)
				require.NotEmpty(t, failure["$error"].RequestID)
				if accept == "application/json" {
					require.False(t, json.Valid([]byte(text)), "no parser takes it for whole")
					return
				}
				for _, line := range lines {
					require.True(t, json.Valid([]byte(line)))
				}
			})
		}
	}
	t.Run("a format without a place for it", func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/pipes/broken", nil)
		require.NoError(t, err)
		request.Header.Set("Accept", "application/vnd.apache.arrow.stream")
		response, err := s.client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("the operator is told in ClickHouse's words", func(t *testing.T) {
		a := s.opsSQL("SELECT repeat('x', 1000), throwIf(number = 25000, 'a secret of a row') FROM numbers(30000) SETTINGS max_block_size = 500")
		require.Contains(t, a.body[len(a.body)-1000:], "a secret of a row")
		require.True(t, strings.HasPrefix(a.body, "[{"))
		require.False(t, json.Valid([]byte(a.body)))
	})
	t.Run("a failure at once is an error", func(t *testing.T) {
		s.adopt(pipesFile("now", `"sql":"SELECT throwIf(number = 10) FROM numbers(20)"`))
		refused(t, s.pipe("now"), http.StatusBadRequest, "clickhouse.rejected")
	})
}

// raw reads an answer with its trailers.
func (s *server) raw(t *testing.T, path string, headers ...string) (string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if response.Header.Get("Content-Encoding") == "gzip" {
		text = unzipped(t, text)
	}
	return string(text), response.Trailer
}

// Readers that do not read hold up neither other tenants nor, for long, their own,
// and are cut off.
func TestReadersThatDoNotRead(t *testing.T) {
	t.Parallel()
	s := start(t, options{env: []string{"WH_LIMITS_ANSWERS=32MiB"}})
	s.adopt(largePipes)
	var conns []net.Conn
	for range 12 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(conn, "GET /v1/pipes/large HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	// Some are refused at once, since their tenant has as many as it may.
	var stuck []net.Conn
	for _, conn := range conns {
		status := make([]byte, len("HTTP/1.1 200"))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.ReadFull(conn, status)
		require.NoError(t, err)
		if strings.HasSuffix(string(status), "200") {
			stuck = append(stuck, conn)
		} else {
			require.Equal(t, "HTTP/1.1 503", string(status))
		}
	}
	require.NotEmpty(t, stuck)
	began := time.Now()
	s.eventually(func() string {
		a := s.pipe("small")
		return unless(a.status == http.StatusOK, a.body)
	})
	t.Logf("%d answers were stuck; another caller of the tenant was answered after %s", len(stuck), time.Since(began))
	for _, conn := range stuck {
		// Once the server has given up, it resets what is sent to it.
		require.Eventually(t, func() bool {
			_, err := conn.Write([]byte("\r\n"))
			return err != nil
		}, time.Minute, 50*time.Millisecond)
	}
}

func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(text))
	require.NoError(t, err)
	plain, err := io.ReadAll(reader)
	require.NoError(t, err)
	return plain
}
