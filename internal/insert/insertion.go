package insert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// span is a range of a chunk's rows.
type span struct {
	c        *held
	from, to int
	// rebuilt holds the rows for the table as it is now, when they are not those
	// of the chunk.
	rebuilt [][]byte
}

func (s span) rows() int { return s.to - s.from }

// part is rows from to to-1 of the chunk, which the span has.
func (s span) part(from, to int) span {
	p := span{c: s.c, from: from, to: to}
	if s.rebuilt != nil {
		p.rebuilt = s.rebuilt[from-s.from : to-s.from]
	}
	return p
}

// insertion is the rows of one INSERT.
type insertion struct {
	form  *chunk.Form // nil of chunks that cannot be read
	spans []span
	// noted says that the queue knows which rows these are.
	noted bool
	// uncertain says that an INSERT of these rows may have succeeded. The first of
	// them was begun at since, which is zero when another process did.
	uncertain bool
	since     time.Time
	// absent are the rows, from 0, that the table does not have although it took
	// the INSERT for one that it knows; looks counts how often that was asked since
	// the INSERT was answered.
	absent []int
	looks  int
	// renewed counts how often that was found of these rows: they have another token
	// then.
	renewed int
	// doubts counts the failures that did not say whether the rows are to blame.
	// Of a row that was alone with them, wrote is how many INSERTs of the table
	// had succeeded by then.
	doubts int
	alone  bool
	wrote  uint64
}

func (i insertion) rows() int {
	n := 0
	for _, s := range i.spans {
		n += s.rows()
	}
	return n
}

// unsettled reports whether the insertion is whole chunks but for dropped rows, none
// of whose rows is written or parked for certain.
func (i insertion) unsettled() bool {
	for n := 0; n < len(i.spans); {
		c, rows := i.spans[n].c, 0
		for ; n < len(i.spans) && i.spans[n].c == c; n++ {
			rows += i.spans[n].rows()
		}
		if rows != c.Rows-c.dropped || c.left != rows {
			return false
		}
	}
	return true
}

// untouched reports whether no row of the insertion's chunks can be written or
// parked, so that they can go back to the queue. From there they could come back
// as an INSERT whose token the table knows, and whose rows it does not have.
func (i insertion) untouched() bool { return !i.uncertain && i.renewed == 0 && i.unsettled() }

// chunks are those of the insertion, when it is whole chunks.
func (i insertion) chunks() []*held {
	all := make([]*held, 0, len(i.spans))
	for n, s := range i.spans {
		if n == 0 || s.c != i.spans[n-1].c {
			all = append(all, s.c)
		}
	}
	return all
}

// of is an insertion of some of its rows.
func (i insertion) of(spans ...span) insertion {
	i.spans, i.noted = spans, false
	return i
}

// split divides the insertion into at most n parts of about as many rows. It
// cuts between chunks as long as there are several, so that most chunks are done
// with as a whole; rows of one chunk must have been found.
func (i insertion) split(n int) []insertion {
	if len(i.spans) == 1 {
		return i.splitRows(n)
	}
	per := (i.rows() + n - 1) / n
	var parts []insertion
	rows := per
	for _, s := range i.spans {
		if rows >= per {
			parts, rows = append(parts, i.of()), 0
		}
		last := &parts[len(parts)-1]
		last.spans = append(last.spans, s)
		rows += s.rows()
	}
	if len(parts) > 1 {
		return parts
	}
	// One chunk outweighs the others: it goes alone.
	last := len(i.spans) - 1
	return []insertion{i.of(slices.Clip(i.spans[:last])...), i.of(i.spans[last])}
}

func (i insertion) splitRows(n int) []insertion {
	s := i.spans[0]
	per := (s.rows() + n - 1) / n
	var parts []insertion
	for from := s.from; from < s.to; from += per {
		parts = append(parts, i.of(s.part(from, min(from+per, s.to))))
	}
	return parts
}

// around takes out row at (from 0) and returns what comes before it, the row,
// the rest of its chunk, and what comes after: its chunk is done with before
// the chunks behind it are looked at. Rows of its chunk must have been found.
func (i insertion) around(at int) []insertion {
	n, first := 0, 0
	for ; first+i.spans[n].rows() <= at; n++ {
		first += i.spans[n].rows()
	}
	s := i.spans[n]
	row := s.from + at - first
	before := append(slices.Clone(i.spans[:n]), s.part(s.from, row))
	var parts []insertion
	for _, spans := range [][]span{before, {s.part(row, row+1)}, {s.part(row+1, s.to)}, i.spans[n+1:]} {
		spans = slices.DeleteFunc(spans, func(s span) bool { return s.rows() == 0 })
		if len(spans) > 0 {
			parts = append(parts, i.of(spans...))
		}
	}
	return parts
}

