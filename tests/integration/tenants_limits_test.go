package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// overLimit holds an answer to a refusal by a limit.
func overLimit(t *testing.T, a answer, limit, key string, value int) {
	t.Helper()
	p := refused(t, a, http.StatusTooManyRequests, "tenant.rate_limited")
	assert.True(t, p.Retryable)
	named := decode[struct {
		Limit string `json:"limit"`
		Key   string `json:"key"`
		Value int    `json:"value"`
	}](t, a)
	assert.Equal(t, limit, named.Limit)
	assert.Equal(t, key, named.Key)
	assert.Equal(t, value, named.Value)
	assert.Contains(t, p.Error, key)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	assert.True(t, strings.HasPrefix(a.header.Get("RateLimit-Policy"), fmt.Sprintf("%q;q=%d", limit, value)), a.header.Get("RateLimit-Policy"))
	assert.True(t, strings.HasPrefix(a.header.Get("RateLimit"), fmt.Sprintf("%q;r=0;t=", limit)), a.header.Get("RateLimit"))
}

func limited(t *testing.T, section, text string) folder {
	t.Helper()
	f := own(t)
	f.config = map[string]string{section: text}
	return f
}

// The rates are so low, and the requests so large, that the debt outlasts the
// test.
func TestRatesOfIngest(t *testing.T) {
	t.Parallel()
	rows := limited(t, "ingest", `{"flush":{"max_wait":"50ms"},"limits":{"rows_per_second":1,"burst":3}}`)
	bytes := limited(t, "ingest", `{"flush":{"max_wait":"50ms"},"limits":{"bytes_per_second":"1KiB"}}`)
	free := own(t)
	s := nested(t, options{}, map[string]folder{"rows": rows, "bytes": bytes, "free": free})

	// A request is taken whole while there is room, however large it is.
	s.accept("pages", lines("a", 500), from("rows")...)
	for format, body := range map[string]string{
		"application/json": `{"event_id":"x"}`, "application/x-ndjson": lines("b", 5), "text/csv": "event_id\nx\n",
	} {
		a := s.do(http.MethodPost, "/v1/ingest?table=pages", body, from("rows", "Content-Type", format)...)
		overLimit(t, a, "rows_per_second", "ingest.limits.rows_per_second", 1)
	}
	s.accept("pages", lines("a", 2000), from("bytes")...)
	overLimit(t, s.ingest("pages", `{"event_id":"x"}`, from("bytes")...), "bytes_per_second", "ingest.limits.bytes_per_second", 1024)
	s.accept("pages", lines("a", 2000), from("free")...)
	s.accept("pages", lines("b", 2000), from("free")...)
	s.holds(free, 4000)
	s.holds(rows, 500)
	s.holds(bytes, 2000)
	assert.Zero(t, rows.ch.Count(t, "pages WHERE event_id IN ('x','b0')"), "nothing of what was refused is stored")

	// What is refused for another reason is answered so, and takes nothing.
	refused(t, s.ingest("nosuch", "{}", from("rows")...), http.StatusNotFound, "table.unknown")
	// A reload forgives nothing; without the limit there is none.
	require.Equal(t, http.StatusOK, s.reload().status)
	overLimit(t, s.ingest("pages", `{"event_id":"x"}`, from("rows")...), "rows_per_second", "ingest.limits.rows_per_second", 1)
	rows.config = nil
	s.change("rows", rows)
	s.accept("pages", lines("c", 10), from("rows")...)
}

func TestLimitsOfQueries(t *testing.T) {
	t.Parallel()
	slow, other := limited(t, "query", `{"limits":{"concurrent":2}}`), own(t)
	proxy := clickhousetest.NewFaultProxy(t, slow.ch.HTTPAddr())
	slow.httpPort = proxy.Port()
	rate := limited(t, "query", `{"limits":{"per_second":3}}`)
	s := nested(t, options{}, map[string]folder{"slow": slow, "other": other, "rate": rate})
	const question = `{"columns":["event_id"],"limit":%d}`
	proxy.Set(clickhousetest.Delay(5 * time.Second))
	answers := make(chan answer, 2)
	for i := range cap(answers) {
		go func() {
			a, _ := s.try(http.MethodPost, "/v1/query?table=pages", strings.NewReader(fmt.Sprintf(question, i+1)), from("slow")...)
			answers <- a
		}()
	}
	s.eventually(func() string {
		now, _ := proxy.Held()
		return unless(now == 2, "both run")
	})
	overLimit(t, s.query("pages", fmt.Sprintf(question, 9), from("slow")...), "concurrent", "query.limits.concurrent", 2)
	assert.Equal(t, http.StatusOK, s.query("pages", fmt.Sprintf(question, 9), from("other")...).status)
	assert.Equal(t, http.StatusNotFound, s.query("nosuch", "{}", from("slow")...).status)
	s.accept("pages", lines("a", 1), from("slow")...)
	for range cap(answers) {
		a := <-answers
		assert.Equal(t, http.StatusOK, a.status, a.body)
	}
	proxy.Set(clickhousetest.Pass())
	require.Equal(t, http.StatusOK, s.query("pages", fmt.Sprintf(question, 9), from("slow")...).status, "their places are free again")

	s.eventually(func() string {
		for range 20 {
			if a := s.query("pages", fmt.Sprintf(question, 1), from("rate")...); a.status != http.StatusOK {
				overLimit(t, a, "per_second", "query.limits.per_second", 3)
				return ""
			}
		}
		return "never refused, from the cache or not"
	})
}

func TestLimitOfSubscribers(t *testing.T) {
	t.Parallel()
	s := nested(t, options{}, map[string]folder{"few": limited(t, "stream", `{"max_subscribers":2}`), "many": own(t)})
	s.listen("pages", "", from("few")...)
	last := s.listen("pages", "", from("few")...)
	request := func(id string) answer {
		return s.do(http.MethodGet, "/v1/stream?"+url.Values{"table": {"pages"}}.Encode(), "", from(id)...)
	}
	overLimit(t, request("few"), "max_subscribers", "stream.max_subscribers", 2)
	s.listen("pages", "", from("many")...)
	last.Close()
	s.eventually(func() string {
		stream, err := s.tryListen("table=pages", "", from("few")...)
		if err == nil {
			stream.Close()
		}
		return unless(err == nil, "the place is not free")
	})
}
