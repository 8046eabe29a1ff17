package clickhouse

import "context"

// slots bound the HTTP requests in flight over one pool.
type slots chan struct{}

// acquire waits for a slot.
func (s slots) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slots) release() { <-s }
