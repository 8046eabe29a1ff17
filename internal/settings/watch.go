package settings

import (
	"context"
	"time"
)

// maxBusy bounds a burst of changes that never ends, in looks at the directory.
const maxBusy = 10

// Run follows a flat directory and reloads it after each change, until ctx ends.
// It looks for itself instead of asking for notifications: network file systems
// give none, and a swapped link is another directory. A burst of changes, a file
// that is renamed over another and a swap of the link that the files stand
// behind are one reload each. A nested directory is not followed: its writer
// alone knows when a folder is complete, and asks for the reload. It returns nil.
func (r *Registry) Run(ctx context.Context) error {
	if r.Nested() {
		<-ctx.Done()
		return nil
	}
	look := time.NewTicker(r.options.Poll)
	defer look.Stop()
	before, busy := "", 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		now := stamp(r.directory.path)
		switch {
		case now == *r.stamp.Load():
			busy = 0
		case now != before && busy < maxBusy:
			busy++ // it is still being written
		default:
			r.reload(ctx, nil, false)
			busy = 0
		}
		before = now
	}
}
