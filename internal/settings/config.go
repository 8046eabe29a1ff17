package settings

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/spec"
)

// AllTables is the name under which a section's "tables" holds for every table;
// an entry of the table's own wins, key by key.
const AllTables = "*"

// Config is config.json with its defaults filled in. What its keys mean is in
// the table of keys. It is immutable once in a Snapshot.
type Config struct {
	ClickHouse ClickHouse `json:"clickhouse"`
	Auth       Auth       `json:"auth"`
	Dedupe     Dedupe     `json:"dedupe"`
	DLQ        DLQ        `json:"dlq"`
	Ingest     Ingest     `json:"ingest"`
	Query      Query      `json:"query"`
	Schema     Schema     `json:"schema"`
	Stream     Stream     `json:"stream"`
	MQ         MQ         `json:"mq"`
	CORS       CORS       `json:"cors"`
}

// ClickHouse is the tenant's server and database. The password is not here: it
// is boot configuration.
type ClickHouse struct {
	Addr         string            `json:"addr"` // a host, and perhaps the port of the native protocol
	Protocol     string            `json:"protocol"`
	HTTPPort     int               `json:"http_port"`
	HTTPScheme   string            `json:"http_scheme"`
	Database     string            `json:"database"`
	Username     string            `json:"username"`
	QueryTimeout time.Duration     `json:"query_timeout"`
	TLS          TLS               `json:"tls"`
	Headers      map[string]string `json:"headers"`
	MaxOpenConns int               `json:"max_open_conns"`
	MaxIdleConns int               `json:"max_idle_conns"`
}

// TLS is the encryption of native connections, and the certificates of both
// protocols.
type TLS struct {
	Enabled            bool   `json:"enabled"`
	CAFile             string `json:"ca_file"` // "" is the system's
	CertFile           string `json:"cert_file"`
	KeyFile            string `json:"key_file"`
	ServerName         string `json:"server_name"` // "" is the host of the address
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
}

// Auth says how the tenant's tokens are read.
type Auth struct {
	JWKSURL   string     `json:"jwks_url"`
	RoleClaim claim.Path `json:"role_claim"`
	Issuer    string     `json:"issuer"`   // "" accepts any
	Audience  string     `json:"audience"` // "" accepts any
	// TenantClaim is "" where tokens need not say whose they are.
	TenantClaim  claim.Path    `json:"tenant_claim"`
	SubjectClaim claim.Path    `json:"subject_claim"`
	RequireExp   bool          `json:"require_exp"`
	MaxTokenAge  time.Duration `json:"max_token_age"` // 0 is no bound
}

// What becomes of records whose ids cannot be asked for.
const (
	Refuse = "refuse"
	Defer  = "defer"
)

// Dedupe says which ids are remembered, and for how long.
type Dedupe struct {
	Enabled   bool          `json:"enabled"`
	IDField   string        `json:"id_field"`
	RequireID bool          `json:"require_id"`
	Retention time.Duration `json:"retention"` // 0 is for ever
	// WhenUnavailable is Refuse or Defer.
	WhenUnavailable string `json:"when_unavailable"`
	// MaxBytes is of the tenant's ids, 0 for no bound, and WhenFull one of the
	// constants below.
	MaxBytes int64                  `json:"max_bytes"`
	WhenFull string                 `json:"when_full"`
	Tables   map[string]DedupeTable `json:"tables"`
}

// What becomes of ids when there is no room for more.
const (
	DedupeRefuse = "refuse"
	DedupeForget = "forget_oldest"
)

// DedupeTable overrides Dedupe for one table; nil is inherited.
type DedupeTable struct {
	Enabled   *bool          `json:"enabled"`
	IDField   *string        `json:"id_field"`
	RequireID *bool          `json:"require_id"`
	Retention *time.Duration `json:"retention"`
}

