package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// storedFor is how long answers to what was stored before a write failed may be
// on their way.
const storedFor = time.Second

// writeFailed hears from the server that it could not write. The stream refuses
// everything from then on, without an answer, until it is opened again. It may be
// called with locks of the server held.
func (b *Broker) writeFailed(text string) {
	kind := mq.ErrUnavailable
	if strings.Contains(text, "no space left") || strings.Contains(text, "quota exceeded") {
		kind = mq.ErrFull
	}
	err := fmt.Errorf("%w: the store cannot be written: %s", kind, text)
	if b.unwritable.CompareAndSwap(nil, &err) {
		select {
		case b.failedWrite <- struct{}{}:
		default:
		}
	}
}

// refused is why nothing can be sent, nil when it can.
func (b *Broker) refused() error {
	if p := b.unwritable.Load(); p != nil {
		return *p
	}
	return nil
}

// refuseWaiting ends the publishes that the server will never answer. What it
// stored before the failure it has answered, or does so at once: it is asked how
// far that goes.
func (b *Broker) refuseWaiting() {
	cause := b.refused()
	if cause == nil {
		return
	}
	b.log.Error("the store cannot be written: it is opened again once there is room", "error", cause)
	b.gate.Lock()   // until whoever is sending has sent
	b.gate.Unlock() //nolint:staticcheck // it only waits
	ctx, cancel := context.WithTimeout(b.ctx, storedFor)
	defer cancel()
	for stream := range b.pubs.Streams() {
		err := fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, cause)
		if q, ok := b.ownerOfIngest(stream); ok && b.answered(ctx, q) {
			err = cause
		}
		b.pubs.FailStream(stream, err)
	}
}

func (b *Broker) ownerOfIngest(stream string) (*queue, bool) {
	t, ok := tenantOf(stream, ingestPrefix)
	if !ok {
		return nil, false
	}
	return b.known(t)
}

// answered waits until everything that the stream stored is answered.
func (b *Broker) answered(ctx context.Context, q *queue) bool {
	for ctx.Err() == nil {
		info, err := jetstream.Info(ctx, b.host.js, ingestStream(q.tenant))
		if err != nil {
			return false
		}
		if _, last := q.stands(); info.State.LastSeq <= last {
			return true
		}
		lifetime.Pause(ctx, 5*time.Millisecond)
	}
	return false
}

// writeFailure reports whether what the server logs says that a stream cannot be
// written any more.
func writeFailure(text string) bool {
	for _, sign := range []string{"failed to store a msg", "Critical write error", "denied while writing", "out of resources", "resources, will be DISABLED"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
