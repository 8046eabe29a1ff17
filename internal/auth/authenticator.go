package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// OperatorKeyHeader carries the operator key for clients whose Authorization
// header is taken.
const OperatorKeyHeader = "X-Operator-Key"

// Options are what an Authenticator is built from.
type Options struct {
	// OperatorKey opens everything; "" means that there is none.
	OperatorKey string
	// Secret returns what verifies the tokens of a tenant without a key set; ""
	// means that none of those is valid. It is required.
	Secret func(id tenant.ID) string
	// Fetching says how key sets are fetched.
	Fetching Fetching
	// Logger is where wrong operator keys and key sets are reported; nil is
	// nowhere.
	Logger *slog.Logger
	// Metrics registers the counters; nil registers none.
	Metrics prometheus.Registerer
	// Now is the clock that expiry is judged by; nil is time.Now.
	Now func() time.Time
}

// Authenticator tells who is calling. It may be used concurrently.
type Authenticator struct {
	operatorKey [sha256.Size]byte
	hasOperator bool
	secret      func(id tenant.ID) string
	logger      *slog.Logger
	now         func() time.Time
	failures    prometheus.Counter
	keyring     *keyring
	verified    *verifiedTokens
}

// New builds an Authenticator.
func New(o Options) *Authenticator {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Authenticator{
		operatorKey: sha256.Sum256([]byte(o.OperatorKey)),
		hasOperator: o.OperatorKey != "",
		secret:      o.Secret,
		logger:      o.Logger,
		now:         o.Now,
		failures: promauto.With(o.Metrics).NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_auth_operator_key_failures_total",
			Help: "Requests that carried a wrong operator key.",
		}),
		keyring:  newKeyring(o.Fetching, o.Logger, o.Metrics),
		verified: newVerifiedTokens(maxVerifiedCost),
	}
}

// Run fetches the key sets of the tenants and keeps them fresh until ctx ends.
// It returns nil once no fetch is left. Without it tokens are verified by the
// secret alone.
func (a *Authenticator) Run(ctx context.Context) error {
	a.keyring.run(ctx)
	return nil
}

// Reconcile makes the verifiers follow the tenants that are served. It never
// waits for a key server.
func (a *Authenticator) Reconcile(snapshots map[tenant.ID]*settings.Snapshot) {
	wanted := map[string][]tenant.ID{}
	for _, id := range slices.Sorted(maps.Keys(snapshots)) {
		if address := snapshots[id].Config.Auth.JWKSURL; address != "" {
			wanted[address] = append(wanted[address], id)
		}
	}
	added := a.keyring.reconcile(wanted, time.Now())
	for _, address := range added {
		tenants := slices.DeleteFunc(slices.Clone(wanted[address]), func(id tenant.ID) bool { return a.secret(id) == "" })
		if len(tenants) == 0 {
			continue
		}
		a.logger.Warn("these tenants' tokens are verified by auth.jwks_url alone; auth.jwt_secret is not used for them",
			"url", shown(address), "tenants", tenants[:min(len(tenants), maxLogged)])
	}
}

// Identify reads the credentials of a request to the tenant of snap. The error
// is ErrMultipleCredentials or ErrVerifierPending; a credential that is merely
// wrong leaves a caller without a role.
//
// streamToken is the token of the query string on the route that takes one, ""
// elsewhere; it counts only when the request has no Authorization header.
// Without a snapshot only the operator key can be recognised.
func (a *Authenticator) Identify(r *http.Request, snap *settings.Snapshot, streamToken string) (Identity, error) {
	headers, keys := r.Header.Values("Authorization"), r.Header.Values(OperatorKeyHeader)
	if len(headers) > 1 || len(keys) > 1 {
		return Identity{}, ErrMultipleCredentials
	}
	c := credentials{token: streamToken, hasToken: streamToken != ""}
	if len(headers) == 1 {
		c = readAuthorization(headers[0])
	}
	if len(keys) == 1 && keys[0] != "" {
		c.operatorKeys = append(c.operatorKeys, keys[0])
	}
	if a.isOperator(r, c.operatorKeys) {
		return Identity{Operator: true}, nil
	}
	if !c.hasToken {
		return Identity{}, nil
	}
	return a.token(r.Context(), c.token, snap)
}

// credentials are what a request shows, before any of it is believed.
type credentials struct {
	operatorKeys []string
	token        string
	hasToken     bool
}

// readAuthorization splits an Authorization header. A scheme that is not ours
// counts as a token that is not valid, so that its sender learns of it.
func readAuthorization(header string) credentials {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case scheme == "":
		return credentials{}
	case strings.EqualFold(scheme, "Operator"):
		return credentials{operatorKeys: []string{rest}}
	case strings.EqualFold(scheme, "Bearer"):
		return credentials{token: rest, hasToken: true}
	}
	return credentials{hasToken: true}
}

// isOperator compares hashes, which are of one length, so that the time it
// takes says nothing about the key.
func (a *Authenticator) isOperator(r *http.Request, keys []string) bool {
	for _, key := range keys {
		sum := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(sum[:], a.operatorKey[:]) == 1 && a.hasOperator {
			return true
		}
	}
	if len(keys) > 0 {
		a.failures.Inc()
		a.logger.WarnContext(r.Context(), "wrong operator key", "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path)
	}
	return false
}
