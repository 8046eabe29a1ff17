package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Info asks for a stream's configuration and state; with a subject filter for
// its messages per subject too.
func Info(ctx context.Context, js jetstream.JetStream, stream string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, APITimeout)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	if len(opts) == 0 {
		return s.CachedInfo(), nil
	}
	info, err := s.Info(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	return info, nil
}
