package rehearsal

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/policy"
)

// AssumeTable makes a table of the columns that the policy names for it, each of
// the type that the values it is compared with suggest. It stands in where the
// real types are not known.
func AssumeTable(doc *policy.Document, name string, claims map[string]any) []Column {
	roles, named := doc.Tables[name]
	if !named {
		roles = doc.Tables[policy.AllTables]
	}
	a := assumption{claims: claims, types: map[string]string{}, nullable: map[string]bool{}}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if s := roles[role].Select; s != nil {
			a.names(s.AllowColumns, s.DenyColumns)
			a.rule(s.Filter)
		}
		if i := roles[role].Insert; i != nil {
			a.names(i.AllowColumns, i.DenyColumns)
			a.rule(i.Check)
		}
	}
	var columns []Column
	for _, column := range slices.Sorted(maps.Keys(a.types)) {
		columns = append(columns, Column{Name: column, Type: a.of(column)})
	}
	return columns
}

type assumption struct {
	claims   map[string]any
	types    map[string]string // "" is not known
	nullable map[string]bool
}

func (a *assumption) of(column string) string {
	typ := a.types[column]
	if typ == "" {
		typ = "String"
	}
	if a.nullable[column] {
		return "Nullable(" + typ + ")"
	}
	return typ
}

func (a *assumption) names(lists ...[]string) {
	for _, name := range slices.Concat(lists...) {
		if name != policy.AllTables {
			a.see(name, "")
		}
	}
}

// see notes a type; two that differ are told apart by text only.
func (a *assumption) see(column, typ string) {
	had, seen := a.types[column]
	switch {
	case !seen || had == "":
		a.types[column] = typ
	case typ != "" && typ != had:
		a.types[column] = wider(had, typ)
	}
}

func wider(a, b string) string {
	numbers := []string{"Int64", "Int256", "Float64"}
	i, j := slices.Index(numbers, a), slices.Index(numbers, b)
	if i < 0 || j < 0 {
		return "String"
	}
	return numbers[max(i, j)]
}

// rule walks a filter or a check that has been found to be in order.
func (a *assumption) rule(raw json.RawMessage) {
	var members map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &members) != nil {
		return
	}
	for name, member := range members {
		switch name {
		case "_and", "_or":
			var items []json.RawMessage
			_ = json.Unmarshal(member, &items)
			for _, item := range items {
				a.rule(item)
			}
		case "_not":
			a.rule(member)
		default:
			a.column(name, member)
		}
	}
}

func (a *assumption) column(name string, raw json.RawMessage) {
	var operators map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if decoder.Decode(&operators) != nil {
		return
	}
	a.see(name, "")
	for operator, value := range operators {
		switch operator {
		case "_is_null":
			a.nullable[name] = true
		case "_like":
			a.see(name, "String")
		default:
			a.see(name, a.typeOf(value))
		}
	}
}

func (a *assumption) typeOf(value any) string {
	switch v := value.(type) {
	case bool:
		return "Bool"
	case json.Number:
		return numberType(string(v))
	case []any:
		typ := ""
		for _, item := range v {
			typ = joined(typ, a.typeOf(item))
		}
		return typ
	case string:
		if path, whole := wholeClaim(v); whole {
			found, _ := claim.Path(path).Lookup(a.claims)
			if _, nested := found.(string); nested {
				return "String"
			}
			return a.typeOf(found)
		}
		return "String"
	}
	return ""
}

func joined(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return wider(a, b)
}

func numberType(digits string) string {
	if _, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return "Int64"
	}
	if strings.Trim(digits, "-0123456789") == "" {
		return "Int256"
	}
	return "Float64"
}

// wholeClaim returns the path of a value that is one claim.
func wholeClaim(text string) (path string, ok bool) {
	inside, ok := strings.CutPrefix(strings.TrimSpace(text), "{{")
	if !ok {
		return "", false
	}
	inside, ok = strings.CutSuffix(inside, "}}")
	path, isClaim := strings.CutPrefix(strings.TrimSpace(inside), "jwt.")
	return path, ok && isClaim && !strings.ContainsAny(path, "{}")
}
