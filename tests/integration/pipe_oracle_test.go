package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What pipes ask of a table T, by every way in which a statement may come upon a
// row, with functions that fail on the values of hidden rows.
var pipeQuestions = []string{
	`SELECT count() AS c FROM T`, `SELECT * FROM T ORDER BY id LIMIT 3`, `SELECT id FROM T WHERE intDiv(100, n) = 100`, `SELECT sum(intDiv(100, n)) AS s FROM T`,
	`SELECT intDiv(1, n) AS x FROM T ORDER BY x LIMIT 1`, `SELECT id FROM T ORDER BY intDiv(1, n) DESC, id LIMIT 1`, `SELECT toUInt64(email) AS k, count() AS c FROM T GROUP BY k`,
	`SELECT DISTINCT toUInt64(email) AS k FROM T`, `SELECT count() AS c FROM T WHERE toUInt64(email) = 5 AND n = 1`, `SELECT count() AS c FROM T WHERE n = 1 AND throwIf(n = 1) = 0`,
	`SELECT count() AS c FROM T AS a JOIN T AS b ON intDiv(1, a.n) = b.n AND a.id = b.id`, `SELECT sum(x) OVER (ORDER BY id) AS s FROM (SELECT id, toUInt64(email) AS x FROM T) LIMIT 1`,
	`SELECT count() AS c FROM numbers(5) WHERE number IN (SELECT intDiv(100, n) FROM T)`, `SELECT arrayJoin([toUInt64(email)]) AS x FROM T LIMIT 1`, `SELECT count() AS c FROM (SELECT toUInt64(email) AS x FROM T) WHERE x = 5`,
	`SELECT id FROM T WHERE email = 'q' OR toUInt64(email) = 5 ORDER BY id LIMIT 1 BY toUInt64(email) LIMIT 1`, `SELECT max(id) AS m FROM T HAVING min(toUInt64(email)) = 5`,
	`SELECT count() AS c FROM T WHERE email LIKE '\\'`, `SELECT count() AS c FROM T WHERE email LIKE {{pattern}}`, `SELECT count() AS c FROM T WHERE match(email, {{pattern}})`, `SELECT count() AS c FROM numbers(10) AS m JOIN T AS x ON m.number = toUInt64(x.email)`,
	`SELECT (SELECT toUInt64(max(email)) FROM T) AS x`, `SELECT (SELECT throwIf(count() > 0) FROM T) AS x`, `SELECT EXISTS(SELECT 1 FROM T WHERE throwIf(n = 7) = 0) AS x`, `SELECT count() AS c FROM T WHERE id IN (SELECT id FROM T WHERE throwIf(n = 7) = 0)`,
	`WITH T AS (SELECT id, throwIf(n = 7) AS t FROM T) SELECT sum(t) AS t FROM T`, `SELECT number, (SELECT sum(throwIf(n = number + 7)) FROM T) AS x FROM numbers(2) ORDER BY number`, `SELECT count() AS c FROM T UNION ALL SELECT sum(intDiv(1, n)) FROM T`,
	`SELECT count() AS c FROM T WHERE toDateTime(email) > now()`, `SELECT any(id) AS a, uniq(n) AS u, quantile(0.5)(n) AS q, groupArray(id) AS g FROM T`, `SELECT id FROM T WHERE n > (SELECT avg(n) FROM T) ORDER BY id LIMIT 1`,
	`SELECT n, count() AS c FROM T GROUP BY n WITH TOTALS ORDER BY n LIMIT 2`, `SELECT sum(num) AS s FROM T`, `SELECT count() AS c FROM T WHERE share = 100`, `SELECT max(late) AS m FROM T`, `SELECT count() AS c FROM T WHERE late = 5`, `SELECT id FROM T ORDER BY late LIMIT 1`,
	`SELECT id FROM T ORDER BY stored, id LIMIT 2`, `SELECT count() AS c FROM T WHERE at > when`, `SELECT arrayMap(x -> toUInt64(x), tags) AS a FROM T LIMIT 1`, `SELECT t FROM T ARRAY JOIN tags AS t WHERE toUInt64(t) = 1`, `SELECT count() AS c FROM T WHERE org = 'cedar'`, `SELECT text FROM T`,
	`SELECT count() AS c FROM T WHERE repeat(email, 100000) = ''`, `SELECT sum(sleepEachRow(0.0001)) AS s FROM T`, `SELECT dec * 1000000000000000 AS x FROM T LIMIT 1`, `SELECT toFixedString(email, 3) AS x FROM T LIMIT 1`,
}

var ofTable = regexp.MustCompile(`\bT\b`)

// TestPipesDoNotTellOfHiddenRows: a caller who may see no row of a table runs
// pipes that see it as their caller does, over different sets of hidden rows.
// Nothing of what it is answered may tell them apart.
func TestPipesDoNotTellOfHiddenRows(t *testing.T) {
	t.Parallel()
	servers := []*server{oracle(t, "number % 2", "'hidden-value'", 3000), oracle(t, "1", "'5'", 0), oracle(t, "7", "'5'", 1)}
	tables := []string{"events", "newest", "viewed", "held"}
	var list []string
	for _, table := range tables {
		for i, question := range pipeQuestions {
			list = append(list, fmt.Sprintf(`{"name":"%s%d","allowed_roles":["viewer","analyst"],"policies":"caller","parameters":[{"name":"pattern","type":"string","default":"("}],"sql":%s}`,
				table, i, quoted(ofTable.ReplaceAllString(question, table))))
		}
	}
	for _, s := range servers {
		s.adopt(`{"pipes":[` + strings.Join(list, ",\n") + `]}`)
	}
	statuses := map[int]int{}
	for _, table := range tables {
		for i, question := range pipeQuestions {
			for _, role := range []string{"viewer", "analyst"} {
				for _, parameter := range []string{"", "?pattern=%25", "?pattern=%5C"} {
					if parameter != "" && !strings.Contains(question, "{{") {
						continue
					}
					want := ""
					for n, s := range servers {
						a := s.pipe(fmt.Sprintf("%s%d%s", table, i, parameter), ofOrg(t, role, "birch")...)
						if n == 0 {
							want = visible(a)
							statuses[a.status]++
						}
						require.Equal(t, want, visible(a), "hidden rows of %s show to the %s: %s", table, role, question)
						require.NotContains(t, a.body, "hidden")
						require.Less(t, a.status, http.StatusInternalServerError, "%s: %s", question, a.body)
					}
				}
			}
		}
	}
	t.Logf("answers by status: %v", statuses)
	require.Greater(t, statuses[http.StatusOK], len(pipeQuestions), "most of the questions are answered")
}
