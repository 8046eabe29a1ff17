// Package config holds the boot configuration: what only a restart can change.
// It comes from flags, WH_* variables, a YAML file and defaults, in this order
// of strength, and is read strictly: all faults are reported at once.
package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/spec"
)

// Roles a process can have.
const (
	RoleAPI     = "api"
	RoleIngest  = "ingest"
	RoleSweeper = "sweeper"
)

// Secret is a value that never prints.
type Secret = spec.Secret

// Config is the boot configuration of one process. What its keys mean is in the
// table of keys. It is not changed after Load.
type Config struct {
	Server     Server     `json:"server"`
	DataDir    string     `json:"data_dir"`
	Settings   Settings   `json:"settings"`
	Roles      []string   `json:"roles"`
	InstanceID string     `json:"instance_id"`
	MQ         MQ         `json:"mq"`
	Cache      Cache      `json:"cache"`
	Limits     Limits     `json:"limits"`
	Dedupe     Dedupe     `json:"dedupe"`
	Coord      Coord      `json:"coord"`
	ClickHouse ClickHouse `json:"clickhouse"`
	Auth       Auth       `json:"auth"`
	Stream     Stream     `json:"stream"`
	Log        Log        `json:"log"`
	OTel       OTel       `json:"otel"`
	Prometheus Prometheus `json:"prometheus"`

	// sources tells for each key that is set where its value came from.
	sources map[string]source
}

// Server is the listener.
type Server struct {
	Host            string        `json:"host"`     // "" is all interfaces
	Port            int           `json:"port"`     // 0 lets the kernel choose
	OpsPort         int           `json:"ops_port"` // 0 is Port: no listener of their own for operations
	ShutdownTimeout time.Duration `json:"shutdown_timeout"`
}

// Settings locates the settings directory.
type Settings struct {
	Dir string `json:"dir"`
}

// MQ selects the queue.
type MQ struct {
	Backend       string        `json:"backend"`
	RejectedGrace time.Duration `json:"rejected_grace"`
	NATS          MQNATS        `json:"nats"`
}

// MQNATS is an operator's NATS cluster, and what he made there.
type MQNATS struct {
	URLs           []string      `json:"urls"`
	Prefix         string        `json:"prefix"`
	Partitions     int           `json:"partitions"`
	Shards         int           `json:"shards"` // of each partition
	PublishTimeout time.Duration `json:"publish_timeout"`
	TopologyWait   time.Duration `json:"topology_wait"`
	User           string        `json:"user"`
	PasswordFile   string        `json:"password_file"`
	NKeyFile       string        `json:"nkey_file"`
	CredsFile      string        `json:"creds_file"`
	TLS            MQNATSTLS     `json:"tls"`
}

// MQNATSTLS is how the cluster is spoken to in secret. With one of the files set
// it is enabled, too.
type MQNATSTLS struct {
	Enabled        bool   `json:"enabled"`
	CAFile         string `json:"ca_file"` // "" is what the system trusts
	CertFile       string `json:"cert_file"`
	KeyFile        string `json:"key_file"`
	HandshakeFirst bool   `json:"handshake_first"`
}

// Cache selects and sizes the cache of query results.
type Cache struct {
	Backend string     `json:"backend"`
	Local   CacheLocal `json:"local"`
	Redis   CacheRedis `json:"redis"`
}

// CacheLocal is the cache inside the process.
type CacheLocal struct {
	MaxBytes int64 `json:"max_bytes"`
}

// Limits bound the memory of the process, in bytes.
type Limits struct {
	Memory  int64 `json:"memory"`  // 0 is what its container has
	Answers int64 `json:"answers"` // 0 is a part of Memory
}

// CacheRedis is the cache that processes share.
type CacheRedis struct {
	Mode             string        `json:"mode"`
	Addrs            []string      `json:"addrs"`
	Master           string        `json:"master"` // the primary's name at the sentinels
	Username         string        `json:"username"`
	Password         Secret        `json:"password"`
	SentinelUsername string        `json:"sentinel_username"`
	SentinelPassword Secret        `json:"sentinel_password"`
	DB               int           `json:"db"`
	Prefix           string        `json:"prefix"`
	OpTimeout        time.Duration `json:"op_timeout"`
	Absence          time.Duration `json:"absence"`
	TLS              CacheRedisTLS `json:"tls"`
}

