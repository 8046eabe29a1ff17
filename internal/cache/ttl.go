package cache

import "time"

const (
	// MinTTL is how long the cheapest result is kept.
	MinTTL = 10 * time.Second
	// MaxTTL is how long the dearest result is kept.
	MaxTTL = time.Hour
	// UnboundTTL bounds results whose tables are not all known, so that no write
	// drops them, unless who asked bounds them otherwise.
	UnboundTTL = 10 * time.Second
	// worth is how many times a query's run time its result is kept: a second of
	// ClickHouse's work is worth ten minutes.
	worth = 600
)

// TTL is how long a result is kept that took so long to make: the dearer, the
// longer. own is the asker's bound, zero for none; bound says that every table
// the result depends on is known, so that writes drop it.
func TTL(took, own time.Duration, bound bool) time.Duration {
	ttl := min(max(took*worth, MinTTL), MaxTTL)
	if own > 0 {
		return min(ttl, own)
	}
	if !bound {
		return min(ttl, UnboundTTL)
	}
	return ttl
}
