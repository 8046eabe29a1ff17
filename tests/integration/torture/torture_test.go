package torture

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// A slow disk is a volume that is frozen for a moment, and a process that is
// paused. Jumps of the wall clock are left out: nothing moves the clock of one
// process alone without a change to the program, and tests of the packages
// inject the time.

// round is how long things are broken before they are counted.
const round = 30 * time.Second

// TestTorture loads tables of several tenants while everything around breaks,
// and then accounts for every row. With -torture.for it goes on in rounds.
func TestTorture(t *testing.T) {
	t.Parallel()
	seed := option[uint64]("torture.seed")
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./tests/integration/torture -run TestTorture -v -torture.for=%s -torture.seed=%d", option[time.Duration]("torture.for"), seed)
	r := newRig(t, rand.New(rand.NewPCG(seed, 0)))
	var followers []*follower
	for _, tb := range r.tables {
		if tb.name == "events" {
			followers = append(followers, follow(t, r.current, tb))
		}
	}
	until := time.Now().Add(option[time.Duration]("torture.for"))
	for n := uint64(1); !t.Failed() && (n == 1 || time.Now().Before(until)); n++ {
		r.round(seed+n, min(round, time.Until(until)), followers)
	}
}

// round breaks things for a while, repairs everything, accounts for every row,
// replays the dead letters, and accounts again.
func (r *rig) round(seed uint64, lasting time.Duration, followers []*follower) {
	r.disruptions = 0
	before := r.told()
	r.load = startLoad(r.current, r.tables, seed)
	r.torment(time.Now().Add(lasting))
	r.load.end()
	r.say("repaired after %d disruptions; answers: %s", r.disruptions, r.load.statusText())
	assert.Empty(r.t, r.load.complaints)
	r.drained()
	told := r.told()
	answered, missing := 0, map[string]int{}
	for _, tb := range r.tables {
		y := r.account(tb)
		r.judge(tb, y)
		answered += y.answered
		missing[tb.tenant] += y.missing
		if !tb.picky && told[tb.tenant].forgotten == before[tb.tenant].forgotten {
			// At most one INSERT of a table and column set is under way at a time.
			assert.LessOrEqual(r.t, y.inserts, columnSets*r.disruptions, "%s: INSERTs that were repeated", tb)
		}
	}
	require.NotZero(r.t, answered)
	for tenant, n := range missing {
		now, was := told[tenant], before[tenant]
		chunks, letters := now.chunks-was.chunks, now.letters-was.letters
		r.say("%s: %d rows missing; told are %d chunks and %d dead letters that damaged files lost", tenant, n, chunks, letters)
		assert.LessOrEqual(r.t, n, chunks*maxChunkRows+letters, "rows of %s that nobody told are lost", tenant)
	}
	for _, f := range followers {
		harness.Eventually(r.t, 60*time.Second, func() error { return f.account(f.table.answeredRows()) })
		r.say("%s", f.text())
	}
	r.replayAll()
	r.clear(followers)
}

// replayAll puts all dead letters of a healthy table back, killing the server
// in the middle of the first: they are all stored then.
func (r *rig) replayAll() {
	killed := false
	for _, tb := range r.tables {
		if tb.picky {
			continue
		}
		if !killed && len(r.letters(tb)) > 0 {
			killed = true
			r.cutReplay(tb)
		}
		require.True(r.t, r.replay(tb), tb)
	}
	r.drained()
	for _, tb := range r.tables {
		y := r.account(tb)
		r.judge(tb, y)
		if !tb.picky {
			assert.Zero(r.t, y.parked, tb)
		}
	}
}

// cutReplay kills the server while it replays the table.
func (r *rig) cutReplay(tb *table) {
	r.say("server killed while it replays %s", tb)
	old := *r.server
	var cut sync.WaitGroup
	cut.Go(func() {
		_, _ = old.TryDo(http.MethodPost, "/v1/ops/dlq/replay?tenant="+tb.tenant,
			fmt.Sprintf(`{"table":%q,"all":true}`, tb.name), "X-Operator-Key", harness.OperatorKey)
	})
	time.Sleep(time.Duration(r.rng.IntN(50)) * time.Millisecond)
	r.server.Kill()
	cut.Wait()
	r.start()
	r.awaitTable(tb)
}

// clear makes room for another round.
func (r *rig) clear(followers []*follower) {
	for _, tb := range r.tables {
		r.clickhouse.Must(r.t, "TRUNCATE TABLE "+tb.sql())
		a := r.server.Ops(r.t, http.MethodDelete, "/v1/ops/dlq/rows?tenant="+tb.tenant, fmt.Sprintf(`{"table":%q,"all":true}`, tb.name))
		require.Equal(r.t, http.StatusOK, a.Status, a.Body)
		tb.forget()
	}
	for _, f := range followers {
		f.forget()
	}
}
