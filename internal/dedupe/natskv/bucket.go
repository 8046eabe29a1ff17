package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// verdict is what was found about the bucket.
type verdict struct {
	// fault is why it cannot be used; it wraps dedupe.ErrUnavailable.
	fault error
	// advice is what should be otherwise.
	advice error
}

func (s *Store) stream() string { return "KV_" + s.o.Bucket }

func (s *Store) subject(key string) string { return "$KV." + s.o.Bucket + "." + key }

// open returns nil once the bucket is known to be of the right shape.
func (s *Store) open(ctx context.Context) error {
	s.mu.Lock()
	fault, stale := s.verdict.fault, time.Since(s.checked) >= s.o.recheck
	s.mu.Unlock()
	if fault == nil || !stale {
		return fault
	}
	return s.look(ctx)
}

// look looks at the bucket and remembers what it found. A look that got no answer
// leaves a bucket that was right as it was.
func (s *Store) look(ctx context.Context) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	var v verdict
	stream, err := s.js.Stream(ctx, s.stream())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		v.fault = fmt.Errorf("%w: there is no bucket %s", dedupe.ErrUnavailable, s.o.Bucket)
	case err != nil && s.isOpen():
		return nil
	case err != nil:
		v.fault = fmt.Errorf("%w: look at the bucket %s: %w", dedupe.ErrUnavailable, s.o.Bucket, err)
	default:
		s.mu.Lock()
		s.handle = stream
		s.mu.Unlock()
		v = judge(stream.CachedInfo().Config)
		if v.fault != nil {
			v.fault = fmt.Errorf("%w: the bucket %s: %w", dedupe.ErrUnavailable, s.o.Bucket, v.fault)
		}
	}
	s.note(v)
	return v.fault
}

// judge holds the stream of the bucket against what the promise needs.
func judge(c jetstream.StreamConfig) (v verdict) {
	must := func(ok bool, text string) {
		if !ok {
			v.fault = errors.Join(v.fault, errors.New(text))
		}
	}
	must(c.AllowMsgTTL, "it has no TTL for single keys: make it with a marker TTL (--marker-ttl=1s)")
	must(c.MaxMsgsPerSubject == 1, "its history must be 1")
	must(c.MaxAge == 0, "it has a TTL for all keys: ids would be forgotten early")
	must(c.MaxMsgs <= 0, "it has a maximum of messages")
	must(c.Discard == jetstream.DiscardNew, "it discards old keys when it is full: ids would be forgotten early")
	must(c.AllowDirect, "it allows no direct gets")
	must(c.Mirror == nil && len(c.Sources) == 0, "it is a mirror, or has sources")
	if c.Replicas < 3 || c.Storage != jetstream.FileStorage {
		v.advice = errors.New("it is not on disk with three replicas: ids are forgotten when the server loses its store")
	}
	return v
}

// note remembers a verdict, and says so when it is another one.
func (s *Store) note(v verdict) {
	s.mu.Lock()
	before := s.verdict
	s.verdict, s.checked = v, time.Now()
	s.mu.Unlock()
	switch {
	case v.fault != nil:
		if before.fault == nil || before.fault.Error() != v.fault.Error() {
			s.o.Logger.Error("the bucket of seen ids cannot be used; it is looked at again", "bucket", s.o.Bucket, "error", v.fault)
		}
	case v.advice != nil:
		if before.advice == nil || before.advice.Error() != v.advice.Error() {
			s.o.Logger.Warn("the bucket of seen ids is not as it should be", "bucket", s.o.Bucket, "error", v.advice)
		}
	case before != verdict{}:
		s.o.Logger.Info("the bucket of seen ids is right", "bucket", s.o.Bucket)
	}
}