// CacheRedisTLS secures the connections.
type CacheRedisTLS struct {
	Enabled    bool   `json:"enabled"`
	CAFile     string `json:"ca_file"`
	CertFile   string `json:"cert_file"`
	KeyFile    string `json:"key_file"`
	ServerName string `json:"server_name"`
}

// Dedupe selects the store of seen ids.
type Dedupe struct {
	Backend  string         `json:"backend"`
	Lease    time.Duration  `json:"lease"`
	Pebble   DedupePebble   `json:"pebble"`
	DynamoDB DedupeDynamoDB `json:"dynamodb"`
	NATS     DedupeNATS     `json:"nats"`
}

// DedupeNATS is the store in a bucket of the cluster of the queue.
type DedupeNATS struct {
	Bucket string `json:"bucket"`
}

// DedupePebble is the store in files of the process.
type DedupePebble struct {
	SingleReplica bool `json:"single_replica"`
}

// DedupeDynamoDB is the store in a table of DynamoDB.
type DedupeDynamoDB struct {
	Table       string `json:"table"`
	Region      string `json:"region"`   // "" is the environment's
	Endpoint    string `json:"endpoint"` // "" is AWS's
	CreateTable bool   `json:"create_table"`
}

// Coord selects where leases are held.
type Coord struct {
	Backend string    `json:"backend"`
	NATS    CoordNATS `json:"nats"`
}

// CoordNATS is the bucket of leases, in the cluster of the queue.
type CoordNATS struct {
	Bucket string `json:"bucket"`
}

// ClickHouse holds what is secret or shared about ClickHouse; the rest is in
// each tenant's settings.
type ClickHouse struct {
	Password      Secret `json:"password"`
	PasswordsFile string `json:"passwords_file"`  // "" none; a JSON object of tenant to password
	MaxTotalConns int    `json:"max_total_conns"` // 0 is no ceiling
}

// Auth holds the secrets that establish who calls.
type Auth struct {
	JWTSecret      Secret `json:"jwt_secret"`
	JWTSecretsFile string `json:"jwt_secrets_file"` // "" none; a JSON object of tenant to secret
	OperatorKey    Secret `json:"operator_key"`
}

// Stream holds what processes share about live rows.
type Stream struct {
	IDKey Secret `json:"id_key"` // "" makes one up
}

// Log says what is logged and how.
type Log struct {
	Level  string `json:"level"`
	Format string `json:"format"`
	Access bool   `json:"access"` // every request
}

// OTel says where traces go.
type OTel struct {
	Enabled     bool    `json:"enabled"`
	Endpoint    string  `json:"endpoint"` // host:port or a URL
	Protocol    string  `json:"protocol"`
	Insecure    bool    `json:"insecure"`
	SampleRatio float64 `json:"sample_ratio"`
	ServiceName string  `json:"service_name"`
}

// Prometheus says where metrics are served.
type Prometheus struct {
	Enabled bool   `json:"enabled"`
	Path    string `json:"path"`
	Port    int    `json:"port"` // 0 is server.port
}

// Default returns the configuration of a process that is told nothing. Its
// settings.dir is empty, which Load refuses.
func Default() *Config {
	c := &Config{}
	keys().Fill(c)
	return c
}

// Blame says of an error that a key's value led to it, and what set the key: the
// variable, the flag or the place in the file.
func (c *Config) Blame(key string, err error) error {
	setter := c.sources[key].name
	if setter == "" {
		setter = "the default"
	}
	return fmt.Errorf("%s %q (%s): %w", key, keys().Text(c, key), setter, err)
}

// HasRole reports whether the process has the role.
func (c *Config) HasRole(role string) bool { return slices.Contains(c.Roles, role) }
