package config

import "time"

// key is one boot key: its names, its meaning and the place of its value.
type key struct {
	name    string
	env     string
	doc     string
	value   any      // a pointer into a Config
	choices []string // accepted values; nil for any
	shown   string   // how the default is written when it is computed; else ""
}

// secret reports whether the key's value must not be printed.
func (k key) secret() bool {
	_, ok := k.value.(*Secret)
	return ok
}

// keys lists every boot key, in the order of the documents, bound to c.
func keys(c *Config) []key {
	list := serverKeys(c)
	list = append(list, backendKeys(c)...)
	list = append(list, secretKeys(c)...)
	return append(list, telemetryKeys(c)...)
}

func serverKeys(c *Config) []key {
	return []key{
		{name: "server.host", env: "WH_SERVER_HOST", value: &c.Server.Host,
			doc: "The address to listen on; empty is all interfaces."},
		{name: "server.port", env: "WH_SERVER_PORT", value: &c.Server.Port,
			doc: "The TCP port to listen on; 0 lets the system choose one."},
		{name: "server.ops_port", env: "WH_SERVER_OPS_PORT", value: &c.Server.OpsPort,
			doc: "A port of its own for health, metrics and operations; 0 serves them on server.port."},
		{name: "server.shutdown_timeout", env: "WH_SERVER_SHUTDOWN_TIMEOUT", value: &c.Server.ShutdownTimeout,
			doc: "How long requests and batches in flight may take to finish after a stop signal."},
		{name: "data_dir", env: "WH_DATA_DIR", value: &c.DataDir,
			doc: "The folder of the queue and the other state. It must be on a volume that persists."},
		{name: "settings.dir", env: "WH_SETTINGS_DIR", value: &c.Settings.Dir,
			doc: "The settings directory. Required."},
		{name: "roles", env: "WH_ROLES", value: &c.Roles, choices: []string{RoleAPI, RoleIngest, RoleSweeper},
			doc: "What this process does; a list, or names separated by commas."},
		{name: "instance_id", env: "WH_INSTANCE_ID", value: &c.InstanceID, shown: "host name and 8 random hex digits",
			doc: "The name of this process in logs and leases; empty makes one up."},
	}
}

func backendKeys(c *Config) []key {
	return []key{
		{name: "mq.backend", env: "WH_MQ_BACKEND", value: &c.MQ.Backend, choices: []string{"embedded", "nats"},
			doc: "The queue. This version has embedded only."},
		{name: "cache.backend", env: "WH_CACHE_BACKEND", value: &c.Cache.Backend, choices: []string{"local", "redis"},
			doc: "The cache of query results. This version has local only."},
		{name: "cache.local.max_bytes", env: "WH_CACHE_LOCAL_MAX_BYTES", value: &c.Cache.Local.MaxBytes,
			doc: "The memory of the local cache; a number is bytes."},
		{name: "dedupe.backend", env: "WH_DEDUPE_BACKEND", value: &c.Dedupe.Backend, choices: []string{"pebble", "dynamodb"},
			doc: "The store of seen ids. This version has pebble only."},
		{name: "dedupe.lease", env: "WH_DEDUPE_LEASE", value: &c.Dedupe.Lease,
			doc: "How long a claimed id is held while its record is on the way into the queue; 1s to 40s."},
		{name: "coord.backend", env: "WH_COORD_BACKEND", value: &c.Coord.Backend, choices: []string{"local", "nats"},
			doc: "Where leases between processes are held. This version has local only."},
	}
}

func secretKeys(c *Config) []key {
	return []key{
		{name: "clickhouse.password", env: "WH_CH_PASSWORD", value: &c.ClickHouse.Password,
			doc: "The ClickHouse password of every tenant that clickhouse.passwords_file does not name."},
		{name: "clickhouse.passwords_file", env: "WH_CH_PASSWORDS_FILE", value: &c.ClickHouse.PasswordsFile,
			doc: "A JSON file, an object of tenant to password, read again on every settings reload."},
		{name: "clickhouse.max_total_conns", env: "WH_CH_MAX_TOTAL_CONNS", value: &c.ClickHouse.MaxTotalConns,
			doc: "The most connections of all ClickHouse pools together; 0 is no ceiling."},
		{name: "auth.jwt_secret", env: "WH_AUTH_JWT_SECRET", value: &c.Auth.JWTSecret,
			doc: "The key of HMAC tokens (HS256, HS384, HS512); empty accepts none."},
		{name: "auth.operator_key", env: "WH_AUTH_OPERATOR_KEY", value: &c.Auth.OperatorKey,
			doc: "The key that gives full access to data and operations of every tenant; empty turns it off."},
	}
}

func telemetryKeys(c *Config) []key {
	return []key{
		{name: "log.level", env: "WH_LOG_LEVEL", value: &c.Log.Level, choices: []string{"debug", "info", "warn", "error"},
			doc: "The least severe level that is logged."},
		{name: "log.format", env: "WH_LOG_FORMAT", value: &c.Log.Format, choices: []string{"auto", "json", "text"},
			doc: "auto is text on a terminal and json elsewhere."},
		{name: "otel.enabled", env: "WH_OTEL_ENABLED", value: &c.OTel.Enabled,
			doc: "Whether traces are sent by OTLP."},
		{name: "otel.endpoint", env: "WH_OTEL_ENDPOINT", value: &c.OTel.Endpoint,
			doc: "The collector, as host:port or URL; empty is the exporter's own default."},
		{name: "otel.protocol", env: "WH_OTEL_PROTOCOL", value: &c.OTel.Protocol, choices: []string{"grpc", "http"},
			doc: "The OTLP transport."},
		{name: "otel.insecure", env: "WH_OTEL_INSECURE", value: &c.OTel.Insecure,
			doc: "Whether to speak to the collector without TLS."},
		{name: "otel.sample_ratio", env: "WH_OTEL_SAMPLE_RATIO", value: &c.OTel.SampleRatio,
			doc: "The share of traces that are kept, 0 to 1; a caller's own decision is followed."},
		{name: "otel.service_name", env: "WH_OTEL_SERVICE_NAME", value: &c.OTel.ServiceName,
			doc: "The service's name in traces."},
		{name: "prometheus.enabled", env: "WH_PROMETHEUS_ENABLED", value: &c.Prometheus.Enabled,
			doc: "Whether metrics are served."},
		{name: "prometheus.path", env: "WH_PROMETHEUS_PATH", value: &c.Prometheus.Path,
			doc: "The path of the metrics."},
		{name: "prometheus.port", env: "WH_PROMETHEUS_PORT", value: &c.Prometheus.Port,
			doc: "A port of their own for the metrics; 0 serves them on server.port."},
	}
}

// Default returns the configuration of a process that is told nothing. Its
// settings.dir is empty, which Load refuses.
func Default() *Config {
	return &Config{
		Server:  Server{Port: 8080, ShutdownTimeout: 10 * time.Second},
		DataDir: "./data",
		Roles:   []string{RoleAPI, RoleIngest, RoleSweeper},
		MQ:      MQ{Backend: "embedded"},
		Cache:   Cache{Backend: "local", Local: CacheLocal{MaxBytes: 64 << 20}},
		Dedupe:  Dedupe{Backend: "pebble", Lease: 30 * time.Second},
		Coord:   Coord{Backend: "local"},
		Log:     Log{Level: "info", Format: "auto"},
		OTel:    OTel{Protocol: "grpc", SampleRatio: 1, ServiceName: "wavehouse"},
		Prometheus: Prometheus{
			Enabled: true, Path: "/metrics",
		},
	}
}
