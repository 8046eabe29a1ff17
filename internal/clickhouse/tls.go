package clickhouse

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"os"
)

// secured is a tenant's TLS with its files read. print changes when the content
// of a file does, so that a renewed certificate makes a new pool.
type secured struct {
	config *tls.Config
	print  string
}

// load reads the files. host is the name to verify when none is given.
func (t TLS) load(addr string) (secured, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%v\x00%s\x00%v\x00", t.Enabled, t.ServerName, t.InsecureSkipVerify)
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
