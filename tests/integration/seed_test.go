package integration

import (
	"flag"
	"testing"
	"time"
)

// seed is a flag that says what a test draws from. Without it each run draws the
// same; 0 draws anew, to search on.
type seed struct {
	name  string
	value *uint64
}

func seedFlag(name, of string) seed {
	return seed{name, flag.Uint64(name, 1, "what "+of+" are drawn from; 0 is drawn anew, to search on")}
}

// draw returns the seed, and says in the log how to draw the same again.
func (s seed) draw(t *testing.T) uint64 {
	t.Helper()
	drawn := *s.value
	if drawn == 0 {
		drawn = uint64(time.Now().UnixNano())
	}
	t.Logf("-%s=%d", s.name, drawn)
	return drawn
}
