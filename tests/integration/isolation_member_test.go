package integration

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// standing is whether a tenant is served.
type standing string

const (
	served   standing = "served"
	rejected standing = "rejected"
	removed  standing = "removed"
)

// member is a tenant of the isolation test. Its steps run one after the other,
// so it knows what each must answer.
type member struct {
	w      *isolation
	id     string
	f      folder
	random *mathrand.Rand
	shared bool // its database is another's too
	denied bool // its viewers may not read event_id
	calm   bool // nothing ever happens to it
	auth   string
	strict bool // it takes no tokens but its own
	tokens map[string]string

	state    standing // as of the last round
	changing bool     // and it changes in this one
	direct   []string // rows that somebody else wrote while it was away

	ledger
	listener listener
}

func (w *isolation) member(id string, shared *clickhousetest.Server) *member {
	m := &member{w: w, id: id, f: folder{ch: shared}, shared: shared != nil, state: served, auth: `{"tenant_claim":"tenant"}`, tokens: map[string]string{}, ledger: newLedger()}
	if shared == nil {
		m.f.ch = clickhousetest.Start(w.t)
	}
	for _, role := range []string{"viewer", "writer"} {
		m.tokens[role] = token(w.t, m.claims(role))
	}
	w.members = append(w.members, m)
	return m
}

// claims are everybody's.
func (m *member) claims(role string) jwt.MapClaims {
	claims := jwt.MapClaims{"role": role, "sub": "someone", "tenant": m.id}
	if m.id == "0" { // whose callers may work for others, too
		claims["tenant"] = []string{"0", "acme", "acme2", "acme-2", "acme_2", "a", "birch", "cedar", "s1", "s2", "s3"}
	}
	return claims
}

// withIssuer makes a tenant that takes no tokens but those of its own issuer.
func (m *member) withIssuer() {
	issuer := "https://" + m.id + ".test"
	m.strict = true
	m.auth = fmt.Sprintf(`{"issuer":%q,"audience":%q}`, issuer, m.id)
	for role := range m.tokens {
		claims := m.claims(role)
		claims["iss"], claims["aud"] = issuer, m.id
		m.tokens[role] = token(m.w.t, claims)
	}
}

// withKeys makes a tenant with keys of its own, which bear everybody's name.
func (m *member) withKeys() {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(m.w.t, err)
	keys := newKeyServer(m.w.t)
	keys.answer(m.w.t, map[string]crypto.Signer{"k": key})
	keys.up(m.w.t)
	m.strict = true
	m.auth = keys.config()["auth"]
	for role := range m.tokens {
		m.tokens[role] = signedBy(m.w.t, jwt.SigningMethodEdDSA, key, "k", m.claims(role))
	}
}

// tables makes the tables, with equal names everywhere. Equal tokens of two
// tenants' inserts would be taken for one.
func (m *member) tables() {
	for _, table := range []string{"pages", "events"} {
		m.f.ch.Exec(m.w.t, `CREATE TABLE IF NOT EXISTS `+table+` (uid String, mark String, event_id String DEFAULT '', v Int64 DEFAULT 0,
			CONSTRAINT positive CHECK v >= 0) ENGINE = MergeTree ORDER BY uid SETTINGS non_replicated_deduplication_window = 1000`)
	}
	if !m.shared {
		m.f.ch.Exec(m.w.t, "ALTER TABLE pages COMMENT COLUMN mark "+quoteSQL(m.mark()))
	}
}

func quoteSQL(text string) string { return "'" + text + "'" }

// mark is in every row, and in its uid.
func (m *member) mark() string { return "mark:" + m.id + ";" }

var marks = regexp.MustCompile(`mark:([A-Za-z0-9_-]+);`)

// pure holds a text to the tenant's own marks.
func (m *member) pure(where, text string) {
	for _, found := range marks.FindAllStringSubmatch(text, -1) {
		if found[1] != m.id {
			m.w.fail("%s: %s sees a row of %s: %.2000s", where, m.id, found[1], text)
			return
		}
	}
}

// files are the tenant's settings. They differ each time, in what costs nothing.
func (m *member) files() map[string]string {
	sections := map[string]string{
		"auth": m.auth, "dedupe": `{"tables":{"events":{"enabled":true}}}`,
		"ingest": fmt.Sprintf(`{"flush":{"max_wait":"%dms"}}`, 20+m.w.random.IntN(400)),
	}
	f := m.f
	f.config = sections
	var selects, inserts []string
	if m.shared {
		selects = append(selects, `"filter":{"mark":{"_eq":"`+m.mark()+`"}}`)
		inserts = append(inserts, `"check":{"mark":{"_eq":"`+m.mark()+`"}}`)
	}
	if m.denied {
		selects = append(selects, `"deny_columns":["event_id"]`)
	}
	f.policies = fmt.Sprintf(`{"tables":{"*":{"viewer":{"select":{%s}},"writer":{"insert":{%s}}}}}`,
		strings.Join(selects, ","), strings.Join(inserts, ","))
	files := m.w.s.files(f)
	files["pipes.json"] = `{"pipes":[{"name":"mine","allowed_roles":["viewer"],
		"sql":"SELECT uid, mark, {{tenant}} AS tenant FROM pages WHERE mark = concat('mark:', {{tenant}}, ';') ORDER BY uid"}]}`
	return files
}

