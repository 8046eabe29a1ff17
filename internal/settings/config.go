package settings

import (
	"maps"
	"slices"
	"time"
)

// AllTables is the name under which a section's "tables" holds for every table;
// an entry of the table's own wins, key by key.
const AllTables = "*"

// Config is config.json with its defaults filled in. Besides the tags of
// strictjson, min and max bound a value (inclusive, written like the value) and
// enum lists what it may be. It is immutable once in a Snapshot.
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
	Protocol     string            `json:"protocol" enum:"http,native"`
	HTTPPort     int               `json:"http_port" min:"1" max:"65535"`
	HTTPScheme   string            `json:"http_scheme" enum:"http,https"`
	Database     string            `json:"database"`
	Username     string            `json:"username"`
	QueryTimeout time.Duration     `json:"query_timeout" unit:"s" min:"1s" max:"1h"`
	TLS          TLS               `json:"tls"`
	Headers      map[string]string `json:"headers"`
	MaxOpenConns int               `json:"max_open_conns" min:"1" max:"10000"`
	MaxIdleConns int               `json:"max_idle_conns" min:"0" max:"10000"`
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
	JWKSURL   string `json:"jwks_url"`
	RoleClaim string `json:"role_claim"` // a dotted path into the claims
	Issuer    string `json:"issuer"`     // "" accepts any
	Audience  string `json:"audience"`   // "" accepts any
}

// Dedupe says which ids are remembered, and for how long.
type Dedupe struct {
	Enabled   bool                   `json:"enabled"`
	IDField   string                 `json:"id_field"`
	RequireID bool                   `json:"require_id"`
	Retention time.Duration          `json:"retention" unit:"text"` // 0 is for ever
	Tables    map[string]DedupeTable `json:"tables"`
}

// DedupeTable overrides Dedupe for one table; nil is inherited.
type DedupeTable struct {
	Enabled   *bool          `json:"enabled"`
	IDField   *string        `json:"id_field"`
	RequireID *bool          `json:"require_id"`
	Retention *time.Duration `json:"retention" unit:"text"`
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

// Ingest says how rows are batched.
type Ingest struct {
	Flush  Flush                  `json:"flush"`
	Tables map[string]IngestTable `json:"tables"`
	Limits *IngestLimits          `json:"limits"` // nil is none
}

// Flush is when a batch is written: at the first of its three limits.
type Flush struct {
	MaxRows  int           `json:"max_rows" min:"1" max:"1000000"`
	MaxBytes int64         `json:"max_bytes" size:"B" min:"1KiB" max:"1GiB"`
	MaxWait  time.Duration `json:"max_wait" unit:"text" min:"1ms" max:"10m"`
}

// FlushTable overrides Flush for one table; nil is inherited.
type FlushTable struct {
	MaxRows  *int           `json:"max_rows" min:"1" max:"1000000"`
	MaxBytes *int64         `json:"max_bytes" size:"B" min:"1KiB" max:"1GiB"`
	MaxWait  *time.Duration `json:"max_wait" unit:"text" min:"1ms" max:"10m"`
}

// IngestTable overrides Ingest for one table; nil is inherited.
type IngestTable struct {
	Flush FlushTable `json:"flush"`
	// MissingAsZero stores the type's zero in a column without a default that
	// a record does not name.
	MissingAsZero *bool `json:"missing_as_zero"`
}

// IngestLimits is a token bucket for the tenant; a nil bound is none.
type IngestLimits struct {
	RowsPerSecond  *int   `json:"rows_per_second" min:"1"`
	BytesPerSecond *int64 `json:"bytes_per_second" size:"B" min:"1B"`
	Burst          *int   `json:"burst" min:"1"`
}

// Query bounds what a query may ask for.
type Query struct {
	DefaultMaxRows  int           `json:"default_max_rows" min:"1" max:"100000000"`
	TimestampBucket time.Duration `json:"timestamp_bucket_seconds" unit:"s" min:"1s" max:"1d"`
	Limits          *QueryLimits  `json:"limits"` // nil is none
}

// QueryLimits bounds the tenant's queries; a nil bound is none.
type QueryLimits struct {
	Concurrent *int `json:"concurrent" min:"1"`
	PerSecond  *int `json:"per_second" min:"1"`
}

// Schema says how often the tables are discovered.
type Schema struct {
	RefreshInterval time.Duration `json:"refresh_interval" unit:"s" min:"1s" max:"7d"`
}

// Stream bounds the live streams.
type Stream struct {
	KeepaliveInterval time.Duration `json:"keepalive_interval" unit:"s" min:"1s" max:"1h"`
	KeepaliveBuckets  int           `json:"keepalive_buckets" min:"1" max:"1000"`
	GapWindow         time.Duration `json:"gap_window_minutes" unit:"m" min:"0" max:"30d"`
	MaxSubscribers    int           `json:"max_subscribers" min:"1" max:"1000000"`
}

// MQ bounds the tenant's queue.
type MQ struct {
	MaxBytes int64 `json:"max_bytes_gb" size:"GB" min:"100KB" max:"1000000TB"`
}

// CORS says which web origins may call.
type CORS struct {
	AllowedOrigins []string `json:"allowed_origins"`
}

// DefaultConfig is an empty config.json.
func DefaultConfig() Config {
	return Config{
		ClickHouse: ClickHouse{
			Addr: "localhost", Protocol: "http", HTTPPort: 8123, HTTPScheme: "http",
			Database: "default", Username: "default", QueryTimeout: 30 * time.Second,
			Headers: map[string]string{}, MaxOpenConns: 10, MaxIdleConns: 5,
		},
		Auth:   Auth{RoleClaim: "role"},
		Dedupe: Dedupe{IDField: "event_id", Tables: map[string]DedupeTable{}},
		DLQ:    DLQ{Enabled: true, Tables: map[string]DLQTable{}},
		Ingest: Ingest{
			Flush:  Flush{MaxRows: 50_000, MaxBytes: 16 << 20, MaxWait: time.Second},
			Tables: map[string]IngestTable{},
		},
		Query:  Query{DefaultMaxRows: 10_000, TimestampBucket: time.Minute},
		Schema: Schema{RefreshInterval: time.Minute},
		Stream: Stream{
			KeepaliveInterval: 30 * time.Second, KeepaliveBuckets: 3,
			GapWindow: 15 * time.Minute, MaxSubscribers: 10_000,
		},
		MQ:   MQ{MaxBytes: 50e9},
		CORS: CORS{AllowedOrigins: []string{"*"}},
	}
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

// MissingAsZero reports whether a column of the table that a record does not
// name, and that has no default, is stored as its type's zero.
func (c *Config) MissingAsZero(table string) bool {
	zero := false
	for _, name := range []string{AllTables, table} {
		set(&zero, c.Ingest.Tables[name].MissingAsZero)
	}
	return zero
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