// DLQ says whether rows that ClickHouse refuses are parked.
type DLQ struct {
	Enabled bool                `json:"enabled"`
	Tables  map[string]DLQTable `json:"tables"`
}

// DLQTable overrides DLQ for one table; nil is inherited.
type DLQTable struct {
	Enabled *bool `json:"enabled"`
}

// Ingest says which records are taken, and how rows are batched.
type Ingest struct {
	// Beacon takes what a web page sends with navigator.sendBeacon.
	Beacon bool `json:"beacon"`
	// CloudEvents says what becomes of the data of events.
	CloudEvents CloudEvents            `json:"cloudevents"`
	Flush       Flush                  `json:"flush"`
	Tables      map[string]IngestTable `json:"tables"`
	Limits      *IngestLimits          `json:"limits"` // nil is none
}

// CloudEvents says how events of the CloudEvents format become records.
type CloudEvents struct {
	// Data is the column that an event's data is for, or "merge".
	Data string `json:"data"`
}

// Flush is when a batch is written: at the first of its three limits.
type Flush struct {
	MaxRows  int           `json:"max_rows"`
	MaxBytes int64         `json:"max_bytes"`
	MaxWait  time.Duration `json:"max_wait"`
}

// FlushTable overrides Flush for one table; nil is inherited.
type FlushTable struct {
	MaxRows  *int           `json:"max_rows"`
	MaxBytes *int64         `json:"max_bytes"`
	MaxWait  *time.Duration `json:"max_wait"`
}

// IngestTable overrides Ingest for one table; nil is inherited.
type IngestTable struct {
	Flush FlushTable `json:"flush"`
	// MissingAsZero stores the type's zero in a column without a default that
	// a record does not name.
	MissingAsZero *bool `json:"missing_as_zero"`
	// Times is TimesExact or TimesTruncate, UnknownFields one of the constants
	// below.
	Times         *string `json:"times"`
	UnknownFields *string `json:"unknown_fields"`
	CollectInto   *string `json:"collect_into"`
}

// What becomes of times that are finer than their column.
const (
	TimesExact    = "exact"
	TimesTruncate = "truncate"
)

// What becomes of fields that the table has no column for.
const (
	UnknownReject  = "reject"
	UnknownDrop    = "drop"
	UnknownCollect = "collect"
)

// IngestRules are what is asked of the records of one table.
type IngestRules struct {
	MissingAsZero        bool
	Times, UnknownFields string
	// CollectInto is the column for fields that have none, "" for none.
	CollectInto string
}

// IngestLimits is a token bucket for the tenant; a nil bound is none.
type IngestLimits struct {
	RowsPerSecond  *int   `json:"rows_per_second"`
	BytesPerSecond *int64 `json:"bytes_per_second"`
	Burst          *int   `json:"burst"`
}

// Query bounds what a query may ask for.
type Query struct {
	DefaultMaxRows  int           `json:"default_max_rows"`
	TimestampBucket time.Duration `json:"timestamp_bucket_seconds"`
	Limits          *QueryLimits  `json:"limits"` // nil is none
}

// QueryLimits bounds the tenant's queries; a nil bound is none.
type QueryLimits struct {
	Concurrent *int `json:"concurrent"`
	PerSecond  *int `json:"per_second"`
	// ReadBytesPerHour is what the tenant's queries may read in any hour.
	ReadBytesPerHour *int64 `json:"read_bytes_per_hour"`
}

// Schema says how often the tables are discovered.
type Schema struct {
	RefreshInterval time.Duration `json:"refresh_interval"`
}

// Stream bounds the live streams.
type Stream struct {
	KeepaliveInterval time.Duration `json:"keepalive_interval"`
	KeepaliveBuckets  int           `json:"keepalive_buckets"`
	GapWindow         time.Duration `json:"gap_window_minutes"`
	MaxSubscribers    int           `json:"max_subscribers"`
}

// MQ bounds the tenant's queue.
type MQ struct {
	MaxBytes int64 `json:"max_bytes_gb"`
}

