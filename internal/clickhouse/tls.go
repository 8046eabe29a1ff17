package clickhouse

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// secured is a tenant's TLS with its files read. print changes when the content
// of a file does, so that a renewed certificate makes a new pool.
type secured struct {
	config *tls.Config
	print  string
	stamp  string // of the files when they were read
}

// securedKey tells TLS settings apart; host is the name to verify when none is
// given.
type securedKey struct {
	TLS
	host string
}

// securedFiles remembers what was read, so that a reload reads each file once
// and only when it is another than before.
type securedFiles struct{ before, now map[securedKey]secured }

// again returns the memory for the next look; what is not asked for then is
// forgotten.
func (f securedFiles) again() securedFiles {
	return securedFiles{before: f.now, now: map[securedKey]secured{}}
}

func (f securedFiles) load(t TLS, addr string) (secured, error) {
	host, _ := splitAddr(addr)
	key := securedKey{t, host}
	if found, ok := f.now[key]; ok {
		return found, nil
	}
	stamp := t.stamp()
	found, ok := f.before[key]
	if !ok || found.stamp != stamp {
		var err error
		if found, err = t.load(host); err != nil {
			return secured{}, err
		}
		found.stamp = stamp
	}
	f.now[key] = found
	return found, nil
}

// stamp changes when a file is replaced or written.
func (t TLS) stamp() string {
	var stamp strings.Builder
	for _, file := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			_, _ = fmt.Fprintf(&stamp, "%v;", err)
			continue
		}
		_, _ = fmt.Fprintf(&stamp, "%d %d;", info.Size(), info.ModTime().UnixNano())
	}
	return stamp.String()
}

// load reads the files. host is the name to verify when none is given.
func (t TLS) load(host string) (secured, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	digest := sha256.New()
	_, _ = fmt.Fprintf(digest, "%v\x00%s\x00%v\x00", t.Enabled, t.ServerName, t.InsecureSkipVerify)
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return secured{}, fmt.Errorf("read the CA certificate: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return secured{}, fmt.Errorf("read the CA certificate %s: no certificate in it", t.CAFile)
		}
		digest.Write(pem)
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return secured{}, fmt.Errorf("read the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
		for _, der := range pair.Certificate {
			digest.Write(der)
		}
	}
	return secured{config: c, print: hex.EncodeToString(digest.Sum(nil))}, nil
}
