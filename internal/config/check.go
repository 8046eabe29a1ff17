package config

import (
	"strings"
)

// Shorter secrets can be guessed; they are used, with a warning.
const (
	weakJWTSecret   = 32 // bytes
	weakOperatorKey = 16
	// weakIDKey is refused: there is a key without one, too.
	weakIDKey = 32
)

// With less than this the server does nothing well.
const (
	leastMemory  = 128 << 20
	leastAnswers = 16 << 20
)

// check holds the values against what the table of keys does not say, and
// against each other.
func (l *loader) check() {
	c := l.config
	for key, name := range map[string]string{"instance_id": c.InstanceID, "otel.service_name": c.OTel.ServiceName} {
		if !printable(name) {
			l.faultf("%s: want printable ASCII characters without spaces", key)
		}
	}
	switch path := c.Prometheus.Path; {
	case !strings.HasPrefix(path, "/") || !printable(path) || strings.ContainsAny(path, "?#*{}"):
		l.faultf("prometheus.path: want a path like /metrics, not %q", path)
	case strings.HasPrefix(path, "/v1/") && c.Prometheus.Port == 0:
		l.faultf("prometheus.path: %q lies among the API's own routes; choose another or set prometheus.port", path)
	}
	if n := len(c.Auth.JWTSecret); n > 0 && n < weakJWTSecret {
		l.warnf("auth.jwt_secret is shorter than %d bytes and can be guessed from a single token", weakJWTSecret)
	}
	if n := len(c.Auth.OperatorKey); n > 0 && n < weakOperatorKey {
		l.warnf("auth.operator_key is shorter than %d bytes", weakOperatorKey)
	}
	if n := len(c.Stream.IDKey); n > 0 && n < weakIDKey {
		l.faultf("stream.id_key: want at least %d bytes, not %d", weakIDKey, n)
	}
	for key, c := range map[string]struct{ value, least int64 }{
		"limits.memory": {c.Limits.Memory, leastMemory}, "limits.answers": {c.Limits.Answers, leastAnswers},
	} {
		if c.value != 0 && c.value < c.least {
			l.faultf("%s: want at least %dMiB, or 0", key, c.least>>20)
		}
	}
	l.backends()
}

// printable reports whether s is visible ASCII.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
