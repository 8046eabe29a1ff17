package settings

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// minRetention is the shortest time for which ids are remembered: a shorter one
// would end inside the queue's own memory of message ids.
const minRetention = 2 * time.Minute

// checkConfig holds config.json against what the table of keys does not say. It
// completes values that follow from others.
func checkConfig(s *source, c *Config) {
	checkAddress(s, &c.ClickHouse)
	checkConns(s, &c.ClickHouse)
	checkTLS(s, &c.ClickHouse)
	checkHeaders(s, c.ClickHouse.Headers)
	checkRetention(s, c)
	checkBurst(s, c.Ingest.Limits)
	checkCollectors(s, c)
	checkOrigins(s, c.CORS.AllowedOrigins)
	checkKeySet(s, c.Auth.JWKSURL)
}

// checkAddress wants a host and perhaps the port of the native protocol. A port
// that looks like another one's is pointed out.
func checkAddress(s *source, ch *ClickHouse) {
	host, port, err := net.SplitHostPort(ch.Addr)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(ch.Addr, "["), "]"), "9000"
	}
	n, portErr := strconv.ParseUint(port, 10, 16)
	if host == "" || portErr != nil || n == 0 || strings.ContainsAny(host, " /@?#[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		s.error("clickhouse.addr", fmt.Sprintf("want a host, or host:port with the port of the native protocol, like localhost or localhost:9000, not %q", ch.Addr))
		return
	}
	if ch.Protocol == "http" && port != "9000" && port != "9440" && int(n) != ch.HTTPPort {
		s.warn("clickhouse.addr", fmt.Sprintf("port %s is not used: the protocol is http, whose port is http_port (%d)", port, ch.HTTPPort))
	}
}

// checkConns keeps the idle connections within the open ones: the default
// follows, a value that was written is refused.
func checkConns(s *source, ch *ClickHouse) {
	if ch.MaxIdleConns <= ch.MaxOpenConns {
		return
	}
	if s.doc.Has("clickhouse.max_idle_conns") {
		s.error("clickhouse.max_idle_conns", fmt.Sprintf("want at most max_open_conns (%d)", ch.MaxOpenConns))
		return
	}
	ch.MaxIdleConns = ch.MaxOpenConns
}

func checkTLS(s *source, ch *ClickHouse) {
	const path = "clickhouse.tls"
	https, native := ch.HTTPScheme == "https", ch.Protocol == "native"
	switch {
	case native && https && !ch.TLS.Enabled:
		s.warn(path+".enabled", "only HTTP is encrypted; the native connections are not")
	case native && !https && ch.TLS.Enabled:
		s.warn("clickhouse.http_scheme", "only the native connections are encrypted; HTTP is not")
	case !https && ch.TLS.Enabled:
		s.warn("clickhouse.http_scheme", "nothing is encrypted: tls.enabled is for the native protocol, HTTP is encrypted by https here")
	}
	if (ch.TLS.CertFile == "") != (ch.TLS.KeyFile == "") {
		s.error(path, "cert_file and key_file belong together; one of them is missing")
	}
	if ch.TLS.InsecureSkipVerify {
		s.warn(path+".insecure_skip_verify", "the server's certificate is not checked: anyone in between can read and change everything")
	}
	if ch.TLS != (TLS{}) && !ch.TLS.Enabled && !https {
		s.warn(path, "nothing of this is used: tls.enabled is false and http_scheme is http")
	}
}

// checkHeaders refuses headers that would carry credentials, pick another
// database, or break the request's framing.
func checkHeaders(s *source, headers map[string]string) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		path := strictjson.Join("clickhouse.headers", name)
		lower := strings.ToLower(name)
		switch {
		case !headerName(name):
			s.error(path, "not a header name")
		case slices.Contains(reservedHeaders(), lower) || strings.HasPrefix(lower, "x-clickhouse-"):
			s.error(path, "this header is the server's own to set; credentials are boot configuration (clickhouse.password)")
		case seen[lower]:
			s.error(path, "the header is there twice, in different case")
		case strings.ContainsFunc(headers[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			s.error(path, "a header's value must not hold control characters")
		}
		seen[lower] = true
	}
}

func reservedHeaders() []string {
	return []string{
		"authorization", "proxy-authorization", "cookie",
		"host", "content-length", "content-type", "content-encoding", "transfer-encoding",
		"connection", "keep-alive", "te", "trailer", "upgrade", "expect", "accept-encoding",
	}
}

func headerName(name string) bool {
	return name != "" && len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func checkRetention(s *source, c *Config) {
	check := func(path string, d time.Duration) {
		if d != 0 && d < minRetention {
			s.error(path, `want "0" (for ever) or at least 2m`)
		}
	}
	check("dedupe.retention", c.Dedupe.Retention)
	for _, table := range slices.Sorted(maps.Keys(c.Dedupe.Tables)) {
		if d := c.Dedupe.Tables[table].Retention; d != nil {
			check(strictjson.Join("dedupe.tables", table)+".retention", *d)
		}
	}
}

// checkBurst refuses a burst that nothing would use.
func checkBurst(s *source, limits *IngestLimits) {
	if limits != nil && limits.Burst != nil && limits.RowsPerSecond == nil {
		s.error("ingest.limits.burst", "it is of rows and does nothing without rows_per_second")
	}
}

func has[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

func checkOrigins(s *source, origins []string) {
	const path = "cors.allowed_origins"
	for i, origin := range origins {
		if origin != "*" && !validOrigin(origin) {
			s.error(strictjson.Index(path, i), fmt.Sprintf(`want "*" or an origin like "https://app.example.com", not %q`, origin))
		}
	}
	if len(origins) > 1 && slices.Contains(origins, "*") {
		s.warn(path, `"*" allows every origin; the others change nothing`)
	}
}

// validOrigin reports whether a browser could send the origin: a scheme, a host
// and perhaps a port, without anything behind.
func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == origin && !strings.Contains(u.Host, "*")
}
