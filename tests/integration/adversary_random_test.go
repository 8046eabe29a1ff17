package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var adversarySeed = seedFlag("adversary.seed", "the documents")

// vaultRules all show the same rows of the vault, by columns of other types:
// the key, one that is dear to read, one that may be null, one that is no
// number, and by several at once.
var vaultRules = []string{
	`{"org":{"_eq":"{{ jwt.org }}"}}`, `{"org":{"_in":["birch","ash"]}}`, `{"event_id":{"_like":"%v"}}`, `{"n":{"_gt":0}}`, `{"f":{"_gte":0}}`, `{"day":{"_lt":"2027-01-01"}}`,
	`{"e":{"_eq":"one"}}`, `{"_not":{"lc":{"_eq":"HIDDEN"}}}`, `{"_or":[{"maybe":{"_neq":"HIDDEN"}},{"maybe":{"_is_null":true}}]}`, `{"ts":{"_lte":"2026-12-31T00:00:00Z"},"d":{"_nin":[99999]}}`,
	`{"secret":{"_is_null":false},"page":{"_neq":"HIDDEN-page"}}`, `{"_not":{"_or":[{"org":{"_in":["cedar",""]}},{"n":{"_lt":1}}]}}`,
}

// Documents of many clauses at once are answered as if the hidden rows were not
// there, whatever the rule that hides them.
func TestAdversaryRandomDocuments(t *testing.T) {
	t.Parallel()
	seed := adversarySeed.draw(t)
	r := rand.New(rand.NewPCG(seed, 3))
	s, caller := vault(t)
	answered, total := 0, 0
	for _, rule := range vaultRules {
		s.writeFile("policies.json", strings.Replace(vaultPolicy, vaultRules[0], rule, 1))
		a := s.reload()
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.Equal(t, `[{"c":300}]`, compact(t, []byte(s.query("vault", `{`+counted+`}`, caller...).body)), rule)
		for range 50 {
			document := randomDocument(r)
			if total++; s.alike(t, document, caller).status == http.StatusOK {
				answered++
			}
			if t.Failed() {
				t.Logf("rule %s", rule)
				return
			}
		}
	}
	assert.Greater(t, answered, total/2)
}

// randomDocument combines clauses; a page of its answer is in a strict order.
func randomDocument(r *rand.Rand) string {
	columns := slices.Sorted(func(yield func(string) bool) {
		for column := range vaultColumns {
			if !yield(column) {
				return
			}
		}
	})
	any := func(from ...string) string { return from[r.IntN(len(from))] }
	var clauses, filters []string
	for range r.IntN(3) {
		column := any(columns...)
		value := any(vaultColumns[column]...)
		op := any("eq", "neq", "gt", "gte", "lt", "lte", "in", "not_in", "is_not_null")
		switch op {
		case "in", "not_in":
			value = "[" + value + "]"
		case "is_not_null":
			filters = append(filters, fmt.Sprintf(`{"column":%s,"op":%q}`, quoted(column), op))
			continue
		}
		filters = append(filters, fmt.Sprintf(`{"column":%s,"op":%q,"value":%s}`, quoted(column), op, value))
	}
	clauses = append(clauses, `"filters":[`+strings.Join(filters, ",")+`]`)
	if r.IntN(3) == 0 {
		clauses = append(clauses, fmt.Sprintf(`"time_range":{"column":%q,"since":"2025-12-31T00:00:00Z","until":%q}`, any("ts", "day"), any("2026-01-01T03:00:00Z", "2032-01-01T00:00:00Z")))
	}
	page := fmt.Sprintf(`"limit":%d,"offset":%d`, r.IntN(20), r.IntN(4)*r.IntN(100))
	alias := any("secret", "org", "x", "n", "event_id")
	if r.IntN(2) == 0 {
		fn := any("count", "max", "min", "count_distinct", "uniq", "any")
		clauses = append(clauses, fmt.Sprintf(`"columns":["e","lc"],"aggregations":[{"fn":%q,"column":%s,"alias":%q}],"group_by":["lc","e"]`, fn, quoted(any(columns...)), alias))
		return "{" + strings.Join(append(clauses, `"order_by":[{"column":`+quoted(any(alias, "e"))+`,"dir":"desc"},{"column":"lc"},{"column":"e"}]`, page), ",") + "}"
	}
	if r.IntN(3) == 0 {
		clauses = append(clauses, fmt.Sprintf(`"columns":["page"],"time_bucket":{"column":"ts","every":%q,"alias":%q}`, any("5m", "1h", "1d"), alias))
	} else {
		clauses = append(clauses, `"select_all":true`)
	}
	return "{" + strings.Join(append(clauses, fmt.Sprintf(`"order_by":[{"column":%s,"dir":%q},{"column":"n"},{"column":"ts"}]`, quoted(any(columns...)), any("asc", "desc")), page), ",") + "}"
}

// What an insert says of a column names none that its writer may not write.
func TestAdversaryInsertsNameNoHiddenColumn(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"tables":{"pages":{"writer":{"insert":{"allow_columns":["event_id","page"]}}}}}`}, pagesTable,
		`INSERT INTO pages (event_id, page, secret) VALUES ('1', '/', 'SECRET')`)
	writer := as(t, "writer")
	for _, name := range []string{"secre", "secrets", "Secret", "sceret", "secret ", "`secret`", "secret.x", "pages.secret", "_part", "org2", "*", "", "secret\x00"} {
		a := s.ingest("pages", `{"event_id":"2","page":"/",`+quoted(name)+`:"SECRET"}`, writer...)
		assert.Equal(t, http.StatusForbidden, a.status, "%q: %s", name, a.body)
		p := decode[problem](t, a)
		assert.Equal(t, "record.column_not_allowed", p.Code, "%q", name)
		assert.NotContains(t, strings.ReplaceAll(p.Error, strings.TrimRight(name, "\x00"), ""), "secret", "%q", name)
	}
	refused(t, s.ingest("pages", `{"event_id":"2","page":"/","secret":"x"}`, writer...), http.StatusForbidden, "record.column_not_allowed")
	refused(t, s.query("pages", `{"columns":["page"]}`, writer...), http.StatusForbidden, "auth.forbidden")
	s.refusedStream("table=pages", "", http.StatusForbidden, "auth.forbidden", writer...)
	assert.Equal(t, 1, s.ch.Count(t, "pages"))
}
