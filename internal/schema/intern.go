package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/wavehouse/wavehouse/internal/record"
)

// interner gives equal tables of all tenants one compiled form: many tenants
// have a database of their own with the same tables in it. A table lives as
// long as a catalogue holds it.
type interner struct {
	mu     sync.Mutex
	tables map[[sha256.Size]byte]weak.Pointer[Table]
	// sweepAt is at how many entries those of tables that are gone are removed.
	sweepAt int
	// zones are those of the servers by name, as few as there are.
	zones map[string]*time.Location
}

const minSweep = 1024

func newInterner() *interner {
	return &interner{
		tables: make(map[[sha256.Size]byte]weak.Pointer[Table]), sweepAt: minSweep, zones: make(map[string]*time.Location),
	}
}

// zone finds a time zone by its name.
func (n *interner) zone(name string) (*time.Location, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if zone, ok := n.zones[name]; ok {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		n.zones[name] = zone
	}
	return zone, err
}

// compiled returns the table with its codecs.
func (n *interner) compiled(t *Table, zone *time.Location) *Table {
	sum := fingerprint(t, zone)
	n.mu.Lock()
	known := n.tables[sum].Value()
	n.mu.Unlock()
	if known != nil {
		return known
	}
	t.Record = record.Compile(t.Name, t.Columns, zone)
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.tables[sum].Value(); known != nil {
		return known // another tenant's discovery was faster
	}
	if len(n.tables) >= n.sweepAt {
		n.sweep()
	}
	n.tables[sum] = weak.Make(t)
	return t
}

func (n *interner) sweep() {
	for sum, table := range n.tables {
		if table.Value() == nil {
			delete(n.tables, sum)
		}
	}
	n.sweepAt = max(minSweep, 2*len(n.tables))
}

// fingerprint is the same for tables that are equal in all respects.
func fingerprint(t *Table, zone *time.Location) [sha256.Size]byte {
	h := sha256.New()
	writeTexts(h, t.Name, t.Engine, zone.String())
	writeTexts(h, strconv.Itoa(len(t.SortingKey)))
	writeTexts(h, t.SortingKey...)
	for _, c := range t.Columns {
		writeTexts(h, c.Name, c.Type, string(c.DefaultKind), c.DefaultExpression, c.Comment, string(c.Flag))
		_ = binary.Write(h, binary.BigEndian, int64(c.Position))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// writeTexts writes each text behind its length, so that none runs into the
// next. A hash never fails to write.
func writeTexts(h hash.Hash, texts ...string) {
	var length [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(text))
	}
}
