// Package certtest issues certificates for tests of connections over TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are the certificates of a CA, a server on 127.0.0.1 and a client, and their
// keys, as PEM files. They hold for an hour, but for another one of the server.
type Files struct{ CA, ServerCert, ServerKey, ClientCert, ClientKey, ExpiredCert, ExpiredKey string }

// Issue makes them under a CA of their own.
func Issue(t testing.TB) Files {
	t.Helper()
	i := issuer{t: t, dir: t.TempDir(), ca: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	i.key = i.newKey()
	var f Files
	f.CA, _ = i.sign("ca", i.ca, i.key)
	f.ServerCert, f.ServerKey = i.leaf("server", x509.ExtKeyUsageServerAuth, time.Hour)
	f.ClientCert, f.ClientKey = i.leaf("client", x509.ExtKeyUsageClientAuth, time.Hour)
	f.ExpiredCert, f.ExpiredKey = i.leaf("expired", x509.ExtKeyUsageServerAuth, -time.Hour)
	return f
}

type issuer struct {
	t   testing.TB
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

func (i issuer) leaf(name string, use x509.ExtKeyUsage, life time.Duration) (certFile, keyFile string) {
	return i.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{use}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, i.newKey())
}

func (i issuer) sign(name string, c *x509.Certificate, key *ecdsa.PrivateKey) (certFile, keyFile string) {
	i.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, i.ca, &key.PublicKey, i.key)
	i.check(err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	i.check(err)
	return i.write(name+".crt", "CERTIFICATE", der), i.write(name+".key", "PRIVATE KEY", raw)
}

func (i issuer) write(name, kind string, der []byte) string {
	i.t.Helper()
	path := filepath.Join(i.dir, name)
	i.check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (i issuer) newKey() *ecdsa.PrivateKey {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.check(err)
	return key
}

func (i issuer) check(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatalf("issue certificates: %v", err)
	}
}
