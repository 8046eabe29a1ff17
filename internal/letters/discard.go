package letters

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// discardTime is when a discard of all begins no further page.
const discardTime = 20 * time.Second

// Discard says which letters are removed for good.
type Discard struct {
	Topic mq.Topic
	Store mq.DeadLetterStore
	// IDs names the letters; empty means all of the table's.
	IDs []string
}

// Discard removes letters and says how many there were. The error is ErrBusy or
// the store's.
func (k *Keeper) Discard(ctx context.Context, d Discard) (int, error) {
	release, err := k.hold(d.Topic)
	if err != nil {
		return 0, err
	}
	defer release()
	if len(d.IDs) == 0 {
		return k.discardAll(ctx, d)
	}
	// An id of another table is not meant: what is discarded is gone.
	own := make([]string, 0, len(d.IDs))
	for _, id := range d.IDs {
		letter, ok, err := d.Store.Get(ctx, id)
		if err != nil {
			return 0, err
		}
		if ok && letter.Table == d.Topic.Table {
			own = append(own, id)
		}
	}
	return d.Store.Discard(ctx, own...)
}

// discardAll removes the letters that there are when it begins, as far as it
// comes in its time.
func (k *Keeper) discardAll(ctx context.Context, d Discard) (n int, err error) {
	counts, err := d.Store.Counts(ctx)
	most := counts[d.Topic.Table]
	for end := k.o.Now().Add(discardTime); err == nil && uint64(n) < most && k.o.Now().Before(end); {
		page, err := d.Store.List(ctx, d.Topic.Table, int(min(pageSize, most-uint64(n))), "")
		if err != nil || len(page.Letters) == 0 {
			return n, err
		}
		gone, err := d.Store.DiscardThrough(ctx, d.Topic.Table, page.Letters[len(page.Letters)-1].ID)
		if n += gone; err != nil {
			return n, err
		}
	}
	return n, err
}
