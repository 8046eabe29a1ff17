package link

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/certtest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// dials reports how the first attempt to connect went.
func dials(t *testing.T, o Options) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it tries once all the same
	o.Timeout = 30 * time.Second
	nc, err := Dial(ctx, o, "test", quiet(), Handlers{})
	if err == nil {
		require.NoError(t, nc.Flush())
		nc.Close()
	}
	return err
}

func TestUserAndPassword(t *testing.T) {
	dir := t.TempDir()
	c := natstest.Start(t, natstest.Options{Config: `authorization { user: wave, password: "s3cret-word" }`})
	o := Options{URLs: c.URLs(), User: "wave", PasswordFile: write(t, dir, "password", []byte("s3cret-word\n"))}
	require.NoError(t, dials(t, o))
	o.PasswordFile = write(t, dir, "wrong", []byte("other-word"))
	err := dials(t, o)
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.ErrorContains(t, err, "Authorization Violation")
	require.ErrorContains(t, err, `user "wave" (mq.nats.user)`)
	require.ErrorContains(t, dials(t, Options{URLs: c.URLs()}), "without credentials: set mq.nats.user")
	o.PasswordFile = write(t, dir, "empty", nil)
	require.ErrorContains(t, dials(t, o), "is empty")
	o.PasswordFile = filepath.Join(dir, "absent")
	require.NotErrorIs(t, dials(t, o), mq.ErrUnavailable, "waiting does not help")
}

func TestNKey(t *testing.T) {
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	c := natstest.Start(t, natstest.Options{Config: fmt.Sprintf("authorization { users: [ { nkey: %s } ] }", public)})
	require.NoError(t, dials(t, Options{URLs: c.URLs(), NKeyFile: write(t, t.TempDir(), "seed", seed)}))
	require.Error(t, dials(t, Options{URLs: c.URLs()}), "nobody")
	other, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err = other.Seed()
	require.NoError(t, err)
	require.ErrorContains(t, dials(t, Options{URLs: c.URLs(), NKeyFile: write(t, t.TempDir(), "seed", seed)}), "(mq.nats.nkey_file)")
	require.ErrorContains(t, dials(t, Options{URLs: c.URLs(), NKeyFile: write(t, t.TempDir(), "seed", []byte("no seed"))}), "nkey seed")
}

func TestCredsFile(t *testing.T) {
	key := func(make func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
		pair, err := make()
		require.NoError(t, err)
		public, err = pair.PublicKey()
		require.NoError(t, err)
		return pair, public
	}
	operator, operatorID := key(nkeys.CreateOperator)
	account, accountID := key(nkeys.CreateAccount)
	user, userID := key(nkeys.CreateUser)
	_, systemID := key(nkeys.CreateAccount)
	operatorJWT, err := jwt.NewOperatorClaims(operatorID).Encode(operator)
	require.NoError(t, err)
	accountJWT, err := jwt.NewAccountClaims(accountID).Encode(operator)
	require.NoError(t, err)
	systemJWT, err := jwt.NewAccountClaims(systemID).Encode(operator)
	require.NoError(t, err)
	userJWT, err := jwt.NewUserClaims(userID).Encode(account)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	require.NoError(t, err)
	c := natstest.Start(t, natstest.Options{Config: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n# accounts",
		operatorJWT, systemID, accountID, accountJWT, systemID, systemJWT)})
	require.NoError(t, dials(t, Options{URLs: c.URLs(), CredsFile: write(t, t.TempDir(), "creds", creds)}))
	require.ErrorContains(t, dials(t, Options{URLs: c.URLs(), CredsFile: "absent"}), "absent")
	stranger, _ := key(nkeys.CreateAccount)
	userJWT, err = jwt.NewUserClaims(userID).Encode(stranger)
	require.NoError(t, err)
	creds, err = jwt.FormatUserConfig(userJWT, seed)
	require.NoError(t, err)
	require.ErrorContains(t, dials(t, Options{URLs: c.URLs(), CredsFile: write(t, t.TempDir(), "creds", creds)}), "(mq.nats.creds_file)")
}

func TestTLS(t *testing.T) {
	files := certtest.Issue(t)
	for name, more := range map[string]string{"server alone": "", "mutual": "verify: true, ", "handshake first": "verify: true, handshake_first: true, "} {
		t.Run(name, func(t *testing.T) {
			c := natstest.Start(t, natstest.Options{Config: fmt.Sprintf("tls { %scert_file: %q, key_file: %q, ca_file: %q }",
				more, files.ServerCert, files.ServerKey, files.CA)})
			o := Options{URLs: c.URLs(), TLS: TLS{CAFile: files.CA, HandshakeFirst: strings.Contains(more, "handshake")}}
			if more != "" {
				require.Error(t, dials(t, o), "no certificate")
				o.TLS.CertFile, o.TLS.KeyFile = files.ClientCert, files.ClientKey
			}
			require.NoError(t, dials(t, o))
			o.TLS.CAFile = certtest.Issue(t).CA
			require.ErrorContains(t, dials(t, o), "(mq.nats.tls.ca_file)")
			o.TLS.CAFile = ""
			o.TLS.Enabled = true
			require.ErrorContains(t, dials(t, o), "set mq.nats.tls.ca_file", "a CA that the system does not know")
		})
	}
	require.ErrorContains(t, dials(t, Options{TLS: TLS{CAFile: files.ServerKey}}), "holds no certificate")
	require.ErrorContains(t, dials(t, Options{TLS: TLS{CertFile: files.ClientCert, KeyFile: files.ServerKey}}), "client certificate")
	require.Error(t, dials(t, Options{TLS: TLS{CAFile: "absent"}}))
}

