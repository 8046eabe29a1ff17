package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Op is what a node of a row rule does.
type Op uint8

// The operators of a row rule.
const (
	OpAnd Op = iota
	OpOr
	OpNot
	OpEq
	OpNeq
	OpGt
	OpGte
	OpLt
	OpLte
	OpIn
	OpNin
	OpLike
	OpIsNull
	OpIsNotNull
)

// maxConditions bounds the conditions of one rule, maxValues those of a list.
const (
	maxConditions = 1_000
	maxValues     = 10_000
)

// rule is a compiled filter or check, before any claim is known.
type rule struct {
	op      Op
	args    []rule // of OpAnd, OpOr and OpNot
	column  string
	operand operand
}

// operators maps the operators as they are written.
func operators() map[string]Op {
	return map[string]Op{
		"_eq": OpEq, "_neq": OpNeq, "_gt": OpGt, "_gte": OpGte, "_lt": OpLt, "_lte": OpLte,
		"_in": OpIn, "_nin": OpNin, "_like": OpLike, "_is_null": OpIsNull,
	}
}

// lists reports whether the operator takes several values.
func (o Op) lists() bool { return o == OpIn || o == OpNin }

// ruleCompiler compiles one filter or check.
type ruleCompiler struct {
	*compiler
	known      map[string]Op
	check      bool
	conditions int
	named      []RuleColumn
}

// RuleColumn is a column that a rule names, with its JSON path.
type RuleColumn struct{ Path, Name string }

// RuleColumns lists the columns that a filter or check at path names. It finds
// no faults: Compile does.
func RuleColumns(path string, raw json.RawMessage) []RuleColumn {
	if len(raw) == 0 {
		return nil
	}
	k := &ruleCompiler{compiler: &compiler{}, known: operators()}
	k.top(path, raw)
	return k.named
}

// filter compiles a select's filter; nil is no rule, or a fault.
func (c *compiler) filter(path string, raw json.RawMessage) *rule {
	if len(raw) == 0 {
		return nil
	}
	k := &ruleCompiler{compiler: c, known: operators()}
	return k.top(path, raw)
}

// checks compiles an insert's check: a condition each.
func (c *compiler) checks(path string, raw json.RawMessage) []rule {
	if len(raw) == 0 {
		return nil
	}
	k := &ruleCompiler{compiler: c, known: map[string]Op{"_eq": OpEq, "_in": OpIn}, check: true}
	if r := k.top(path, raw); r != nil {
		return r.args
	}
	return nil
}

func (k *ruleCompiler) top(path string, raw json.RawMessage) *rule {
	args := k.object(path, raw)
	if k.conditions > maxConditions {
		k.fault(path, "%d conditions are more than the %d that a rule may have", k.conditions, maxConditions)
	}
	return &rule{op: OpAnd, args: args}
}

// members reads an object that says something.
func (k *ruleCompiler) members(path string, raw json.RawMessage, want string) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if raw[0] != '{' || len(strictjson.Decode(raw, &members)) > 0 {
		k.fault(path, "want %s", want)
		return nil
	}
	if len(members) == 0 {
		k.fault(path, "is empty: want %s", want)
	}
	return members
}

// object compiles an object of columns and connectives, joined by AND.
func (k *ruleCompiler) object(path string, raw json.RawMessage) []rule {
	members := k.members(path, raw, `an object of columns, each with its operators: {"org": {"_eq": "x"}}`)
	var args []rule
	for _, name := range slices.Sorted(maps.Keys(members)) {
		below, member := strictjson.Join(path, name), members[name]
		switch {
		case !k.check && (name == "_and" || name == "_or"):
			args = append(args, k.connective(below, name, member))
		case !k.check && name == "_not":
			args = append(args, rule{op: OpNot, args: []rule{{op: OpAnd, args: k.object(below, member)}}})
		default:
			args = append(args, k.columnRule(below, name, member)...)
		}
	}
	return args
}

// connective compiles the list of _and or _or.
func (k *ruleCompiler) connective(path, name string, raw json.RawMessage) rule {
	r := rule{op: OpAnd}
	if name == "_or" {
		r.op = OpOr
	}
	var items []json.RawMessage
	if raw[0] != '[' || len(strictjson.Decode(raw, &items)) > 0 || len(items) == 0 {
		k.fault(path, "want a list of one rule or more: [{…}, {…}]")
	}
	for i, item := range items {
		r.args = append(r.args, rule{op: OpAnd, args: k.object(strictjson.Index(path, i), item)})
	}
	return r
}

