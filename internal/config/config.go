// Package config holds the boot configuration: what only a restart can change.
// It comes from flags, WH_* variables, a YAML file and defaults, in this order
// of strength, and is read strictly: all faults are reported at once.
package config

import (
	"time"
)

// Roles a process can have.
const (
	RoleAPI     = "api"
	RoleIngest  = "ingest"
	RoleSweeper = "sweeper"
)

// Config is the boot configuration of one process. It is not changed after
// Load.
type Config struct {
	Server     Server
	DataDir    string
	Settings   Settings
	Roles      []string
	InstanceID string
	MQ         MQ
	Cache      Cache
	Dedupe     Dedupe
	Coord      Coord
	ClickHouse ClickHouse
	Auth       Auth
	Log        Log
	OTel       OTel
	Prometheus Prometheus

	// origins tells for each key where its value came from.
	origins map[string]Origin
}

// Server is the listener.
type Server struct {
	Host            string // "" is all interfaces
	Port            int    // 0 lets the kernel choose
	OpsPort         int    // 0 is Port: no listener of their own for operations
	ShutdownTimeout time.Duration
}

// Settings locates the settings directory.
type Settings struct{ Dir string }

// MQ selects the queue.
type MQ struct{ Backend string }

// Cache selects and sizes the cache of query results.
type Cache struct {
	Backend string
	Local   CacheLocal
}

// CacheLocal is the cache inside the process.
type CacheLocal struct{ MaxBytes int64 }

// Dedupe selects the store of seen ids.
type Dedupe struct {
	Backend string
	Lease   time.Duration
}

// Coord selects where leases are held.
type Coord struct{ Backend string }

// ClickHouse holds what is secret or shared about ClickHouse; the rest is in
// each tenant's settings.
type ClickHouse struct {
	Password      Secret
	PasswordsFile string // "" none; a JSON object of tenant to password
	MaxTotalConns int    // 0 is no ceiling
}

// Auth holds the secrets that establish who calls.
type Auth struct {
	JWTSecret   Secret
	OperatorKey Secret
}

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // auto, json, text
}

// OTel says where traces go.
type OTel struct {
	Enabled     bool
	Endpoint    string // host:port or a URL
	Protocol    string // grpc, http
	Insecure    bool
	SampleRatio float64 // 0 to 1
	ServiceName string
}

// Prometheus says where metrics are served.
type Prometheus struct {
	Enabled bool
	Path    string
	Port    int // 0 is server.port
}

// Secret is a value that never prints: every formatting and marshalling of it
// shows a mask. Reveal gives the value.
type Secret string

// mask stands for a secret that is set.
const mask = "********"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString keeps %#v from printing the secret.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText keeps encoders from writing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// HasRole reports whether the process has the role.
func (c *Config) HasRole(role string) bool {
	for _, r := range c.Roles {
		if r == role {
			return true
		}
	}
	return false
}
