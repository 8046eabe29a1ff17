package config

import (
	"math"
	"strings"
	"time"
)

// Bounds of the numbers.
const (
	maxPort     = 65535
	maxShutdown = time.Hour
	// A claim that lapsed must do so well within the time for which the queue
	// knows a message again, 90 seconds.
	minLease, maxLease = time.Second, 40 * time.Second
	maxName            = 256 // bytes of instance_id and otel.service_name
	// Shorter secrets can be guessed; they are used, with a warning.
	weakJWTSecret   = 32
	weakOperatorKey = 16
)

// check tests the values against each other and their bounds.
func (l *loader) check() {
	c := l.config
	l.ports()
	if c.Server.ShutdownTimeout <= 0 || c.Server.ShutdownTimeout > maxShutdown {
		l.faultf("server.shutdown_timeout: want more than 0 and at most 1h")
	}
	if c.Settings.Dir == "" {
		l.faultf("settings.dir: required; set WH_SETTINGS_DIR to the settings directory (wavehouse bootstrap writes one)")
	}
	if c.Dedupe.Lease < minLease || c.Dedupe.Lease > maxLease {
		l.faultf("dedupe.lease: want 1s to 40s")
	}
	if c.Cache.Local.MaxBytes < 1<<20 {
		l.faultf("cache.local.max_bytes: want at least 1MiB")
	}
	if c.ClickHouse.MaxTotalConns < 0 {
		l.faultf("clickhouse.max_total_conns: want 0 (no ceiling) or more")
	}
	l.names()
	l.telemetry()
	l.weakSecrets()
	l.backends()
}

func (l *loader) ports() {
	for key, port := range map[string]int{
		"server.port": l.config.Server.Port, "server.ops_port": l.config.Server.OpsPort, "prometheus.port": l.config.Prometheus.Port,
	} {
		if port < 0 || port > maxPort {
			l.faultf("%s: want 0 to %d, not %d", key, maxPort, port)
		}
	}
}

func (l *loader) names() {
	for _, name := range []string{"instance_id", "otel.service_name"} {
		k, _ := l.byName(name)
		if !printable(k.text()) || len(k.text()) > maxName {
			l.faultf("%s: want 1 to %d printable ASCII characters without spaces", name, maxName)
		}
	}
}

// printable reports whether s is visible ASCII, and not empty.
func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (l *loader) telemetry() {
	c := l.config
	if r := c.OTel.SampleRatio; math.IsNaN(r) || r < 0 || r > 1 {
		l.faultf("otel.sample_ratio: want 0 to 1")
	}
	if p := c.Prometheus.Path; !strings.HasPrefix(p, "/") || !printable(p) || strings.ContainsAny(p, "?#*{}") {
		l.faultf("prometheus.path: want a path like /metrics, not %q", p)
	}
	if strings.HasPrefix(c.Prometheus.Path, "/v1/") && c.Prometheus.Port == 0 {
		l.faultf("prometheus.path: %q lies among the API's own routes; choose another or set prometheus.port", c.Prometheus.Path)
	}
}

func (l *loader) weakSecrets() {
	if n := len(l.config.Auth.JWTSecret); n > 0 && n < weakJWTSecret {
		l.warnf("auth.jwt_secret is shorter than %d bytes and can be guessed from a single token", weakJWTSecret)
	}
	if n := len(l.config.Auth.OperatorKey); n > 0 && n < weakOperatorKey {
		l.warnf("auth.operator_key is shorter than %d bytes", weakOperatorKey)
	}
}
