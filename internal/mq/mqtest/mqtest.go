// Package mqtest is the conformance suite of the queue's contracts: every
// implementation runs the same cases. Memory is a queue for tests of others,
// and shows the suite what the embedded one cannot do.
package mqtest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Capabilities are what an implementation has beyond the contract's core. A
// case that needs one which is missing is skipped.
type Capabilities struct {
	// Budgets, Purger, Floors and Batches are the interfaces of those names; Run
	// fails when the queue says otherwise.
	Budgets, Purger, Floors, Batches bool
	// AckWaitRedelivers: a delivery left unanswered for the ack wait comes
	// again.
	AckWaitRedelivers bool
	// AcksOutliveFailover: what was acknowledged is not even delivered again
	// after a failover.
	AcksOutliveFailover bool
	// Failover, Revokes, Holes, Raw and Damage say that the Store's function
	// of that kind is there.
	Failover, Revokes, Holes, Raw, Damage bool
}

// Store is one empty store of the implementation. What the capabilities rule
// out may be nil.
type Store struct {
	// Open opens a broker over the store's data. It is called again after the
	// broker before was closed. The case closes it.
	Open func(t *testing.T) mq.Broker
	// Raw puts a message without any of a chunk's headers into a queue.
	Raw func(t *testing.T, b mq.Broker, topic mq.Topic, body []byte)
	// Failover has the queue go on from what a replica of it knows.
	Failover func(t *testing.T, b mq.Broker)
	// Revoke takes a shard away and, once it is let go of, assigns it again.
	Revoke func(t *testing.T, b mq.Broker, shard mq.Shard)
	// Hole has the feed miss a chunk of the topic.
	Hole func(t *testing.T, b mq.Broker, topic mq.Topic)
	// Damage makes a closed store's queue of a tenant one that cannot be
	// opened until repair is called.
	Damage func(t *testing.T, id tenant.ID) (repair func())
}

// Factory makes an empty store whose brokers have an ack wait.
type Factory func(t *testing.T, ackWait time.Duration) Store

const (
	// longWait is the ack wait of cases that never reach it.
	longWait = 5 * time.Minute
	// shortWait is the ack wait of cases that are about it, and longer than a busy
	// machine pauses.
	shortWait = 2 * time.Second
)

type testCase struct {
	name string
	// needs is nil for a case that every queue runs.
	needs func(Capabilities) bool
	run   func(t *testing.T, s Store)
	// ackWait is longWait unless set.
	ackWait time.Duration
}

// Run runs every case, each on a store of its own. skips is how many cases
// the capabilities rule out: it is asserted, so that none is lost unnoticed.
func Run(t *testing.T, f Factory, has Capabilities, skips int) {
	agrees(t, f(t, longWait), has)
	skipped := 0
	for _, c := range allCases() {
		if c.needs != nil && !c.needs(has) {
			skipped++
			t.Log("ruled out by capabilities:", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, f(t, cmp.Or(c.ackWait, longWait))) })
	}
	require.Equal(t, skips, skipped, "cases ruled out by capabilities")
}

// agrees holds what a test says of an implementation against what it is.
func agrees(t *testing.T, s Store, has Capabilities) {
	b := s.Open(t)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	_, budgets := b.(mq.Budgets)
	_, purger := b.(mq.Purger)
	_, floors := b.(mq.Floors)
	_, batches := b.(mq.Batches)
	require.Equal(t, Capabilities{Budgets: has.Budgets, Purger: has.Purger, Floors: has.Floors, Batches: has.Batches},
		Capabilities{Budgets: budgets, Purger: purger, Floors: floors, Batches: batches})
	require.Equal(t, Capabilities{Failover: has.Failover, Revokes: has.Revokes, Holes: has.Holes, Raw: has.Raw, Damage: has.Damage},
		Capabilities{Failover: s.Failover != nil, Revokes: s.Revoke != nil, Holes: s.Hole != nil, Raw: s.Raw != nil, Damage: s.Damage != nil})
}

func allCases() []testCase {
	var out []testCase
	for _, group := range [][]testCase{
		publishCases(), workCases(), feedCases(), replayCases(), letterCases(), ownCases(), lifeCases(),
	} {
		out = append(out, group...)
	}
	return out
}
