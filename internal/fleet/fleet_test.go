package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
)

// rig is a fleet of this process, called "a", and a bus that speaks for others.
type rig struct {
	*Fleet
	*clocktest.Clock
	t   *testing.T
	bus *local.Bus
}

func start(t *testing.T) *rig {
	r := &rig{t: t, Clock: clocktest.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), bus: local.New()}
	r.Fleet = New(Options{
		Bus: r.bus, Self: notice.Process{Instance: "a", Roles: []string{"ingest"}, Version: "1"},
		Shards: func() []string { return []string{"0.1", "0.2"} }, Now: r.Now, Every: time.Hour,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.bus.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) hear(p notice.Process) {
	r.bus.Tell(p)
	require.NoError(r.t, r.bus.Flush(r.t.Context()))
}

func (r *rig) adopt(generation string) {
	r.Adopted(generation)
	require.NoError(r.t, r.bus.Flush(r.t.Context()))
}

func (r *rig) lagging() (names []string) {
	all, _ := r.Processes()
	for _, p := range all {
		if p.Lagging {
			names = append(names, p.Instance)
		}
	}
	return names
}

func TestAProcessKnowsItselfAndOthers(t *testing.T) {
	r := start(t)
	r.adopt("g1")
	r.hear(notice.Process{Instance: "b", Run: "x", Roles: []string{"api"}, Generation: "g1"})
	all, generation := r.Processes()
	require.Len(t, all, 2)
	assert.Equal(t, "g1", generation)
	assert.Equal(t, []string{"0.1", "0.2"}, all[0].Shards)
	assert.Equal(t, "b", all[1].Instance)

	r.Pass(silentAfter + time.Second)
	r.hear(notice.Process{Instance: "c", Run: "y", Generation: "g1"})
	all, _ = r.Processes()
	assert.Equal(t, []bool{true, true, false}, []bool{all[0].Silent, all[1].Silent, all[2].Silent})
	r.hear(notice.Process{Instance: "c", Run: "y", Left: true})
	r.Pass(forgetAfter)
	r.hear(notice.Process{Instance: "b", Run: "x", Generation: "g1"})
	all, _ = r.Processes()
	require.Len(t, all, 1, "who left is gone, and who fell silent at last")
}

// Who serves other settings than those adopted last is named: a process that has not
// reloaded yet, and one that starts from an old directory.
func TestALaggingProcessIsNamed(t *testing.T) {
	r := start(t)
	r.adopt("g1")
	r.hear(notice.Process{Instance: "b", Run: "x", Generation: "g1"})
	assert.Empty(t, r.lagging())
	r.Pass(time.Minute)
	r.adopt("g2")
	assert.Equal(t, []string{"b"}, r.lagging())
	r.hear(notice.Process{Instance: "c", Run: "y", Generation: "g1"})
	assert.Equal(t, []string{"b", "c"}, r.lagging())
	r.Pass(time.Minute)
	r.hear(notice.Process{Instance: "b", Run: "x", Generation: "g1", Adopted: r.Now()})
	assert.Equal(t, []string{"a"}, r.lagging(), "the directory went back")
}

func TestWithoutAReloadTheMostAreRight(t *testing.T) {
	r := start(t)
	r.adopt("g1")
	r.hear(notice.Process{Instance: "b", Run: "x", Generation: "g2"})
	r.hear(notice.Process{Instance: "c", Run: "y", Generation: "g2"})
	assert.Equal(t, []string{"a"}, r.lagging())
}

func TestAProcessTellsWhenItLeaves(t *testing.T) {
	r := start(t)
	r.adopt("g1")
	r.Leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx))
	require.NoError(t, r.bus.Flush(t.Context()))
	all, _ := r.Processes()
	assert.Empty(t, all)
}
