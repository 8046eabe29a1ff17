package record

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// ColumnSet is the columns that a row carries, in the table's order. Rows of
// one set can stand in one block. Sets are interned per Table: the same columns
// give the same pointer.
type ColumnSet struct {
	columns []int
	header  string
	key     string
	// carried has a bit for each column.
	carried []byte
	// lines reads the rows before they become lines of text; nil when they stay
	// RowBinary.
	lines *Layout
	// missing is the first required column that the set lacks, -1 for none.
	missing int
	// nested: some columns are of one Nested, perhaps.
	nested bool
}

// Header returns the set as a JSON array of {"name","type"}, for ParseLayout.
func (s *ColumnSet) Header() string { return s.header }

// Columns returns the columns' indexes in the Table. It is shared: do not
// change it.
func (s *ColumnSet) Columns() []int { return s.columns }

// Format is that of the set's rows, as a chunk's header names it: RowBinary, or
// JSONCompactEachRow when a column's type has no codec. A row is then one line
// with its line feed.
func (s *ColumnSet) Format() string {
	if s.lines != nil {
		return formatLines
	}
	return formatRowBinary
}

// Key names the set by its columns' names and types, in any process and after
// any refresh of the schema.
func (s *ColumnSet) Key() string { return s.key }

// maxSets bounds the sets that a Table remembers. A client that makes up more
// gets sets that are made anew for each record, correct but slower.
const maxSets = 1024

// setTable is a Table's interned sets.
type setTable struct {
	mu    sync.RWMutex
	known map[string]*ColumnSet
}

// setOf returns the set of the columns whose bits are set in carried.
func (t *Table) setOf(carried []byte) *ColumnSet {
	t.sets.mu.RLock()
	set := t.sets.known[string(carried)]
	t.sets.mu.RUnlock()
	if set != nil {
		return set
	}
	set = t.newSet(carried)
	t.sets.mu.Lock()
	defer t.sets.mu.Unlock()
	if known := t.sets.known[string(carried)]; known != nil {
		return known
	}
	if len(t.sets.known) < maxSets {
		t.sets.known[string(carried)] = set
	}
	return set
}

func (t *Table) newSet(carried []byte) *ColumnSet {
	set := &ColumnSet{carried: append([]byte(nil), carried...), missing: -1}
	header := []byte{'['}
	for i := range t.columns {
		if !hasBit(carried, i) {
			if f := &t.fields[i]; set.missing < 0 && (f.required || f.needed && f.nested.anyOf(carried)) {
				set.missing = i
			}
			continue
		}
		set.nested = set.nested || t.fields[i].nested != nil && len(t.fields[i].nested.columns) > 1
		set.columns = append(set.columns, i)
		header = t.appendHeader(header, i)
	}
	set.header = string(append(header, ']'))
	set.lines = t.linesOf(set.columns)
	sum := sha256.Sum256([]byte(set.header))
	set.key = hex.EncodeToString(sum[:16])
	return set
}

func (t *Table) appendHeader(header []byte, column int) []byte {
	if len(header) > 1 {
		header = append(header, ',')
	}
	header = append(header, `{"name":`...)
	header = append(header, t.fields[column].key...)
	header = append(header, `,"type":`...)
	return append(AppendJSONString(header, t.columns[column].Type), '}')
}

func hasBit(bits []byte, i int) bool { return bits[i>>3]>>(i&7)&1 == 1 }

func setBit(bits []byte, i int) { bits[i>>3] |= 1 << (i & 7) }
