package api

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/limit"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Limits hold a tenant to the rates that its settings name.
type Limits interface {
	// Ingest takes rows and bytes, or says which limit is in the way. Of zero
	// rows and bytes it takes nothing.
	Ingest(id tenant.ID, rows int, bytes int64) *limit.Exceeded
	// Query admits a query until release is called.
	Query(id tenant.ID) (release func(), exceeded *limit.Exceeded)
	// Read counts bytes that a query has read.
	Read(id tenant.ID, bytes int64)
	Usage(id tenant.ID) []limit.Usage
}

// mayIngest refuses a tenant that is over its limits before its body is read.
func (s *Server) mayIngest(c *request) error {
	if s.Limits == nil {
		return nil
	}
	return rateLimited(s.Limits.Ingest(c.tenant, 0, 0))
}

// admitBody takes a decoded body from the tenant's limits, as a whole or not at
// all: nothing of a refused request is stored. Each record counts, whatever
// becomes of it.
func (s *Server) admitBody(w http.ResponseWriter, c *request, format record.InputFormat, body []byte) error {
	if s.Limits == nil {
		return nil
	}
	rows := 0
	if limits := c.settings.Config.Ingest.Limits; limits != nil && limits.RowsPerSecond != nil {
		rows = record.Count(format, body)
	}
	if err := rateLimited(s.Limits.Ingest(c.tenant, rows, int64(len(body)))); err != nil {
		return err
	}
	if c.settings.Config.Ingest.Limits != nil {
		s.tellRates(w.Header(), c, "ingest.")
	}
	return nil
}

// admitQuery admits a query or a pipe, answered from the cache or not, until
// release is called.
func (s *Server) admitQuery(w http.ResponseWriter, c *request) (release func(), err error) {
	if s.Limits == nil {
		return func() {}, nil
	}
	release, exceeded := s.Limits.Query(c.tenant)
	if c.settings.Config.Query.Limits != nil {
		s.tellRates(w.Header(), c, "query.")
	}
	return release, rateLimited(exceeded)
}

// tellRates tells the tenant's limits of rates whose keys begin so, and to who may
// know it what is left of them.
func (s *Server) tellRates(header http.Header, c *request, keys string) {
	var policies, left []string
	for _, u := range s.Limits.Usage(c.tenant) {
		if u.Per == 0 || !strings.HasPrefix(u.Key, keys) {
			continue
		}
		policies = append(policies, ratePolicy(u.Limit, u.Value, u.Per))
		wait := 0.0
		if !u.Resets.IsZero() {
			wait = math.Ceil(max(0, u.Resets.Sub(s.Now()).Seconds()))
		}
		left = append(left, fmt.Sprintf("%q;r=%d;t=%.0f", u.Limit, max(0, u.Burst-u.Used), wait))
	}
	if len(policies) == 0 {
		return
	}
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	if c.knowsTenant() {
		header.Set("RateLimit", strings.Join(left, ", "))
	}
}

// knowsTenant reports whether the caller may know what is counted over its tenant.
func (c *request) knowsTenant() bool {
	return c.identity.Operator || c.settings.Policy.ShowsCost(c.identity.Role)
}

func ratePolicy(name string, value int64, per time.Duration) string {
	if per == 0 {
		return fmt.Sprintf("%q;q=%d", name, value)
	}
	return fmt.Sprintf("%q;q=%d;w=%.0f", name, value, per.Seconds())
}

// rateLimited is the answer to a request over a limit; nil for none.
func rateLimited(e *limit.Exceeded) error {
	if e == nil {
		return nil
	}
	return overLimit(e.Limit, e.Key, e.Value, e.Per, e.Wait)
}

// tooManyStreams is the answer to one stream too many.
func tooManyStreams(e *stream.Error) *Problem {
	return overLimit("max_subscribers", "stream.max_subscribers", int64(e.Limit), 0, e.RetryAfter)
}

// overLimit names the limit, the key that sets it and its value, which is for a time;
// 0 is for a limit of what goes on at once.
func overLimit(name, key string, value int64, per, wait time.Duration) *Problem {
	p := problem(http.StatusTooManyRequests, "tenant.rate_limited",
		fmt.Sprintf("this tenant is at its limit %s of %d", key, value)).retryable(wait)
	p.Fields = map[string]any{"limit": name, "key": key, "value": value}
	p.Header = map[string]string{
		"RateLimit-Policy": ratePolicy(name, value, per),
		"RateLimit":        fmt.Sprintf("%q;r=0;t=%d", name, int64(math.Ceil(wait.Seconds()))),
	}
	return p
}
