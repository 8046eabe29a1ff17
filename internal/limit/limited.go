package limit

import (
	"math"
	"sync"
	"time"
)

// concurrentWait is the advice to a query that is one too many: when another one
// ends cannot be known.
const concurrentWait = time.Second

// limited is one tenant with limits.
type limited struct {
	mu          sync.Mutex // held for a few additions
	rows, bytes bucket
	queries     bucket
	concurrent  int // 0 is no limit
	running     int
	readBytes   window
	refused     map[string]time.Time // when a limit refused last
}

// configure changes the limits in place.
func (t *limited) configure(c Config, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := 1.0
	if c.Burst > 0 && c.RowsPerSecond > 0 {
		seconds = float64(c.Burst) / float64(c.RowsPerSecond)
	}
	t.rows.configure(float64(c.RowsPerSecond), seconds, now)
	t.bytes.configure(float64(c.BytesPerSecond), seconds, now)
	t.queries.configure(float64(c.QueriesPerSecond), 1, now)
	t.concurrent = c.ConcurrentQueries
	t.readBytes.configure(c.ReadBytesPerHour)
}

func (t *limited) ingest(rows int, bytes int64, now time.Time) *Exceeded {
	t.mu.Lock()
	defer t.mu.Unlock()
	rowsWait, bytesWait := t.rows.wait(now), t.bytes.wait(now)
	switch {
	case rowsWait > 0 && rowsWait >= bytesWait:
		return t.exceeded(RowsPerSecond, int64(t.rows.rate), time.Second, rowsWait, now)
	case bytesWait > 0:
		return t.exceeded(BytesPerSecond, int64(t.bytes.rate), time.Second, bytesWait, now)
	}
	t.rows.take(float64(rows))
	t.bytes.take(float64(bytes))
	return nil
}

func (t *limited) query(now time.Time) (release func(), exceeded *Exceeded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.concurrent > 0 && t.running >= t.concurrent {
		return nil, t.exceeded(Concurrent, int64(t.concurrent), 0, concurrentWait, now)
	}
	if wait := t.readBytes.wait(now); wait > 0 {
		return nil, t.exceeded(ReadBytesPerHour, t.readBytes.limit, windowSpan, wait, now)
	}
	if wait := t.queries.wait(now); wait > 0 {
		return nil, t.exceeded(QueriesPerSecond, int64(t.queries.rate), time.Second, wait, now)
	}
	t.queries.take(1)
	// Counted without a limit too: one may be set while the query runs.
	t.running++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running--
	}), nil
}

func (t *limited) read(bytes int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readBytes.take(bytes, now)
}

// exceeded notes a refusal.
func (t *limited) exceeded(name string, value int64, per, wait time.Duration, now time.Time) *Exceeded {
	if t.refused == nil {
		t.refused = make(map[string]time.Time, len(names))
	}
	t.refused[name] = now
	return &Exceeded{Limit: name, Key: keyOf(name), Value: value, Per: per, Wait: wait}
}

// keyOf is where config.json sets a limit.
func keyOf(name string) string {
	if name == RowsPerSecond || name == BytesPerSecond {
		return "ingest.limits." + name
	}
	return "query.limits." + name
}

func (t *limited) usage(now time.Time) (all []Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(u Usage) {
		u.Key, u.Refused = keyOf(u.Limit), t.refused[u.Limit]
		all = append(all, u)
	}
	rate := func(name string, b *bucket) {
		if b.rate == 0 {
			return
		}
		b.fill(now)
		u := Usage{Limit: name, Value: int64(b.rate), Per: time.Second, Burst: int64(b.burst), Used: int64(math.Ceil(b.burst - b.tokens))}
		if u.Used > 0 {
			u.Resets = now.Add(time.Duration(min((b.burst-b.tokens)/b.rate, math.MaxInt32) * float64(time.Second)))
		}
		add(u)
	}
	rate(RowsPerSecond, &t.rows)
	rate(BytesPerSecond, &t.bytes)
	if t.concurrent > 0 {
		add(Usage{Limit: Concurrent, Value: int64(t.concurrent), Burst: int64(t.concurrent), Used: int64(t.running)})
	}
	rate(QueriesPerSecond, &t.queries)
	if w := &t.readBytes; w.limit > 0 {
		at := w.reset(now)
		add(Usage{Limit: ReadBytesPerHour, Value: w.limit, Per: windowSpan, Burst: w.limit, Used: w.sum, Resets: at})
	}
	return all
}
