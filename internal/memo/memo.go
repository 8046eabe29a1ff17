// Package memo remembers what was worked out before, within a bound.
package memo

import "sync"

// Memo remembers values by key in two generations. When the young one is full
// the old one is dropped, and with it what was not asked for since it was
// young. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	limit int // of the cost of one generation

	mu         sync.RWMutex
	young, old map[K]entry[V]
	cost       int // of young
}

type entry[V any] struct {
	value V
	cost  int
}

// New makes a Memo that holds values of so much cost at most; one that is put
// without a cost costs 1.
func New[K comparable, V any](limit int) *Memo[K, V] {
	return &Memo[K, V]{limit: limit / 2, young: make(map[K]entry[V])}
}

// Get returns what is remembered under the key.
func (m *Memo[K, V]) Get(key K) (value V, ok bool) {
	m.mu.RLock()
	e, young := m.young[key]
	ok = young
	if !young {
		e, ok = m.old[key]
	}
	m.mu.RUnlock()
	if ok && !young {
		m.mu.Lock()
		defer m.mu.Unlock()
		if _, again := m.young[key]; !again {
			m.put(key, e)
		}
	}
	return e.value, ok
}

// Put remembers a value in place of the one before.
func (m *Memo[K, V]) Put(key K, value V) { m.PutCost(key, value, 1) }

// PutCost is Put of a value that costs so much, of what New bounds.
func (m *Memo[K, V]) PutCost(key K, value V, cost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, entry[V]{value, cost})
}

func (m *Memo[K, V]) put(key K, e entry[V]) {
	m.cost -= m.young[key].cost
	if m.cost+e.cost > m.limit {
		m.old, m.young, m.cost = m.young, make(map[K]entry[V]), 0
	}
	m.young[key] = e
	m.cost += e.cost
}

// Len is how many values are remembered.
func (m *Memo[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := len(m.young)
	for key := range m.old {
		if _, again := m.young[key]; !again {
			n++
		}
	}
	return n
}
