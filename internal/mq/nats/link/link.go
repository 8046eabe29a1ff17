// Package link connects to an operator's NATS cluster: with every kind of
// credentials, and back again whenever a connection is lost.
package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Options say where the cluster is and who asks. Of User, NKeyFile and CredsFile
// one at most is set.
type Options struct {
	// URLs of the servers, as nats://host:port, tls:// for TLS; without
	// credentials.
	URLs []string
	// User has the password in PasswordFile, which is read again for every
	// connection, as all files here are.
	User, PasswordFile string
	// NKeyFile holds the seed of an nkey.
	NKeyFile string
	// CredsFile holds a JWT and its seed.
	CredsFile string
	TLS       TLS
	// Timeout bounds one attempt to connect; 0 is 5 s.
	Timeout time.Duration

	// resubscribe is 5 s but in tests.
	resubscribe time.Duration
}

// TLS is used where something of it is set, or a URL says so.
type TLS struct {
	Enabled bool
	// CAFile signs the servers' certificates; "" is what the system trusts.
	CAFile string
	// CertFile and KeyFile are the client's certificate; both or none.
	CertFile, KeyFile string
	// HandshakeFirst is for servers that begin with TLS, before anything of NATS.
	HandshakeFirst bool
}

func (t TLS) set() bool { return t != TLS{} }

// Handlers learn of a connection's life. Nil ones are left out.
type Handlers struct {
	// Lost is called when the connection broke, Back when there is another, on
	// one goroutine per connection.
	Lost, Back func()
}

// Pauses between attempts to connect.
const (
	defaultTimeout = 5 * time.Second
	reconnectWait  = 100 * time.Millisecond
	dialPause      = 500 * time.Millisecond
	// resubscribe is when a connection is made anew whose server refused a
	// subscription: it forgot it, and the user may have the permission by then.
	resubscribe = 5 * time.Second
)

// Dial connects, and tries again until ctx ends. The error then wraps
// mq.ErrUnavailable and says what the last attempt met. What can never succeed,
// like a file that is not there, is told at once. Whoever dials closes.
func Dial(ctx context.Context, o Options, name string, log *slog.Logger, h Handlers) (*nats.Conn, error) {
	opts, err := o.options(name, log, h)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", o.where(), err)
	}
	told := ""
	for {
		nc, err := nats.Connect(strings.Join(o.URLs, ","), opts...)
		if err == nil {
			return nc, nil
		}
		err = o.Advised(err)
		if err.Error() != told {
			told = err.Error()
			log.Warn("NATS cannot be reached yet", "urls", o.where(), "error", err)
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: connect to NATS at %s: %w", mq.ErrUnavailable, o.where(), err)
		}
	}
}

func (o Options) options(name string, log *slog.Logger, h Handlers) ([]nats.Option, error) {
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	said, again := &voice{log: log, name: name}, &atomic.Bool{}
	opts := []nats.Option{
		nats.Name(name), nats.Timeout(timeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait), nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
		// Credentials that were refused may be right at the next attempt.
		nats.IgnoreAuthErrorAbort(),
		// A publish without a connection fails at once instead of waiting in
		// a buffer where its outcome would be unknown.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			said.say(subject, o.Advised(err))
			if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription") && again.CompareAndSwap(false, true) {
				time.AfterFunc(cmp.Or(o.resubscribe, resubscribe), func() {
					again.Store(false)
					_ = nc.ForceReconnect() // one that is closed stays so
				})
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Info("NATS connection is lost", "name", name, "error", o.redact(err))
			call(h.Lost)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS connection is back", "name", name, "server", nc.ConnectedServerName())
			call(h.Back)
		}),
	}
	for _, more := range []func() ([]nats.Option, error){o.auth, o.tls} {
		added, err := more()
		if err != nil {
			return nil, err
		}
		opts = append(opts, added...)
	}
	return opts, nil
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// auth reads every file once, so that a mistake shows before dialling.
func (o Options) auth() ([]nats.Option, error) {
	switch {
	case o.User != "":
		if _, err := o.password(); err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserInfoHandler(func() (string, string) {
			password, _ := o.password() // the server refuses what could not be read
			return o.User, password
		})}, nil
	case o.NKeyFile != "":
		opt, err := nats.NkeyOptionFromSeed(o.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey seed in %q: %w", o.NKeyFile, err)
		}
		return []nats.Option{opt}, nil
	case o.CredsFile != "":
		if _, err := os.ReadFile(o.CredsFile); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		return []nats.Option{nats.UserCredentials(o.CredsFile)}, nil
	}
	return nil, nil
}

// who says what the servers are shown, and the keys that it is set by.
func (o Options) who() string {
	switch {
	case o.User != "":
		return fmt.Sprintf("user %q (mq.nats.user) with the password in %q (mq.nats.password_file)", o.User, o.PasswordFile)
	case o.NKeyFile != "":
		return fmt.Sprintf("the nkey in %q (mq.nats.nkey_file)", o.NKeyFile)
	case o.CredsFile != "":
		return fmt.Sprintf("the credentials in %q (mq.nats.creds_file)", o.CredsFile)
	}
	return "a client without credentials: set mq.nats.user and mq.nats.password_file, mq.nats.nkey_file or mq.nats.creds_file"
}

func (o Options) password() (string, error) {
	if o.PasswordFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" {
		return "", fmt.Errorf("password: the file %q is empty", o.PasswordFile)
	}
	return password, nil
}

func (o Options) tls() ([]nats.Option, error) {
	if !o.TLS.set() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS.CAFile != "" {
		pem, err := os.ReadFile(o.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA: %q holds no certificate in PEM", o.TLS.CAFile)
		}
	}
	if o.TLS.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.TLS.CertFile, o.TLS.KeyFile); err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.TLS.CertFile, o.TLS.KeyFile)
			return &cert, err
		}
	}
	opts := []nats.Option{nats.Secure(config)}
	if o.TLS.HandshakeFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	return opts, nil
}

// where shows the URLs without what may be secret in them.
func (o Options) where() string {
	var shown []string
	for _, text := range o.URLs {
		shown = append(shown, Redacted(text))
	}
	return strings.Join(shown, ", ")
}

// Redacted is a URL without a password or a token.
func Redacted(text string) string {
	if u, err := url.Parse(text); err == nil {
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		return u.String()
	}
	return regexp.MustCompile(`[^/@]*@`).ReplaceAllString(text, "xxxxx@")
}

// redact takes out of an error what may be secret.
func (o Options) redact(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, u := range o.URLs {
		clean = strings.ReplaceAll(clean, u, Redacted(u))
	}
	if password, e := o.password(); e == nil && password != "" {
		clean = strings.ReplaceAll(clean, password, "xxxxx")
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
