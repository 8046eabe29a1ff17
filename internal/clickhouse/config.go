// Package clickhouse is everything that talks to ClickHouse: pools shared by
// the tenants that name the same server, database and user, the HTTP target
// for statements and inserts, the questions the server asks for itself, the
// classes of its failures, and the quoting of names and strings.
package clickhouse

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config is what one tenant asks of ClickHouse.
type Config struct {
	// Addr is the server's host. A port behind it is that of the native
	// protocol, 9000 (9440 with TLS) when left out; without Native it is not used.
	Addr string
	// Source says where Addr comes from, for errors: "clickhouse.addr of tenant
	// birch".
	Source string
	// Native asks the server's own questions, those of EachRow and Ping, over the
	// native protocol. All else goes over HTTP.
	Native     bool
	HTTPScheme string // "http" or "https"
	HTTPPort   int
	Database   string
	Username   string
	Password   string
	TLS        TLS
	Headers    map[string]string // sent with every HTTP request; credential headers are ignored
	// QueryTimeout bounds one statement from its first byte to its last; zero
	// means no bound of our own.
	QueryTimeout time.Duration
	// MaxOpenConns bounds the statements in flight. The questions of the server's
	// own come on top, four at most.
	MaxOpenConns int
	MaxIdleConns int
}

// TLS is how the connections to ClickHouse are secured. It applies to the
// native protocol when Enabled, and to HTTP when the scheme is https.
type TLS struct {
	Enabled            bool
	CAFile             string
	CertFile           string
	KeyFile            string
	ServerName         string
	InsecureSkipVerify bool
}

const (
	defaultMaxOpen = 10
	defaultMaxIdle = 5
	// The ports of the native protocol, plain and encrypted.
	nativePort, nativeTLSPort = "9000", "9440"
)

// normal returns c with the sizes and the scheme that were left out filled in.
func (c Config) normal() Config {
	if c.MaxOpenConns <= 0 {
		c.MaxOpenConns = defaultMaxOpen
	}
	if c.MaxIdleConns <= 0 {
		c.MaxIdleConns = defaultMaxIdle
	}
	c.MaxIdleConns = min(c.MaxIdleConns, c.MaxOpenConns)
	if c.HTTPScheme == "" {
		c.HTTPScheme = "http"
	}
	return c
}

// endpoint is the address HTTP requests go to.
func (c Config) endpoint() url.URL {
	return url.URL{Scheme: c.HTTPScheme, Host: c.httpAddr(), Path: "/"}
}

// httpAddr is host and port of endpoint.
func (c Config) httpAddr() string {
	host, _ := splitAddr(c.Addr)
	return net.JoinHostPort(host, strconv.Itoa(c.HTTPPort))
}

// nativeAddr is host and port of the native protocol.
func (c Config) nativeAddr() string {
	host, port := splitAddr(c.Addr)
	switch {
	case port != "":
	case c.TLS.Enabled:
		port = nativeTLSPort
	default:
		port = nativePort
	}
	return net.JoinHostPort(host, port)
}

// server is host and port that tell the server from others.
func (c Config) server() string {
	if c.Native {
		return c.nativeAddr()
	}
	return c.httpAddr()
}

// name is the pool's name in answers, logs and metrics. It holds no secret.
func (c Config) name() string { return c.server() + "/" + c.Database }

// splitAddr splits an address whose port may be left out.
func splitAddr(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return strings.Trim(addr, "[]"), ""
	}
	return host, port
}
