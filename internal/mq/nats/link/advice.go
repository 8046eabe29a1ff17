package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Advised adds to an error of a connection what to change, where that is known, and
// takes out of it what may be secret. It is nil for nil.
func (o Options) Advised(err error) error {
	if err == nil {
		return nil
	}
	advice := o.advice(err)
	err = o.redact(err)
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

func (o Options) advice(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		header  tls.RecordHeaderError
	)
	switch text := err.Error(); {
	case errors.Is(err, nats.ErrAuthorization), strings.Contains(strings.ToLower(text), "authorization violation"):
		return "the servers do not take " + o.who()
	case errors.As(err, &unknown) && o.TLS.CAFile == "":
		return "set mq.nats.tls.ca_file to the CA that signed the servers' certificates"
	case errors.As(err, &unknown):
		return fmt.Sprintf("the servers' certificates are not signed by %q (mq.nats.tls.ca_file)", o.TLS.CAFile)
	case errors.As(err, &name):
		return "mq.nats.urls must call the servers as their certificates do"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the servers need certificates that are valid now"
	case errors.As(err, &invalid):
		return "the servers need other certificates"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the servers speak no TLS, which mq.nats.tls asks for"
	case errors.As(err, &header):
		return "mq.nats.tls.handshake_first is set, and the servers do not begin with TLS"
	case strings.Contains(text, "remote error: tls: "), strings.Contains(text, "closed by remote after TLS handshake"):
		return fmt.Sprintf("the servers want another client certificate than %q (mq.nats.tls.cert_file)", o.TLS.CertFile)
	}
	return ""
}

// repeatAfter is when the log says again what it said last.
const repeatAfter = time.Minute

// voice says what a connection meets, and not again at every attempt.
type voice struct {
	log  *slog.Logger
	name string

	mu   sync.Mutex
	last string
	at   time.Time
}

func (v *voice) say(subject string, err error) {
	v.mu.Lock()
	text, now := subject+err.Error(), time.Now()
	repeated := text == v.last && now.Sub(v.at) < repeatAfter
	if !repeated {
		v.last, v.at = text, now
	}
	v.mu.Unlock()
	if !repeated {
		v.log.Warn("NATS connection", "name", v.name, "subject", subject, "error", err)
	}
}
