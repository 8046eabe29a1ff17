//go:build !linux

package app

import "syscall"

// boundUnacknowledged: only Linux bounds unacknowledged data per connection;
// elsewhere the system's own retries end it.
func boundUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
