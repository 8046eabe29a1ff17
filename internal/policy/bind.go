package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// BoundSelect is a SelectGrant for one caller and one table as it is now. It
// is immutable and answers both ways to read: a query takes its Rows as SQL,
// the stream asks whether a row is Visible.
type BoundSelect struct {
	*SelectGrant
	predicate   *Predicate // nil: every row, unless none
	none        bool
	unresolved  string
	fault       error
	fingerprint string

	plan atomic.Pointer[plan] // for the layout seen last
}

// Predicate is a row rule with its values: a tree of conditions on columns. A
// condition on a NULL, and one of a NaN, is neither true nor false, whatever
// is made of it: the row does not show.
type Predicate struct {
	Op Op
	// Args are the parts of OpAnd, OpOr and OpNot.
	Args []Predicate
	// Column and Type are of every other Op.
	Column, Type string
	// Values are one value, or those of a list; each has been read by the
	// column's codec. OpIsNull and OpIsNotNull have none.
	Values []json.RawMessage

	// encoded has, for each of Values, what a row's value is compared with: it or,
	// where between is set, the largest value of the column below it.
	encoded [][]byte
	between []bool
	pattern like
	// absent is what holds for a row of a chunk that lacks the column; opaque
	// columns are judged by ClickHouse alone.
	absent outcome
	opaque bool
}

// Bind resolves the grant's row rule with the caller's claims against the
// table's columns. A nil table is one that is not known.
func (g *SelectGrant) Bind(claims map[string]any, table *record.Table) *BoundSelect {
	b := &BoundSelect{SelectGrant: g, fingerprint: g.fingerprint}
	if g.filter == nil {
		return b
	}
	k := binder{claims: claims, table: table}
	p := k.node(*g.filter)
	if b.fault, b.unresolved = k.fault, k.unresolved; k.fault == nil && k.unresolved == "" {
		b.predicate = &p
	}
	b.none = b.predicate == nil
	b.fingerprint = b.boundFingerprint()
	return b
}

// Rows returns the rule that rows must fulfil. A nil predicate is no rule, or
// no row at all when none is true.
func (b *BoundSelect) Rows() (predicate *Predicate, none bool) { return b.predicate, b.none }

// HidesRows reports whether the rule may hide rows.
func (b *BoundSelect) HidesRows() bool { return b.predicate != nil || b.none }

// Fault says why the rule does not fit the table; nil when it does. No row
// shows then, and somebody must change the policy or the table.
func (b *BoundSelect) Fault() error { return b.fault }

// Unresolved is a claim without which no row shows, "" when there is none: the
// caller's token lacks it, or holds what the column cannot.
func (b *BoundSelect) Unresolved() string { return b.unresolved }

// Fingerprint tells what the answer to a query depends on beside the query:
// the role's rules and the values of its row rule. Equal fingerprints read
// equal answers.
func (b *BoundSelect) Fingerprint() string { return b.fingerprint }

