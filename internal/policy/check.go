package policy

import (
	"fmt"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// BoundInsert is an InsertGrant for one caller and one table as it is now.
type BoundInsert struct {
	// Checks hold for every record.
	Checks []record.Check
	// Refuse, when not nil, is the verdict on every record: the checks cannot
	// be applied.
	Refuse *record.Error
	fault  error
}

// Fault says why the checks do not fit the table; nil when they do. No record
// is accepted then, and somebody must change the policy or the table.
func (b BoundInsert) Fault() error { return b.fault }

// Bind resolves the grant's checks with the caller's claims against the
// table's columns.
func (g *InsertGrant) Bind(claims map[string]any, table *record.Table) BoundInsert {
	if len(g.checks) == 0 {
		return BoundInsert{}
	}
	var b BoundInsert
	k := binder{claims: claims, table: table}
	for _, r := range g.checks {
		if check, ok := k.checkOf(r); ok {
			b.Checks = append(b.Checks, check)
		}
	}
	switch b.fault = k.fault; {
	case k.fault != nil:
		b.Refuse = refusal("policy fault: the check of this role does not fit the table; an administrator must correct it")
	case k.unresolved != "":
		b.Refuse = refusal(fmt.Sprintf("the policy of this role needs the claim %q, which the token lacks or which the column cannot hold", excerpt.Of(k.unresolved)))
	}
	return b
}

func refusal(message string) *record.Error {
	return &record.Error{Code: record.CodeCheckFailed, Message: message}
}

func (k *binder) checkOf(r rule) (record.Check, bool) {
	c, ok := k.column(r.column)
	if !ok {
		return record.Check{}, false
	}
	if kind := c.DefaultKind; kind == record.DefaultMaterialized || kind == record.DefaultAlias {
		k.fail("the column %q is computed by ClickHouse and cannot be checked", excerpt.Of(c.Name))
		return record.Check{}, false
	}
	p := Predicate{Op: r.op}
	k.values(&p, r.operand, c, false)
	return record.Check{Column: c.index, Allowed: p.encoded, Stamp: r.op == OpEq}, true
}
