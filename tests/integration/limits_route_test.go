package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is an entry of GET /v1/limits.
type toldLimit struct {
	Key           string
	Value         int64
	Unit, Per     string
	Used          *int64
	ResetsAt      *time.Time `json:"resets_at"`
	LastRefusedAt *time.Time `json:"last_refused_at"`
	File          string
	Line          int
}

func (s *server) limits(headers ...string) map[string]toldLimit {
	s.t.Helper()
	a := s.do(http.MethodGet, "/v1/limits", "", headers...)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	found := map[string]toldLimit{}
	for _, l := range decode[struct{ Limits []toldLimit }](s.t, a).Limits {
		found[l.Key] = l
	}
	return found
}

// A caller reads the limits that apply to it: their values, and what is used of those
// of the tenant where it may know that.
func TestACallerReadsItsLimits(t *testing.T) {
	t.Parallel()
	s := start(t, options{
		policies: `{
			"tables": {"pages": {
				"viewer": {"select": {"filter": {"org": {"_eq": "birch"}},
					"max_rows": 7, "max_memory_usage": "1GiB"}},
				"analyst": {"select": {"filter": {"org": {"_eq": "birch"}}, "show_cost": true}},
				"writer": {"insert": {}}}}}`,
		config: map[string]string{
			"ingest": `{"flush":{"max_wait":"50ms"},"limits":{"rows_per_second":1000,"bytes_per_second":"1MiB"}}`,
			"query":  `{"default_max_rows":500,"limits":{"per_second":2,"concurrent":9,"read_bytes_per_hour":"1GiB"}}`,
			"stream": `{"max_subscribers":5}`,
		}}, pagesTable)
	of := func(role string) []string {
		return []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role})}
	}
	operator := []string{"X-Operator-Key", operatorKey}
	s.eventually(func() string { // some of what comes at once is refused
		for range 10 {
			if s.query("pages", `{"columns":["page"]}`, of("viewer")...).status == http.StatusTooManyRequests {
				return ""
			}
		}
		return "never refused"
	})
	refusedAt := time.Now()
	s.accept("pages", lines("a", 700), operator...)

	viewer := s.limits(of("viewer")...)
	for key, want := range map[string]toldLimit{
		"query.limits.per_second":                     {Value: 2, Unit: "queries", Per: "second"},
		"query.limits.concurrent":                     {Value: 9, Unit: "queries", Per: "at_once"},
		"query.limits.read_bytes_per_hour":            {Value: 1 << 30, Unit: "bytes", Per: "hour"},
		"query.default_max_rows":                      {Value: 500, Unit: "rows", Per: "answer"},
		"clickhouse.query_timeout":                    {Value: 50, Unit: "seconds", Per: "query"},
		"stream.max_subscribers":                      {Value: 5, Unit: "streams", Per: "at_once"},
		"tables.pages.viewer.select.max_rows":         {Value: 7, Unit: "rows", Per: "answer"},
		"tables.pages.viewer.select.max_memory_usage": {Value: 1 << 30, Unit: "bytes", Per: "query"},
	} {
		want.Key = key
		assert.Equal(t, want, viewer[key], "nothing of what is used, nor where it is set")
		delete(viewer, key)
	}
	assert.Empty(t, viewer, "what does not apply is not listed")

	writer := s.limits(of("writer")...)
	assert.Equal(t, toldLimit{Key: "ingest.limits.rows_per_second", Value: 1000, Unit: "rows", Per: "second"}, writer["ingest.limits.rows_per_second"])
	assert.Contains(t, writer, "mq.max_bytes_gb")
	assert.NotContains(t, writer, "query.limits.per_second")

	for who, headers := range map[string][]string{"analyst": of("analyst"), "admin": of("admin"), "operator": operator} {
		all := s.limits(headers...)
		rate := all["query.limits.per_second"]
		require.NotNil(t, rate.Used, who)
		require.NotNil(t, rate.LastRefusedAt, who)
		assert.WithinDuration(t, refusedAt, *rate.LastRefusedAt, 10*time.Second, who)
		require.NotNil(t, all["stream.max_subscribers"].Used, who)
		assert.Equal(t, who == "operator", rate.File == "config.json" && rate.Line > 0, who)
		assert.NotContains(t, all, "tables.pages.viewer.select.max_rows", who)
	}
	rows := s.limits(operator...)["ingest.limits.rows_per_second"]
	require.NotNil(t, rows.Used)
	if *rows.Used > 0 {
		assert.NotNil(t, rows.ResetsAt)
	}
	assert.Empty(t, s.limits(operator...)["mq.max_bytes_gb"].File, "it is built in")
	refused(t, s.do(http.MethodGet, "/v1/limits", ""), http.StatusForbidden, "auth.no_role")
}

// Answers under a rate tell its policy, and what is left to who may know that.
func TestAnswersTellTheRatesTheyAreUnder(t *testing.T) {
	t.Parallel()
	s := start(t, options{
		policies: `{"tables":{"*":{"viewer":{"select":{},"insert":{}},"analyst":{"select":{"show_cost":true},"insert":{}}}}}`,
		config: map[string]string{
			"ingest": `{"flush":{"max_wait":"50ms"},"limits":{"rows_per_second":1000,"burst":2000,"bytes_per_second":"1MiB"}}`,
			"query":  `{"limits":{"per_second":50,"concurrent":9,"read_bytes_per_hour":"1GiB"}}`,
		}}, pagesTable)
	s.adopt(`{"pipes":[{"name":"one","sql":"SELECT 1 AS one","allowed_roles":["viewer","analyst"]}]}`)
	const reads = `"per_second";q=50;w=1, "read_bytes_per_hour";q=1073741824;w=3600`
	for role, knows := range map[string]bool{"viewer": false, "analyst": true, "admin": true} {
		as := []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role}), "Origin", "https://a.example"}
		for name, c := range map[string]struct {
			a      answer
			policy string
		}{
			"ingest": {s.ingest("pages", fmt.Sprintf(`[{"event_id":"%[1]s1"},{"event_id":"%[1]s2"}]`, role), as...), `"rows_per_second";q=1000;w=1, "bytes_per_second";q=1048576;w=1`},
			"query":  {s.query("pages", countPages, as...), reads},
			"pipe":   {s.pipe("one", as...), reads},
		} {
			require.Equal(t, http.StatusOK, c.a.status, c.a.body)
			assert.Equal(t, c.policy, c.a.header.Get("RateLimit-Policy"), "%s %s", role, name)
			assert.Contains(t, c.a.header.Get("Access-Control-Expose-Headers"), "RateLimit, RateLimit-Policy")
			if !knows {
				assert.Empty(t, c.a.header.Get("RateLimit"), "%s %s", role, name)
				continue
			}
			assert.Regexp(t, `^"(rows_per_second|per_second)";r=\d+;t=\d+, "`, c.a.header.Get("RateLimit"), "%s %s", role, name)
		}
	}
	assert.Empty(t, s.do(http.MethodGet, "/v1/health", "").header.Get("RateLimit-Policy"))
}
