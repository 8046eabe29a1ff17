// Package clickhouse is everything that talks to ClickHouse: pools shared by
// the tenants that name the same server, database and user, the HTTP target
// for statements and inserts, the classes of its failures, and the quoting of
// names and strings.
package clickhouse

import (
	"net"
	"net/url"
	"strconv"
	"time"
)

// Config is what one tenant asks of ClickHouse.
type Config struct {
	Addr       string // host:port of the native protocol
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
	MaxOpenConns int // native connections, and HTTP requests in flight
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

// endpoint is the address HTTP requests go to: the host of the native address
// and the tenant's own HTTP port.
func (c Config) endpoint() url.URL {
	return url.URL{Scheme: c.HTTPScheme, Host: c.httpAddr(), Path: "/"}
}

// httpAddr is host and port of endpoint.
func (c Config) httpAddr() string {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		host = c.Addr
	}
	return net.JoinHostPort(host, strconv.Itoa(c.HTTPPort))
}

// name is the pool's name in answers, logs and metrics. It holds no secret.
func (c Config) name() string { return c.Addr + "/" + c.Database }
