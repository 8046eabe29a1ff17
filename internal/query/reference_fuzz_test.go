package query_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

// partParameter is a placeholder whose type is of the table's own.
var partParameter = regexp.MustCompile(`\{p[0-9]+:(?:String|UInt16|Int8|Int32|Int64|UInt32|UInt64|Bool|Float64|Date32|DateTime64\(9, 'UTC'\)|Enum8\('red' = 1, 'blue' = 2\))\}`)

// partWords are all that a statement over parts may hold beside.
var partWords = regexp.MustCompile(`^(?:SELECT|AS|FROM|WHERE|AND|OR|GROUP BY|ORDER BY|LIMIT|FORMAT|JSONEachRow|IS|NOT|NULL|ASC|IN|LIKE|if|mapContains|length|tupleElement|getSubcolumn|dynamicElement|accurateCastOrNull|CAST|ifNull|trunc|abs|false|coalesce|match|startsWith|has|hasAny|groupArray|count|` +
	`'(?:Int64|UInt64|Float64|String|Bool|Date|DateTime|DateTime64\(9\)|Dynamic)'|wh_*|wh_in_*[0-9]+|v|-?[0-9.]+|[-* ,()=!<>.\[\]])*$`)

// FuzzReference holds that no reference becomes SQL, and that none reaches a
// denied path: whatever it is, it is refused or leads elsewhere.
func FuzzReference(f *testing.F) {
	for _, reference := range []string{
		`attrs.secret`, `attrs["a b"]`, `nums[7]`, `colors.red`, `person.home.city`, `person[3][1]`, `rows[-1].id`, `rows.id[1]`, `tags[2]`, `payload.user.id`, `payload["user.email"]`, `payload.who[1]`, `payload.objs[1].a`, `docs.d.x`,
		"attrs.`) OR 1 --", `attrs["` + "`) OR (1=1" + `"]`, "payload.a` FROM x --", `payload["^` + "`user`" + `"]`, `payload.a{p0:String}`, `tags[1) OR (1]`, `person.1`, `a["b"]`, `docs["' OR 1 --"].x`, `attrs["\u0000\\"]`,
	} {
		f.Add(reference, "eq", `"x"`)
		f.Add(reference, "in", `["x"]`)
	}
	table := parted()
	free := policy.OperatorSelect()
	held := grantOf(f, policy.SelectDocument{DenyColumns: []string{"attrs.secret", "payload.user.email", "person.email", "rows.email", "docs.d.x"}})
	f.Fuzz(func(t *testing.T, reference, op, value string) {
		body, err := json.Marshal(map[string]any{"columns": []string{reference}, "filters": []any{map[string]any{"column": reference, "op": op, "value": json.RawMessage(value)}}, "group_by": []string{reference}, "aggregations": []any{map[string]any{"fn": "count"}}})
		if err != nil {
			return // no JSON for a value
		}
		for _, grant := range []*policy.SelectGrant{free, held} {
			whole, err := query.Parse(body)
			if err != nil {
				return
			}
			for _, doc := range []*query.Document{whole, {Columns: whole.Columns}, {Columns: []string{"id"}, Filters: whole.Filters}} {
				s, err := query.Build(doc, table, grant.Bind(nil, table.Record), options())
				if err != nil {
					asError(t, err)
					continue
				}
				rest := partParameter.ReplaceAllString(identifier.ReplaceAllString(s.SQL, " "), " ")
				if !partWords.MatchString(rest) {
					t.Fatalf("%q became SQL: %s\nleft over: %s", reference, s.SQL, rest)
				}
				if grant == held && (strings.Contains(s.SQL, "`email`") || strings.Contains(s.SQL, "tupleElement(wh.`person`, 2)") || strings.Contains(s.SQL, "SELECT wh.`attrs`[{p0:String}]") && s.Params["p0"] == "secret") {
					t.Fatalf("%q reaches what is denied: %s", reference, s.SQL)
				}
			}
		}
	})
}
