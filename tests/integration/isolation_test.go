package integration

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

var (
	isolationRounds = flag.Int("isolation", enoughRounds, "rounds of tenants that come and go while all of them work")
	isolationSeed   = seedFlag("isolation.seed", "the rounds")
)

const (
	// enoughRounds are so many that a run meets all there is to meet.
	enoughRounds = 24
	// stepsPerRound is what each tenant does in a round.
	stepsPerRound = 5
	// stormsPerRound is how many reloads nobody needed come in a round.
	stormsPerRound = 3
)

// isolation is many tenants of one server that have everything in common but
// what must keep them apart: the names of tables, roles and pipes, ids of
// records, keys of requests, claims of tokens, and in part the database.
type isolation struct {
	t       *testing.T
	s       *server
	random  *rand.Rand
	members []*member
	failed  atomic.Bool
	work    sync.WaitGroup // a round's

	mu    sync.Mutex
	seen  map[string]int    // how often what a run must have met was met
	known map[string]string // by tenant: what another must not be able to use
}

// TestIsolation: whatever tenants send, break and lose, each sees its own.
//
// A round lets every tenant do some random steps, while a few of them are
// broken, repaired, removed or brought back. Every row carries its tenant's
// mark, which no answer, event, dead letter or table of another may show.
func TestIsolation(t *testing.T) {
	t.Parallel()
	seed := isolationSeed.draw(t)
	w := newIsolation(t, seed)
	for n := 0; n < *isolationRounds || *isolationRounds >= enoughRounds && n < 3*(*isolationRounds) && len(w.unmet()) > 0; n++ {
		w.round(n)
		if w.failed.Load() {
			t.Fatalf("round %d of -isolation.seed=%d", n, seed)
		}
	}
	w.settle()
	t.Logf("what was met: %v", w.seen)
	if *isolationRounds >= enoughRounds {
		assert.Empty(t, w.unmet(), "the run never met these")
		assert.Positive(t, w.seen["replayed letter"], "of the end")
	}
}

