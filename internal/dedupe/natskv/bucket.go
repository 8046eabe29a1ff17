package natskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

func (s *Store) stream() string { return "KV_" + s.o.Bucket }

func (s *Store) subject(key string) string { return "$KV." + s.o.Bucket + "." + key }

// look looks at the bucket.
func (s *Store) look(ctx context.Context) (dedupe.Verdict, error) {
	stream, err := s.js.Stream(ctx, s.stream())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return dedupe.Verdict{Fault: fmt.Errorf("there is no bucket %s", s.o.Bucket)}, nil
	case err != nil:
		return dedupe.Verdict{}, err
	}
	s.handle.Store(&stream)
	v := judge(stream.CachedInfo().Config)
	if v.Fault != nil {
		v.Fault = fmt.Errorf("the bucket %s: %w", s.o.Bucket, v.Fault)
	}
	return v, nil
}

// judge holds the stream of the bucket against what the promise needs.
func judge(c jetstream.StreamConfig) (v dedupe.Verdict) {
	must := func(ok bool, text string) {
		if !ok {
			v.Fault = errors.Join(v.Fault, errors.New(text))
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
		v.Advice = errors.New("it is not on disk with three replicas: ids are forgotten when the server loses its store")
	}
	return v
}
