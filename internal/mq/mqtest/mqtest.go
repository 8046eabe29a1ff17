// Package mqtest is the conformance suite of mq.Broker: every implementation
// runs the same cases.
package mqtest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Capabilities are what an implementation has beyond the contract's core. A
// case that needs one which is missing is skipped.
type Capabilities struct {
	// PerTenantBudget: SetBudget caps one tenant's queue.
	PerTenantBudget bool
	// Purges: Purge removes history.
	Purges bool
	// AckWaitRedelivers: a delivery left unanswered for the ack wait comes
	// again.
	AckWaitRedelivers bool
	// Raw: Store.Raw puts any message into a queue.
	Raw bool
}

// Store is one empty store of the implementation.
type Store struct {
	// Open opens a broker over the store's data. It is called again after the
	// broker before was closed. The case closes it.
	Open func(t *testing.T) mq.Broker
	// Raw puts a message without any of a chunk's headers into a queue.
	Raw func(t *testing.T, b mq.Broker, topic mq.Topic, body []byte)
}

// Factory makes an empty store whose brokers have an ack wait.
type Factory func(t *testing.T, ackWait time.Duration) Store

const (
	// longWait is the ack wait of cases that never reach it.
	longWait = 5 * time.Minute
	// shortWait is the ack wait of cases that are about it.
	shortWait = 500 * time.Millisecond
)

type testCase struct {
	name  string
	needs func(Capabilities) bool
	run   func(t *testing.T, s Store)
	// ackWait is longWait unless set.
	ackWait time.Duration
}

func anyBroker(Capabilities) bool { return true }

// Run runs every case, each on a store of its own. skips is how many cases
// the capabilities rule out: it is asserted, so that none is lost unnoticed.
func Run(t *testing.T, f Factory, has Capabilities, skips int) {
	skipped := 0
	for _, c := range allCases() {
		if !c.needs(has) {
			skipped++
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, f(t, cmp.Or(c.ackWait, longWait))) })
	}
	require.Equal(t, skips, skipped, "cases ruled out by capabilities")
}

func allCases() []testCase {
	var out []testCase
	for _, group := range [][]testCase{
		publishCases(), consumeCases(), feedCases(), replayCases(), letterCases(), lifeCases(),
	} {
		out = append(out, group...)
	}
	return out
}
