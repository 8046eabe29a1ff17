package lineage

import (
	"context"
	"time"
)

// kept is something that was asked of ClickHouse and holds for a while. One
// caller asks at a time.
type kept[T any] struct {
	// turn holds a token, which who asks ClickHouse takes.
	turn chan struct{}
	// Guarded by turn.
	value  *T // nil when it could not be read
	asked  time.Time
	before bool // it was asked at all
}

func newKept[T any]() *kept[T] {
	k := &kept[T]{turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k
}

// take waits for the token; whoever has it calls give.
func (k *kept[T]) take(ctx context.Context) error {
	select {
	case <-k.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *kept[T]) give() { k.turn <- struct{}{} }

// get returns what is known, asking when that is old.
func (k *kept[T]) get(ctx context.Context, now func() time.Time, load func(ctx context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer k.give()
	age := now().Sub(k.asked)
	switch {
	case k.value != nil && age < refreshEvery:
		return k.value, nil
	case k.before && k.value == nil && age < retryAfter:
		return nil, errLately
	}
	return k.reload(ctx, now, load)
}

// reload asks. The caller has the token.
func (k *kept[T]) reload(ctx context.Context, now func() time.Time, load func(ctx context.Context) (*T, error)) (value *T, err error) {
	asked := now()
	value, err = load(ctx)
	k.value, k.asked, k.before = value, asked, true
	return value, err
}
