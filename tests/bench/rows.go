// Package bench measures WaveHouse beside its baselines in one run, and
// reports ratios: absolute times say more about the machine than about us.
package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// eventTable is an event of about eleven columns and 270 bytes.
const eventTable = `(
  event_id UUID, session_id String, user_id Nullable(UInt64), event LowCardinality(String), page String,
  referrer Nullable(String), country LowCardinality(String), duration_ms UInt32, score Float64,
  amount Decimal(18, 2), at DateTime64(3, 'UTC')
) ENGINE = MergeTree ORDER BY (event, at)`

// rowSource makes rows that are all different.
type rowSource struct{ random *rand.Rand }

func newRowSource(seed uint64) *rowSource {
	return &rowSource{rand.New(rand.NewPCG(seed, 1))}
}

// row renders one event as a JSON object.
func (s *rowSource) row() string {
	r := s.random
	return fmt.Sprintf(`{"event_id":"%08x-%04x-4%03x-8%03x-%012x","session_id":"s-%016x","user_id":%d,"event":"%s",`+
		`"page":"/products/%d/reviews","referrer":"https://example.com/search?q=%d","country":"%s","duration_ms":%d,`+
		`"score":%.4f,"amount":"%d.%02d","at":"2026-03-04T05:%02d:%02d.%03dZ"}`,
		r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12), r.Uint64N(1<<48), r.Uint64(), r.Uint64N(1e9),
		[]string{"view", "click", "cart", "buy"}[r.IntN(4)], r.IntN(1e6), r.IntN(1e6),
		[]string{"DE", "FR", "US", "JP"}[r.IntN(4)], r.IntN(60000), r.Float64()*100, r.IntN(1000), r.IntN(100),
		r.IntN(60), r.IntN(60), r.IntN(1000))
}

// body is rows as NDJSON.
func (s *rowSource) body(rows int) string {
	lines := make([]string, rows)
	for i := range lines {
		lines[i] = s.row()
	}
	return strings.Join(lines, "\n")
}