// CORS says which web origins may call.
type CORS struct {
	AllowedOrigins []string `json:"allowed_origins"`
}

// DefaultConfig is an empty config.json.
func DefaultConfig() Config {
	c := defaults()
	spec.Separate(&c)
	return c
}

// defaults is an empty config.json that is not to be changed: each tenant's begins
// with it, and to read the defaults takes longer than most of those files.
var defaults = sync.OnceValue(func() (c Config) { //nolint:gochecknoglobals // a constant
	keys().Fill(&c)
	return c
})

// Show renders the adopted config.json, defaults included, as JSON that would
// be read back to the same settings, except that the values of
// clickhouse.headers are hidden.
func (c *Config) Show() ([]byte, error) {
	shown := *c
	shown.ClickHouse.Headers = map[string]string{}
	for name := range c.ClickHouse.Headers {
		shown.ClickHouse.Headers[name] = spec.Mask
	}
	return keys().Show(&shown)
}

// Flush returns when a batch of the table is written.
func (c *Config) Flush(table string) Flush {
	f := c.Ingest.Flush
	for _, name := range []string{AllTables, table} {
		over := c.Ingest.Tables[name].Flush
		set(&f.MaxRows, over.MaxRows)
		set(&f.MaxBytes, over.MaxBytes)
		set(&f.MaxWait, over.MaxWait)
	}
	return f
}

// IngestFor returns what is asked of the records of the table.
func (c *Config) IngestFor(table string) IngestRules {
	r := IngestRules{Times: TimesExact, UnknownFields: UnknownReject}
	for _, name := range []string{AllTables, table} {
		over := c.Ingest.Tables[name]
		set(&r.MissingAsZero, over.MissingAsZero)
		set(&r.Times, over.Times)
		set(&r.UnknownFields, over.UnknownFields)
		set(&r.CollectInto, over.CollectInto)
	}
	return r
}

// Unknown says what becomes of fields that the table has no column for.
func (r IngestRules) Unknown() record.UnknownFields {
	switch r.UnknownFields {
	case UnknownDrop:
		return record.DropUnknown
	case UnknownCollect:
		return record.CollectUnknown
	}
	return record.RejectUnknown
}

// DLQEnabled reports whether rows of the table that ClickHouse refuses are
// parked.
func (c *Config) DLQEnabled(table string) bool {
	enabled := c.DLQ.Enabled
	for _, name := range []string{AllTables, table} {
		set(&enabled, c.DLQ.Tables[name].Enabled)
	}
	return enabled
}

// DedupeFor returns how ids of the table are remembered; its Tables is nil.
func (c *Config) DedupeFor(table string) Dedupe {
	d := c.Dedupe
	d.Tables = nil
	for _, name := range []string{AllTables, table} {
		over := c.Dedupe.Tables[name]
		set(&d.Enabled, over.Enabled)
		set(&d.IDField, over.IDField)
		set(&d.RequireID, over.RequireID)
		set(&d.Retention, over.Retention)
	}
	return d
}

// RemembersIDs reports whether ids of any table are remembered.
func (c *Config) RemembersIDs() bool {
	if c.Dedupe.Enabled {
		return true
	}
	for _, over := range c.Dedupe.Tables {
		if over.Enabled != nil && *over.Enabled {
			return true
		}
	}
	return false
}

// NamedTables returns the tables that a "tables" key names, sorted.
func (c *Config) NamedTables() []string {
	names := map[string]bool{}
	for name := range c.Dedupe.Tables {
		names[name] = true
	}
	for name := range c.DLQ.Tables {
		names[name] = true
	}
	for name := range c.Ingest.Tables {
		names[name] = true
	}
	delete(names, AllTables)
	return slices.Sorted(maps.Keys(names))
}

func set[T any](target, value *T) {
	if value != nil {
		*target = *value
	}
}