// token names exactly these rows, so that a repeat of the INSERT is recognised
// by a table that remembers tokens.
func (i insertion) token() string {
	h := sha256.New()
	topic := i.spans[0].c.topic
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00", topic.Tenant, topic.Table, i.form.Columns)
	var b []byte
	for _, s := range i.spans {
		b = s.c.pos.AppendBinary(b[:0])
		b = binary.BigEndian.AppendUint64(b, uint64(s.from))
		b = binary.BigEndian.AppendUint64(b, uint64(s.to))
		h.Write(b)
	}
	if i.renewed > 0 {
		_, _ = fmt.Fprintf(h, "renewed %d", i.renewed)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// format is the INSERT's input format. Either has the types that the rows were
// written for in front, and ClickHouse refuses others than the table's: it never
// converts a value.
func (i insertion) format() string {
	if i.form.Text() {
		return "JSONCompactEachRowWithNamesAndTypes"
	}
	return "RowBinaryWithNamesAndTypes"
}

func (i insertion) statement(table string) string {
	return "INSERT INTO " + clickhouse.QuoteIdent(table) + " (" + clickhouse.QuoteIdents(i.form.Layout.Names()) + ") FORMAT " + i.format()
}

// settings pin what a user's profile could change about the meaning of an
// INSERT: that its errors reach us, that no row and no column is dropped in
// silence, and that what is left out gets its default.
func (i insertion) settings() map[string]string {
	settings := map[string]string{
		"async_insert":                             "0",
		"wait_end_of_query":                        "1",
		"insert_deduplication_token":               i.token(),
		"input_format_skip_unknown_fields":         "0",
		"input_format_allow_errors_num":            "0",
		"input_format_allow_errors_ratio":          "0",
		"input_format_with_names_use_header":       "1",
		"input_format_with_types_use_header":       "1",
		"input_format_null_as_default":             "0",
		"input_format_defaults_for_omitted_fields": "1",
		"input_format_parallel_parsing":            "0",
		"date_time_input_format":                   "best_effort",
		"max_insert_block_size":                    strconv.Itoa(max(i.rows(), 1_048_449)),
	}
	if i.form.Text() {
		// Members of a named tuple are written by their names.
		settings["input_format_json_named_tuples_as_objects"] = "1"
		// Null would be the default of a type without NULL: none is sent. A NULL in
		// a Dynamic is not read otherwise.
		settings["input_format_null_as_default"] = "1"
		// What a text, a number or a boolean inside of JSON is, it stays: a text like
		// a date would become another day (2026-02-30), or lose how it was written.
		for _, guess := range guesses {
			settings[guess] = "0"
		}
	}
	return settings
}

// guesses are what ClickHouse may take values without a type for.
var guesses = [...]string{
	"input_format_try_infer_dates", "input_format_try_infer_datetimes",
	"input_format_json_try_infer_numbers_from_strings", "input_format_json_read_bools_as_numbers",
	"input_format_json_read_bools_as_strings", "input_format_json_read_numbers_as_strings",
}

// body reads the INSERT's data. Rows are not copied.
func (i insertion) body() *segments {
	s := &segments{bufs: make(net.Buffers, 0, len(i.spans)+1)}
	s.add(i.header())
	for _, sp := range i.spans {
		i.each(sp, s.add)
	}
	return s
}

// header is what stands in front of the rows: names and types.
func (i insertion) header() []byte {
	if i.form.Text() {
		return i.form.Layout.AppendNamesAndTypesLines(nil)
	}
	return i.form.Layout.AppendNamesAndTypes(nil)
}

// each calls add with the bytes of a span's rows, one or many at a time.
func (i insertion) each(s span, add func([]byte)) {
	if s.rebuilt != nil {
		for _, row := range s.rebuilt {
			add(row)
		}
		return
	}
	part := s.c.Slice(s.from, s.to)
	add(part)
	if i.form.Text() && part[len(part)-1] != '\n' {
		add([]byte{'\n'})
	}
}

// segments is a reader over byte slices that stay where they are.
type segments struct {
	bufs net.Buffers
	left int
}

func (s *segments) add(b []byte) {
	if len(b) > 0 {
		s.bufs = append(s.bufs, b)
		s.left += len(b)
	}
}

// Read implements io.Reader.
func (s *segments) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.bufs.Read(p)
	s.left -= n
	return n, err
}