// What a connection meets comes with what to change.
func TestWhatToChangeIsSaid(t *testing.T) {
	files := certtest.Issue(t)
	secure := natstest.Start(t, natstest.Options{Config: fmt.Sprintf("tls { verify: true, cert_file: %q, key_file: %q, ca_file: %q }",
		files.ServerCert, files.ServerKey, files.CA)})
	expired := natstest.Start(t, natstest.Options{Config: fmt.Sprintf("tls { cert_file: %q, key_file: %q }", files.ExpiredCert, files.ExpiredKey)})
	plain := natstest.Start(t, natstest.Options{})
	known := TLS{CAFile: files.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey}
	other := certtest.Issue(t)
	foreign, first := known, known
	foreign.CertFile, foreign.KeyFile = other.ClientCert, other.ClientKey
	first.HandshakeFirst = true
	for want, o := range map[string]Options{
		"(mq.nats.tls.cert_file)":            {URLs: secure.URLs(), TLS: foreign},
		"mq.nats.urls must call the servers": {URLs: []string{strings.Replace(secure.URLs()[0], "127.0.0.1", "localhost", 1)}, TLS: known},
		"certificates that are valid now":    {URLs: expired.URLs(), TLS: known},
		"the servers speak no TLS":           {URLs: plain.URLs(), TLS: known},
		"the servers do not begin with TLS":  {URLs: secure.URLs(), TLS: first},
	} {
		err := dials(t, o)
		require.ErrorIs(t, err, mq.ErrUnavailable)
		assert.ErrorContains(t, err, want)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	o := Options{URLs: []string{"nats://wave:hunter2@127.0.0.1:1", "nats://token@127.0.0.1:1"}, User: "wave",
		PasswordFile: write(t, t.TempDir(), "password", []byte("hunter2"))}
	err := dials(t, o)
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "token")
	require.Contains(t, err.Error(), "nats://xxxxx@127.0.0.1:1")
	assert.Equal(t, "no hunter: xxxxx", o.redact(fmt.Errorf("no hunter: hunter2")).Error())
	assert.Equal(t, "nats://xxxxx@\x00", Redacted("nats://a:b@\x00"))
}

// A server that comes back with other credentials refuses every attempt; that is said
// once, with what to change.
func TestARefusalIsSaidOnce(t *testing.T) {
	c := natstest.Start(t, natstest.Options{Config: `authorization { user: wave, password: "s3cret-word" }`})
	password := write(t, t.TempDir(), "password", []byte("s3cret-word"))
	said := &record{}
	log := slog.New(slog.NewTextHandler(said, nil))
	back := make(chan struct{}, 8)
	nc, err := Dial(t.Context(), Options{URLs: c.URLs(), User: "wave", PasswordFile: password}, "test", log, Handlers{Back: func() { back <- struct{}{} }})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(password, []byte("other-word"), 0o600))
	c.Nodes[0].Kill()
	c.Nodes[0].Start(t)
	require.Eventually(t, func() bool { return nc.Stats().Reconnects > 3 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(password, []byte("s3cret-word"), 0o600))
	<-back
	nc.Close()
	require.Equal(t, 1, strings.Count(said.String(), `(mq.nats.user)`), said.String())
}

// What a user may not hear for a while is heard again when he may.
func TestARefusedSubscriptionComesBack(t *testing.T) {
	const may = `authorization { users = [ { user: wave, password: "s3cret-word", permissions: { publish: ">", subscribe: "%s" } } ] }`
	c := natstest.Start(t, natstest.Options{Config: fmt.Sprintf(may, ">")})
	said, heard := &record{}, make(chan struct{}, 1)
	nc, err := Dial(t.Context(), Options{
		URLs: c.URLs(), User: "wave", PasswordFile: write(t, t.TempDir(), "password", []byte("s3cret-word")), resubscribe: 50 * time.Millisecond,
	}, "test", slog.New(slog.NewTextHandler(said, nil)), Handlers{})
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Subscribe("told", func(*nats.Msg) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	require.NoError(t, err)
	hears := func() bool {
		_ = nc.Publish("told", nil) // there may be no connection just now
		select {
		case <-heard:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	}
	require.Eventually(t, hears, time.Minute, time.Millisecond)
	c.Nodes[0].Reconfigure(t, fmt.Sprintf(may, "other"))
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "for Subscription") }, time.Minute, time.Millisecond)
	c.Nodes[0].Reconfigure(t, fmt.Sprintf(may, ">"))
	select { // what came before
	case <-heard:
	default:
	}
	require.Eventually(t, hears, time.Minute, time.Millisecond)
}

// record keeps what is logged.
type record struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// A connection that was lost comes back, and both are told.
func TestComesBack(t *testing.T) {
	c := natstest.Start(t, natstest.Options{})
	lost, back := make(chan struct{}, 8), make(chan struct{}, 8)
	nc, err := Dial(t.Context(), Options{URLs: c.URLs()}, "test", quiet(), Handlers{
		Lost: func() { lost <- struct{}{} }, Back: func() { back <- struct{}{} },
	})
	require.NoError(t, err)
	defer nc.Close()
	c.Nodes[0].Kill()
	<-lost
	require.Error(t, nc.Publish("x", nil), "nothing waits in a buffer")
	c.Nodes[0].Start(t)
	<-back
	require.NoError(t, nc.FlushTimeout(10*time.Second))
}
