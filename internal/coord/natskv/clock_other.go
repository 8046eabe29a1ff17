//go:build !linux

package natskv

import "time"

// monotonic may stand still while the machine is suspended.
func monotonic(start time.Time) time.Duration { return time.Since(start) }
