package dedupe

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// windowConcurrency bounds what Each has under way at once.
const windowConcurrency = 64

// Each runs op for 0 to n-1, many at once, and begins nothing more after a failure,
// which it returns.
func Each(n int, op func(i int) error) error {
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(windowConcurrency)
	for i := 0; i < n && !failed.Load(); i++ {
		group.Go(func() error {
			err := op(i)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}