// unmet are the things that rounds have to meet, and have not yet: how their steps
// interleave is not the seed's to say.
func (w *isolation) unmet() (missing []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range []string{
		"stored", "duplicate", "duplicate from before", "replayed key", "replayed key from before", "parked", "tenant.not_served", "refused token", "shared token", "foreign position",
		"foreign letter", "forged row", "HIT", "fresh", "own position", "tenant.rejected", "tenant.unknown", "tenant_removed", "tenant_rejected",
	} {
		if w.seen[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

func newIsolation(t *testing.T, seed uint64) *isolation {
	w := &isolation{t: t, random: rand.New(rand.NewPCG(seed, 0)), seen: map[string]int{}, known: map[string]string{}}
	shared := clickhousetest.Start(t)
	w.member("0", nil).calm = true
	w.member("acme", nil).calm = true
	w.member("acme2", nil).denied = true
	w.member("acme-2", nil)
	w.member("acme_2", nil).withIssuer()
	w.member("a", nil).withIssuer()
	w.member("birch", nil).withKeys()
	w.member("cedar", nil).withKeys()
	w.member("s1", shared).calm = true
	w.member("s2", shared).f.username = clickhousetest.SecuredUser
	w.member("s3", shared).denied = true
	for i, m := range w.members {
		m.random = rand.New(rand.NewPCG(seed, uint64(i)+1))
		m.tables()
	}
	passwords := filepath.Join(t.TempDir(), "passwords.json")
	require.NoError(t, os.WriteFile(passwords, []byte(`{"s2":`+quoted(clickhousetest.SecuredPassword)+`}`), 0o600))
	w.s = prepareNested(t, options{env: []string{"WH_CH_PASSWORD=", "WH_CH_PASSWORDS_FILE=" + passwords, "WH_MQ_REJECTED_GRACE=0s"}}, nil)
	// Two of them come later.
	for _, m := range w.members {
		if m.id == "acme-2" || m.id == "s3" {
			m.state = removed
			continue
		}
		m.restore()
	}
	w.s.run()
	t.Cleanup(w.work.Wait)
	for _, m := range w.members {
		if m.state == served {
			m.awaitServed()
		}
		m.listen()
	}
	return w
}

// round lets all work while some change.
func (w *isolation) round(n int) {
	var changing []*member
	for _, i := range w.random.Perm(len(w.members))[:2+w.random.IntN(3)] {
		if m := w.members[i]; !m.calm {
			changing = append(changing, m)
			m.changing = true
		}
	}
	for _, m := range w.members {
		w.work.Go(func() {
			for range stepsPerRound {
				m.step()
			}
		})
	}
	storms := make([]string, stormsPerRound)
	for i := range storms {
		if storms[i] = reloadRoute; w.random.IntN(2) == 0 {
			storms[i] += "?tenant=" + w.members[w.random.IntN(len(w.members))].id
		}
	}
	w.work.Go(func() { w.storm(storms) })
	for _, m := range changing {
		m.disturb()
	}
	w.trouble(n)
	w.work.Wait()
	for _, m := range changing {
		m.changing = false
		m.life++
	}
	w.states()
}

const reloadRoute = "/v1/ops/settings/reload"

// storm asks for reloads in between.
func (w *isolation) storm(paths []string) {
	for _, path := range paths {
		a, err := w.s.try(http.MethodPost, path, strings.NewReader(""), "X-Operator-Key", operatorKey)
		if err != nil || a.status != http.StatusOK && a.status != http.StatusUnprocessableEntity && a.status != http.StatusNotFound {
			w.fail("%s: %d %s %v", path, a.status, a.body, err)
		}
	}
}

// trouble is what may happen to the directory and must change nothing.
func (w *isolation) trouble(n int) {
	var path string
	switch n % 4 {
	case 0:
		path = filepath.Join(w.s.settingsDir, "stray.txt")
		require.NoError(w.t, os.WriteFile(path, []byte("{}"), 0o600))
	case 1:
		path = filepath.Join(w.s.settingsDir, "no tenant!")
		require.NoError(w.t, os.Mkdir(path, 0o700))
	default:
		// A calm tenant is edited, and stays in service throughout.
		m := w.members[0]
		m.write(m.files())
		a := w.s.reloadTenant(m.id)
		require.Equal(w.t, http.StatusOK, a.status, a.body)
		return
	}
	a := w.s.reload()
	require.Equal(w.t, http.StatusUnprocessableEntity, a.status, a.body)
	require.NoError(w.t, os.Remove(path))
}

// reloadAll reads the whole directory.
func (w *isolation) reloadAll() {
	want := http.StatusOK
	for _, m := range w.members {
		if m.state == rejected {
			want = http.StatusUnprocessableEntity
		}
	}
	a := w.s.reload()
	require.Equal(w.t, want, a.status, a.body)
}

// states holds what operators see to what is so.
func (w *isolation) states() {
	found := w.s.tenantStates()
	for _, m := range w.members {
		state, ok := found[m.id]
		if !ok {
			state.State = string(removed)
		}
		assert.Equal(w.t, string(m.state), state.State, m.id)
		assert.Empty(w.t, state.FailedSteps, m.id)
		for _, finding := range state.Findings {
			assert.Equal(w.t, m.id+"/policies.json", finding.File)
		}
	}
	if w.t.Failed() {
		w.failed.Store(true)
	}
}

// fail reports what must not be; any goroutine may.
func (w *isolation) fail(format string, values ...any) {
	w.failed.Store(true)
	w.t.Errorf(format, values...)
}

func (w *isolation) met(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
}

// publish makes something of a tenant's known to the others.
func (w *isolation) publish(what, of, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[what+" "+of] = value
}

// stolen is what another tenant published, "" when it has not yet.
func (w *isolation) stolen(what string, from *member) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[what+" "+from.id]
}