// columnRule compiles the operators of one column.
func (k *ruleCompiler) columnRule(path, column string, raw json.RawMessage) []rule {
	if problem := k.columnName(column); problem != "" {
		k.fault(path, "%s", problem)
		return nil
	}
	k.named = append(k.named, RuleColumn{Path: path, Name: column})
	members := k.members(path, raw, `an object of operators: {"_eq": "x"}`)
	var args []rule
	for _, name := range slices.Sorted(maps.Keys(members)) {
		below := strictjson.Join(path, name)
		op, ok := k.known[name]
		if !ok {
			k.unknownOperator(below, name)
			continue
		}
		k.conditions++
		args = append(args, k.condition(below, column, op, members[name]))
	}
	return args
}

// columnName says what is wrong with a key where a column is expected.
func (k *ruleCompiler) columnName(name string) string {
	switch _, operator := operators()[name]; {
	case name == "":
		return "a column must have a name"
	case operator:
		return `an operator stands below a column: {"org": {"` + name + `": …}}`
	case k.check && (name == "_and" || name == "_or" || name == "_not"):
		return "a check names columns only"
	case strings.Contains(name, opening):
		return "a column's name holds no claims"
	}
	return ""
}

func (k *ruleCompiler) unknownOperator(path, name string) {
	known := slices.Sorted(maps.Keys(k.known))
	hint := cmp.Or(nearest.Hint(name, known), ": want one of "+strings.Join(known, ", "))
	where := "a filter"
	if k.check {
		where = "a check"
	}
	k.fault(path, "unknown operator %q in %s%s", excerpt.Of(name), where, hint)
}

func (k *ruleCompiler) condition(path, column string, op Op, raw json.RawMessage) rule {
	r := rule{op: op, column: column}
	switch {
	case op == OpIsNull && string(raw) == "false":
		r.op = OpIsNotNull
	case op == OpIsNull && string(raw) != "true":
		k.fault(path, "want true or false")
	case op == OpIsNull:
	case op.lists() && raw[0] == '[':
		r.operand = k.list(path, raw)
	case op.lists() && !holdsTemplate(raw):
		k.fault(path, "want a list of values, or a claim: {{ jwt.<path> }}")
	default:
		r.operand = operand{k.source(path, raw)}
	}
	if op == OpLike {
		k.pattern(path, r.operand)
	}
	return r
}

func holdsTemplate(raw json.RawMessage) bool {
	return raw[0] == '"' && strings.Contains(string(raw), opening)
}

func (k *ruleCompiler) list(path string, raw json.RawMessage) operand {
	var items []json.RawMessage
	if len(strictjson.Decode(raw, &items)) > 0 || len(items) == 0 || len(items) > maxValues {
		k.fault(path, "want a list of 1 to %d values", maxValues)
		return nil
	}
	var list operand
	for i, item := range items {
		list = append(list, k.source(strictjson.Index(path, i), item))
	}
	return list
}

// source compiles one value.
func (k *ruleCompiler) source(path string, raw json.RawMessage) source {
	switch raw[0] {
	case '{', '[':
		k.fault(path, "want one value: a string, a number, true, false or a claim")
	case 'n':
		k.fault(path, "a value may not be null: use _is_null")
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			k.fault(path, "is not a string: %v", err)
			break
		}
		t, err := parseTemplate(text)
		if err != nil {
			k.fault(path, "%v", err)
		} else if t == nil && strings.Contains(text, claimPrefix) {
			k.warn(path, "%q is taken as it is: a claim is written {{ jwt.<path> }}", excerpt.Of(text))
		}
		return source{literal: raw, template: t}
	}
	return source{literal: raw}
}

// pattern checks a pattern that holds no claim.
func (k *ruleCompiler) pattern(path string, o operand) {
	if len(o) != 1 || o[0].template != nil {
		return
	}
	var text string
	if json.Unmarshal(o[0].literal, &text) != nil {
		k.fault(path, "a pattern must be a string")
	} else if _, err := parseLike(text); err != nil {
		k.fault(path, "%v", err)
	}
}