// write replaces files one by one, so that a reload in between finds each whole.
func (m *member) write(files map[string]string) {
	dir := filepath.Join(m.w.s.settingsDir, m.id)
	for _, name := range []string{"config.json", "policies.json", "pipes.json", "roles.json"} {
		next := filepath.Join(m.w.s.settingsDir, ".file-"+m.id)
		require.NoError(m.w.t, os.WriteFile(next, []byte(files[name]), 0o600))
		require.NoError(m.w.t, os.Rename(next, filepath.Join(dir, name)))
	}
}

// restore makes the folder, in one moment.
func (m *member) restore() {
	next := filepath.Join(m.w.s.settingsDir, ".folder-"+m.id)
	require.NoError(m.w.t, os.MkdirAll(next, 0o700))
	for name, text := range m.files() {
		require.NoError(m.w.t, os.WriteFile(filepath.Join(next, name), []byte(text), 0o600))
	}
	require.NoError(m.w.t, os.Rename(next, filepath.Join(m.w.s.settingsDir, m.id)))
}

// disturb changes whether the tenant is served.
func (m *member) disturb() {
	switch {
	case m.state == removed:
		m.elsewhere()
		m.restore()
		m.state = served
		m.w.reloadAll()
	case m.state == rejected && m.w.random.IntN(3) > 0:
		m.elsewhere()
		m.write(m.files())
		m.state = served
		m.reloadAnyway(http.StatusOK)
	case m.w.random.IntN(2) == 0:
		m.remember()
		m.remove()
	default:
		m.remember()
		m.spoil()
	}
	if m.state == served {
		m.awaitServed()
	}
}

// reloadAnyway reads the tenant's folder alone, or everything.
func (m *member) reloadAnyway(status int) {
	if m.w.random.IntN(2) == 0 {
		m.w.reloadAll()
		return
	}
	a := m.w.s.reloadTenant(m.id)
	require.Equal(m.w.t, status, a.status, a.body)
}

func (m *member) remove() {
	gone := filepath.Join(m.w.s.settingsDir, ".gone-"+m.id)
	require.NoError(m.w.t, os.Rename(filepath.Join(m.w.s.settingsDir, m.id), gone))
	require.NoError(m.w.t, os.RemoveAll(gone))
	m.state = removed
	m.w.reloadAll()
}

// spoil makes the folder one that is refused.
func (m *member) spoil() {
	files := maps.Clone(m.files())
	files["policies.json"] = []string{`{"tables":`, `{"default_role":"nobody"}`, `{"tables":{"*":{"viewer":{"select":{"filter":{"mark":{}}}}}}}`}[m.w.random.IntN(3)]
	m.write(files)
	m.state = rejected
	m.reloadAnyway(http.StatusUnprocessableEntity)
}

// remember has an answer cached, which must be forgotten when the tenant leaves.
func (m *member) remember() { m.w.s.query("pages", everything, m.as("viewer")...) }

// elsewhere writes a row past the server: what was cached before does not have it.
func (m *member) elsewhere() {
	uid := fmt.Sprintf("%sdirect%d", m.mark(), len(m.direct))
	m.f.ch.Exec(m.w.t, fmt.Sprintf("INSERT INTO pages (uid, mark) VALUES (%s, %s)", quoteSQL(uid), quoteSQL(m.mark())))
	m.direct = append(m.direct, uid)
}

// awaitServed waits until the tenant's tables and keys are known, and looks for
// what was written while it was away.
func (m *member) awaitServed() {
	m.w.s.eventually(func() string {
		a := m.w.s.query("pages", everything, m.as("viewer")...)
		if a.status != http.StatusOK {
			return m.id + ": " + a.body
		}
		m.pure("after it came back", a.body)
		for _, uid := range m.direct {
			assert.Contains(m.w.t, a.body, quoted(uid), "%s got a stale answer (%s)", m.id, a.header.Get("X-Cache"))
		}
		return ""
	})
}

// as are the headers of a caller of the tenant's; tenant 0 needs no name.
func (m *member) as(role string, headers ...string) []string {
	headers = append(headers, "Authorization", "Bearer "+m.tokens[role])
	if m.id == "0" && role == "viewer" {
		return headers
	}
	return from(m.id, headers...)
}

// ops is a path of the operator's about the tenant.
func (m *member) ops(path string) string {
	if strings.Contains(path, "?") {
		return path + "&tenant=" + m.id
	}
	return path + "?tenant=" + m.id
}

func problemCode(a answer) string {
	var p problem
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Code
}