func (b *BoundSelect) boundFingerprint() string {
	text, err := json.Marshal(struct {
		Grant string
		None  bool
		Rule  *Predicate
	}{b.SelectGrant.fingerprint, b.none, b.predicate})
	if err != nil {
		panic("policy: a row rule that does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// binder resolves one rule. It goes on after a fault, so that a rule that does
// not fit the table is known as such for every caller.
type binder struct {
	claims     map[string]any
	table      *record.Table
	fault      error
	unresolved string
}

func (k *binder) fail(format string, args ...any) {
	if k.fault == nil {
		k.fault = fmt.Errorf(format, args...)
	}
}

func (k *binder) miss(claim string) {
	if k.unresolved == "" {
		k.unresolved = claim
	}
}

func (k *binder) node(r rule) Predicate {
	p := Predicate{Op: r.op}
	switch r.op {
	case OpAnd, OpOr, OpNot:
		for _, arg := range r.args {
			p.Args = append(p.Args, k.node(arg))
		}
		return p
	}
	return k.condition(r)
}

// column is a column of the table that a rule is about.
type column struct {
	record.Column
	index int
	codec record.Codec
	typ   coltype.Type
}

func (k *binder) column(name string) (column, bool) {
	if k.table == nil {
		k.fail("the table is not known")
		return column{}, false
	}
	index, ok := k.table.Lookup(name)
	if !ok {
		k.fail("the table %q has no column %q", k.table.Name(), excerpt.Of(name))
		return column{}, false
	}
	c := column{Column: k.table.Columns()[index], index: index, codec: k.table.Codec(index)}
	// A type outside the grammar stays a type of no kind.
	c.typ, _ = coltype.Parse(c.Type)
	return c, true
}

func (k *binder) condition(r rule) Predicate {
	p := Predicate{Op: r.op, Column: r.column}
	c, ok := k.column(r.column)
	if !ok {
		return p
	}
	p.Type, p.opaque = c.Type, c.codec == nil || c.typ.Aggregates()
	if c.DefaultKind == record.DefaultEphemeral {
		k.fail("the column %q is EPHEMERAL and holds nothing to compare", excerpt.Of(c.Name))
		return p
	}
	switch r.op {
	case OpIsNull, OpIsNotNull:
	case OpLike:
		k.pattern(&p, r, c)
	default:
		k.values(&p, r.operand, c, true)
	}
	if k.fault == nil && k.unresolved == "" {
		p.absent = whenAbsent(&p, c)
	}
	return p
}

// pattern resolves the pattern of a _like. A claim that is the whole pattern
// is one; a claim inside a longer text is text.
func (k *binder) pattern(p *Predicate, r rule, c column) {
	if kind := c.typ.Plain().Kind; c.codec == nil || kind != coltype.String && kind != coltype.FixedString {
		k.fail("_like compares text, and the column %q is %s", excerpt.Of(c.Name), excerpt.Of(c.Type))
		return
	}
	resolved := r.operand.resolve(k.claims, false, EscapeLike)
	if resolved.missing != "" {
		k.miss(resolved.missing)
		return
	}
	var text string
	err := json.Unmarshal(resolved.values[0], &text)
	if err == nil {
		p.pattern, err = parseLike(text)
	}
	if err != nil {
		k.refuse(r.operand, fmt.Errorf("the pattern for the column %q: %w", excerpt.Of(c.Name), err))
		return
	}
	p.Values = resolved.values
}

// values resolves what a column is compared with, as the column's codec reads
// it; finer allows the policy's own values more digits than the column has. A
// claim that the column cannot hold is none.
func (k *binder) values(p *Predicate, o operand, c column, finer bool) {
	if c.codec == nil || !c.typ.Plain().Ordered() {
		k.fail("the column %q of type %s cannot be compared with a value", excerpt.Of(c.Name), excerpt.Of(c.Type))
		return
	}
	resolved := o.resolve(k.claims, p.Op.lists(), plainText)
	if resolved.missing != "" {
		k.miss(resolved.missing)
		return
	}
	for _, value := range resolved.values {
		encoded, between, err := c.encode(value, finer && len(o.claims()) == 0)
		if err == nil {
			if _, ok := c.codec.Compare(encoded, encoded); !ok {
				err = fmt.Errorf("%s compares with nothing", excerpt.Of(value))
			}
		}
		if err != nil {
			k.refuse(o, fmt.Errorf("a value for the column %q of type %s: %w", excerpt.Of(c.Name), excerpt.Of(c.Type), err))
			return
		}
		p.Values, p.encoded, p.between = append(p.Values, value), append(p.encoded, encoded), append(p.between, between)
	}
}

// encode reads a value as the column holds it. between says that it lies above
// what is returned, and below the column's next value.
func (c *column) encode(value json.RawMessage, finer bool) (encoded []byte, between bool, err error) {
	encoded, err = c.codec.AppendJSON(nil, value)
	if err == nil || !finer {
		return encoded, false, err
	}
	floor, exact, ok := record.Floor(c.typ.Plain(), value)
	if !ok {
		return nil, false, err
	}
	if below, fault := c.codec.AppendJSON(nil, floor); fault == nil {
		return below, !exact, nil
	}
	return nil, false, err
}

// refuse notes a value that the column cannot hold: the caller's when it came
// from a claim, else the policy's.
func (k *binder) refuse(o operand, err error) {
	claims := o.claims()
	if len(claims) == 0 {
		k.fail("%w", err)
		return
	}
	k.miss(strings.Join(claims, ", "))
}

// claims lists the claims that an operand is made of.
func (o operand) claims() []string {
	var claims []string
	for _, s := range o {
		for _, p := range s.template {
			if p.claim != "" {
				claims = append(claims, string(p.claim))
			}
		}
	}
	return claims
}
