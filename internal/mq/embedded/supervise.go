package embedded

import (
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
)

const (
	// drainFor is how long publishes may finish before the streams are closed.
	drainFor = 2 * time.Second
	// settleFor is how long after a lost connection the server may still store
	// what it had read from it.
	settleFor = 2 * time.Second
)

// supervise is the broker's clockwork: free space, ledgers on disk, answers
// that never came, a store that closed itself.
func (b *Broker) supervise() {
	tick := time.NewTicker(b.o.WatchInterval)
	defer tick.Stop()
	var synced, reset time.Time
	failures := 0 // to write, one after the other
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.failedWrite:
			b.space.check()
			b.refuseWaiting()
		case now := <-tick.C:
			b.watchSpace()
			if now.Sub(synced) >= b.o.syncEvery {
				synced = now
				b.syncLedgers()
			}
			if at := b.settled.Load(); at != 0 && now.UnixNano() >= at && b.settled.CompareAndSwap(at, 0) {
				b.stale.Store(true)
			}
			if b.stale.Load() {
				b.catchUp()
			}
			lost := b.lostAnswers(now)
			since := now.Sub(reset)
			if b.refused() == nil && since > b.o.resetEvery {
				failures = 0
			}
			switch {
			case b.refused() != nil && b.space.notes() == nil && since >= min(b.o.repairEvery<<failures, b.o.resetEvery):
				failures = min(failures+1, 10)
			case since >= b.o.resetEvery && (lost || b.host.storeClosed()):
			case since >= b.o.repairEvery && b.repairable():
			default:
				continue
			}
			reset = now
			b.refuseWaiting() // if it has not been done yet
			b.reopen()
		}
	}
}

// repairable reports whether opening the store again will mend something.
func (b *Broker) repairable() bool {
	return b.hurt.Load() || b.host.inspector.holds() && b.space.full(0) == nil
}

func (b *Broker) watchSpace() {
	b.space.check()
	b.space.trim()
	if b.space.full(0) == nil || b.space.notes() != nil || b.refused() != nil {
		return
	}
	for _, q := range b.all() {
		q.purgeAll(b.ctx)
	}
}

func (b *Broker) syncLedgers() {
	for _, q := range b.all() {
		q.syncLedger()
	}
	b.syncBatches()
}

// lostAnswers gives up on messages that were never answered, which a stream
// does after a failed write until it is opened again.
func (b *Broker) lostAnswers(now time.Time) bool {
	err := fmt.Errorf("%w: no answer in %s", mq.ErrOutcomeUnknown, b.o.lostAfter)
	lost := b.pubs.FailBefore(now.Add(-b.o.lostAfter), err)
	for stream := range lost {
		b.log.Error("the store does not answer: it is opened again", "stream", stream)
	}
	return len(lost) > 0
}

// reopen restarts the server, which opens all streams from disk. Publishes are
// refused meanwhile.
func (b *Broker) reopen() {
	opened := false
	defer func() { // last: until then it is the failed write that is told
		if opened {
			b.unwritable.Store(nil)
		}
	}()
	b.reopening.Store(true)
	defer b.reopening.Store(false)
	b.gate.Lock()
	defer b.gate.Unlock()
	b.drain()
	if b.ctx.Err() != nil {
		return
	}
	b.hurt.Store(false)
	err := b.host.restart()
	b.pubs.Fail(fmt.Errorf("%w: the store was opened again", mq.ErrOutcomeUnknown))
	if err != nil {
		b.log.Error("the store cannot be opened", "error", err)
		return
	}
	opened = true
	b.refresh()
	b.countDamage()
}

// onDisconnect ends the publishes whose answers were lost with a connection.
func (b *Broker) onDisconnect() {
	if b.ctx.Err() != nil || b.pubs == nil {
		return
	}
	b.pubs.Fail(fmt.Errorf("%w: the connection was lost", mq.ErrOutcomeUnknown))
	b.settled.Store(time.Now().Add(settleFor).UnixNano())
	b.stale.Store(true)
}

// catchUp takes note of what was stored while its answers were lost.
func (b *Broker) catchUp() {
	b.gate.Lock()
	defer b.gate.Unlock()
	if b.drain() {
		b.stale.Store(false)
		b.refresh()
	}
}

// drain waits until no message is unanswered; the gate is closed.
func (b *Broker) drain() bool {
	for end := time.Now().Add(drainFor); b.pubs.Waiting() > 0; {
		if time.Now().After(end) || b.ctx.Err() != nil {
			return false
		}
		lifetime.Pause(b.ctx, 10*time.Millisecond)
	}
	return true
}

// refresh takes over every stream's state again, as messages may have been
// stored whose answers were lost; the gate is closed and no message is
// unanswered.
func (b *Broker) refresh() {
	infos, err := b.host.listStreams(b.ctx)
	if err != nil {
		b.log.Error("the store's state is unknown", "error", err)
		b.stale.Store(true) // once more
		return
	}
	byName := map[string]*natsjs.StreamInfo{}
	for _, info := range infos {
		byName[info.Config.Name] = info
	}
	for _, q := range b.all() {
		if !q.ingest.open.Load() {
			continue
		}
		err := fmt.Errorf("stream %s in %s cannot be opened", ingestStream(q.tenant), b.host.streamDir(ingestStream(q.tenant)))
		if info := byName[ingestStream(q.tenant)]; info != nil {
			err = q.adoptIngest(b.ctx, info)
		}
		if err != nil {
			q.ingest.open.Store(false)
			q.recovered(&q.ingest, err)
		}
	}
}
