package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode says what the addresses lead to.
type Mode string

// The modes.
const (
	Standalone Mode = "standalone" // one server
	Cluster    Mode = "cluster"    // nodes of a cluster
	Sentinel   Mode = "sentinel"   // sentinels, which know the primary
)

// Options are what a Cache is made with.
type Options struct {
	Mode      Mode
	Addresses []string // host:port
	Master    string   // the primary's name at the sentinels
	Username  string
	Password  string
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername, SentinelPassword string
	DB                                 int
	// Prefix and a colon begin every key.
	Prefix string
	TLS    TLS
	// OpTimeout bounds an operation; zero is 100 ms.
	OpTimeout time.Duration
	// Member names this process, and after a restart the one that takes its place.
	// No two processes that run may share it.
	Member string
	// Absence is how long the others wait for a process that fell silent; zero is
	// 10 minutes.
	Absence time.Duration
	Timing  Timing

	Logger  *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil counts nowhere
}

// Timing is how processes learn of each other's silence; zero fields are the
// usual times.
type Timing struct {
	// Lease is how long a process may be silent before the others stop giving out
	// cached answers; 2 s.
	Lease time.Duration
	// Grace is how long a process that had no lease waits for the others to come
	// back, too, before it trusts; as long as the lease.
	Grace time.Duration
	// Lock is how long a question that is being asked is waited for when who asks
	// it fell silent; 3 s.
	Lock time.Duration
}

// TLS says how connections are secured. Off without Enabled.
type TLS struct {
	Enabled                   bool
	CAFile, CertFile, KeyFile string
	ServerName                string
}

func (o *Options) complete() {
	for at, usual := range map[*time.Duration]time.Duration{
		&o.OpTimeout: 100 * time.Millisecond, &o.Absence: 10 * time.Minute,
		&o.Timing.Lease: 2 * time.Second, &o.Timing.Lock: 3 * time.Second,
	} {
		if *at <= 0 {
			*at = usual
		}
	}
	if o.Timing.Grace <= 0 {
		o.Timing.Grace = o.Timing.Lease
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
}

// dialTimeout bounds a connection's start, which operations do not wait for.
const dialTimeout = 2 * time.Second

// topologyAge is how long a process believes what it heard last of who owns a slot. A
// primary that died redirects nobody, so this is how it is found out.
const topologyAge = 2 * time.Second

// silent keeps the client's own lines from the standard error output: what fails
// is in the errors of operations.
type silent struct{}

// Printf writes nothing.
func (silent) Printf(context.Context, string, ...any) {}

// client makes the client. It dials nothing yet.
func (o *Options) client() (goredis.UniversalClient, error) {
	goredis.SetLogger(silent{})
	secured, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	u := &goredis.UniversalOptions{
		Addrs: o.Addresses, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: secured,
		// An operation that fails is not repeated: a miss costs less than the wait.
		// Connections that ended unseen are the exception that MinIdleConns pays for.
		MaxRetries: -1, MaxRedirects: 3, DialerRetries: 1,
		DialTimeout: dialTimeout, ReadTimeout: o.OpTimeout, WriteTimeout: o.OpTimeout, PoolTimeout: o.OpTimeout,
		ContextTimeoutEnabled: true, MinIdleConns: 2, ConnMaxIdleTime: 5 * time.Minute,
		// Commands beside those that the manual names.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch o.Mode {
	case Standalone:
		return goredis.NewClient(u.Simple()), nil
	case Cluster:
		cluster := u.Cluster()
		cluster.ClusterStateReloadInterval = topologyAge
		return goredis.NewClusterClient(cluster), nil
	case Sentinel:
		u.MasterName, u.SentinelUsername, u.SentinelPassword = o.Master, o.SentinelUsername, o.SentinelPassword
		return goredis.NewFailoverClient(u.Failover()), nil
	}
	return nil, fmt.Errorf("unknown mode %q", o.Mode)
}

// errNoCertificate: a file that should hold certificates holds none.
var errNoCertificate = errors.New("no certificate in it")

// config reads the files; nil without TLS.
func (t TLS) config() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA of Redis: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA of Redis: %q: %w", t.CAFile, errNoCertificate)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for Redis: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
