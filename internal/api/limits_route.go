package api

import (
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/limit"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// limitAnswer is one limit that applies to a caller.
type limitAnswer struct {
	Key string `json:"key"`
	// Value is in Unit, and for Per: "second", "hour", "at_once", "answer", "query"
	// or "tenant".
	Value int64  `json:"value"`
	Unit  string `json:"unit"`
	Per   string `json:"per"`
	// Used, ResetsAt and LastRefusedAt are left out where the caller may not know
	// them, or where nothing is counted.
	Used          *int64     `json:"used,omitempty"`
	ResetsAt      *time.Time `json:"resets_at,omitempty"`
	LastRefusedAt *time.Time `json:"last_refused_at,omitempty"`
	// File and Line are where the operator set it; left out for what is built in.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// limits answers which limits of the tenant's settings apply to the caller:
// GET /v1/limits.
func (s *Server) limits(w http.ResponseWriter, r *http.Request, c *request) error {
	if err := s.identify(r, c, ""); err != nil {
		return err
	}
	if err := c.hasRole(); err != nil {
		return err
	}
	all := []limitAnswer{}
	for one := range s.limitsOf(c) {
		if c.identity.Operator {
			at, _ := c.settings.Place(one.Key)
			one.File, one.Line = at.File, at.Line
		}
		all = append(all, one)
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusOK, map[string]any{"limits": all})
}

// hasRole refuses a caller to whom the policy can grant nothing.
func (c *request) hasRole() error {
	_, ok := c.settings.Policy.Role(c.identity.Role)
	switch {
	case c.identity.Operator:
		return nil
	case !c.settings.Policy.Adopted():
		return c.identity.Deny(policy.ErrNoPolicy)
	case !ok:
		return c.identity.Deny(policy.ErrNoRole)
	}
	return nil
}

// limitsOf lists the limits in the order in which a request meets them.
func (s *Server) limitsOf(c *request) iter.Seq[limitAnswer] {
	return func(yield func(limitAnswer) bool) {
		inserts, selects := c.mayInsert(), c.maySelect()
		if inserts && !s.counted(c, "ingest.", yield) {
			return
		}
		if inserts && !yield(limitAnswer{Key: "mq.max_bytes_gb", Value: c.settings.Config.MQ.MaxBytes, Unit: "bytes", Per: "tenant"}) {
			return
		}
		if !selects {
			return
		}
		if !s.counted(c, "query.", yield) {
			return
		}
		config := c.settings.Config
		bounds := []limitAnswer{
			{Key: "query.default_max_rows", Value: int64(config.Query.DefaultMaxRows), Unit: "rows", Per: "answer"},
			{Key: "clickhouse.query_timeout", Value: wholeSeconds(config.ClickHouse.QueryTimeout), Unit: "seconds", Per: "query"},
			s.streams(c),
		}
		for _, one := range bounds {
			if one.Value > 0 && !yield(one) {
				return
			}
		}
		c.caps(yield)
	}
}

// counted lists the limits of which the use is counted, whose keys begin so.
func (s *Server) counted(c *request, keys string, yield func(limitAnswer) bool) bool {
	if s.Limits == nil {
		return true
	}
	for _, u := range s.Limits.Usage(c.tenant) {
		if !strings.HasPrefix(u.Key, keys) {
			continue
		}
		one := limitAnswer{Key: u.Key, Value: u.Value, Unit: unitOf(u.Limit), Per: perOf(u.Per)}
		if c.knowsTenant() {
			one.Used, one.ResetsAt, one.LastRefusedAt = &u.Used, known(u.Resets), known(u.Refused)
		}
		if !yield(one) {
			return false
		}
	}
	return true
}

func (s *Server) streams(c *request) limitAnswer {
	one := limitAnswer{Key: "stream.max_subscribers", Value: int64(c.settings.Config.Stream.MaxSubscribers), Unit: "streams", Per: "at_once"}
	if c.knowsTenant() {
		open := int64(s.Streams.Open(c.tenant))
		one.Used = &open
	}
	return one
}

// caps lists the limits of the caller's own grants.
func (c *request) caps(yield func(limitAnswer) bool) {
	if c.identity.Operator {
		return
	}
	role, _ := c.settings.Policy.Role(c.identity.Role)
	for table, grant := range c.settings.Policy.Selects(role) {
		caps := grant.Settings()
		caps["max_rows"] = strconv.Itoa(grant.MaxRows())
		for _, bound := range []struct{ name, unit, per string }{
			{"max_rows", "rows", "answer"}, {"max_execution_time", "seconds", "query"},
			{"max_rows_to_read", "rows", "query"}, {"max_memory_usage", "bytes", "query"},
		} {
			value, err := strconv.ParseFloat(caps[bound.name], 64)
			if err != nil || value <= 0 {
				continue // it is not set
			}
			if !yield(limitAnswer{Key: settings.SelectKey(table, role, bound.name), Value: int64(math.Ceil(value)), Unit: bound.unit, Per: bound.per}) {
				return
			}
		}
	}
}

func (c *request) mayInsert() bool {
	return c.identity.Operator || c.settings.Policy.InsertsAny(c.identity.Role)
}

// maySelect reports whether the caller may read any table or run any pipe.
func (c *request) maySelect() bool {
	if c.unheld() {
		return true
	}
	for range c.settings.Policy.Selects(c.identity.Role) {
		return true
	}
	role, _ := c.settings.Policy.Role(c.identity.Role)
	for _, pipe := range c.settings.Pipes.All() {
		if pipe.AllowsRole(role) {
			return true
		}
	}
	return false
}

func unitOf(name string) string {
	switch name {
	case limit.RowsPerSecond:
		return "rows"
	case limit.BytesPerSecond, limit.ReadBytesPerHour:
		return "bytes"
	}
	return "queries"
}

func perOf(per time.Duration) string {
	switch per {
	case time.Second:
		return "second"
	case time.Hour:
		return "hour"
	}
	return "at_once"
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func known(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Truncate(time.Millisecond)
	return &at
}
