package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const peopleTable = `CREATE TABLE people (id String, org String, email String, attrs Map(String, String), point Tuple(x Int64, inner Tuple(name String, age Int8)), nums Array(Int64),
	members Array(Tuple(id Int64, email String)), payload JSON(at DateTime64(3, 'UTC'))) ENGINE = MergeTree ORDER BY id`

// peopleDenied are paths that the reader of people may not see.
const peopleDenied = `"attrs.secret", "point.inner.age", "members.email", "payload.user.email", "payload.token"`

// person is a row whose denied parts hold the secret.
func person(i int, secret string) string {
	return fmt.Sprintf(`{"id":"k%d","org":"birch","email":"ann@example.com","attrs":{"key":"v%d","secret":"%s","a b":""},"point":{"x":%d,"inner":{"name":"red","age":%d}},"nums":[%d,0],`+
		`"members":[{"id":%d,"email":"%s"}],"payload":{"user":{"name":"u%d","email":"%s"},"token":%s,"n":%d,"at":"2026-01-01 00:00:00"}}`,
		i, i%3, secret, i%2, len(secret), i, i%2, secret, i%3, secret, map[bool]string{true: `{"deep":"hidden"}`, false: `"hidden"`}[len(secret) > 10], i%4)
}

// peopleParts are references, of which some are denied in one spelling or other.
var peopleParts = []string{
	"id", "email", "attrs.key", `attrs["a b"]`, "nums[1]", "nums", "point.x", "point.inner.name", "point[1]", "members.id", "members[1].id", "payload.user.name", "payload.n", "payload.at",
	"attrs", "attrs.secret", `attrs["secret"]`, `attrs["\u0073ecret"]`, "attrs.SECRET", "point", "point.inner", "point[2]", "point.inner.age", "point[2][2]", "point.2.2", "members", "members[1]", "members.email", "members[1].email", "members[-1][2]", "members.2",
	"payload", "payload.user", `payload["user.email"]`, "payload.user.email", "payload.User.Email", "payload.^user", "payload[\"^`user`\"]", "payload[\"user.email.:`String`\"]", "payload.token", "payload.token.deep", `payload["token[]"]`, "payload.@token", "attrs.keys", "attrs.values", "members.size0",
}

// TestAnswersDoNotDependOnDeniedPaths: random documents over two tables that
// differ in what is denied, and in nothing else, are answered alike.
func TestAnswersDoNotDependOnDeniedPaths(t *testing.T) {
	t.Parallel()
	seed := oracleSeed.draw(t)
	random := rand.New(rand.NewPCG(seed, 7))
	var servers []*server
	for _, secret := range []string{"hidden", "hidden-and-longer"} {
		s := start(t, options{policies: `{"default_role":"public","tables":{"people":{"public":{"select":{"deny_columns":[` + peopleDenied + `]}}}}}`}, peopleTable)
		for i := range 20 {
			s.operator("people", person(i, secret))
		}
		s.stored("people", 20)
		servers = append(servers, s)
	}
	values := []string{`"hidden"`, `"hidden-and-longer"`, `"v1"`, `"%hidden%"`, `1`, `0`, `6`, `17`, `true`, `"red"`, `"email"`, `"secret"`}
	for name := range oracleColumns {
		values = append(values, oracleColumns[name]...)
	}
	statuses := map[int]int{}
	column := func() string {
		if random.IntN(4) > 0 {
			return pick(random, peopleParts[:14]...) // those that are not denied
		}
		return pick(random, peopleParts...)
	}
	asked := map[string]bool{}
	for range *oracleDocuments {
		doc := map[string]any{"columns": []string{column()}, "order_by": []any{map[string]any{"column": "id"}}}
		switch random.IntN(4) {
		case 0:
			name := column()
			doc = map[string]any{"aggregations": []any{map[string]any{"fn": pick(random, "count", "max", "min", "count_distinct"), "column": column()}}, "columns": []string{name}, "group_by": []string{name}}
			if random.IntN(2) == 0 {
				doc["order_by"] = []any{map[string]any{"column": name}}
			}
		case 1:
			doc = map[string]any{"select_all": true, "order_by": []any{map[string]any{"column": column()}, map[string]any{"column": "id"}}}
		}
		var filters []any
		for range random.IntN(3) {
			filters = append(filters, pathFilter(random, column, values, 2))
		}
		if filters != nil {
			doc["filters"] = filters
		}
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		if asked[string(body)] {
			continue // an answer in the cache is as old as its question
		}
		asked[string(body)] = true
		var answers []string
		for _, s := range servers {
			a := s.query("people", string(body))
			if len(answers) == 0 {
				statuses[a.status]++
			}
			// How long one server keeps an answer, which another document may have
			// brought, follows how long its query took there.
			a.header.Del("X-Cache")
			told := visible(a)
			if doc["group_by"] != nil && doc["order_by"] == nil && a.status == http.StatusOK {
				told = fmt.Sprint(a.status, len(a.body)) // groups come in any order
			}
			answers = append(answers, told)
			require.NotContains(t, strings.ReplaceAll(a.body, `\"`, ""), `:"hidden`, "%s", body)
		}
		require.Equal(t, answers[0], answers[1], "-oracle.seed=%d: %s", seed, body)
	}
	t.Logf("answers by status: %v", statuses)
	require.Greater(t, statuses[http.StatusOK], *oracleDocuments/20)
	require.Greater(t, statuses[http.StatusForbidden], *oracleDocuments/20)
}

// pathFilter draws conditions over references.
func pathFilter(random *rand.Rand, column func() string, values []string, depth int) any {
	if depth > 0 && random.IntN(3) == 0 {
		group := []any{pathFilter(random, column, values, depth-1), pathFilter(random, column, values, depth-1)}
		return map[string]any{pick(random, "and", "or"): group}
	}
	value := json.RawMessage(pick(random, values...))
	f := map[string]any{"column": column(), "value": value, "op": pick(random, "eq", "neq", "gt", "lte", "in", "like", "ilike", "starts_with", "contains", "contains_any", "is_null", "is_not_null")}
	switch f["op"] {
	case "in", "contains_any":
		f["value"] = []json.RawMessage{value}
	case "is_null", "is_not_null":
		delete(f, "value")
	}
	return f
}

// A column of which a part is denied is not streamed, nor in the types that are
// generated for the role; its other parts can be asked for.
func TestAColumnWithADeniedPathIsWithheld(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"people":{"public":{"select":{"deny_columns":[` + peopleDenied + `]}}}}}`}, peopleTable)
	l := s.listen("people", "")
	s.operator("people", person(1, "hidden"))
	assert.JSONEq(t, `{"id":"k1","org":"birch","email":"ann@example.com","nums":[1,0]}`, string(l.rows(1)[0]))
	s.stored("people", 1)
	assert.JSONEq(t, `{"id":"k1","org":"birch","email":"ann@example.com","nums":[1,0]}`, string(s.rows("people", `{"select_all":true}`)[0]))
	assert.JSONEq(t, `{"attrs.key":"v1","point.inner.name":"red","members.id":[1],"payload.user.name":"u1"}`,
		string(s.rows("people", `{"columns":["attrs.key","point.inner.name","members.id","payload.user.name"]}`)[0]))
	types := s.ops(http.MethodGet, "/v1/ops/types?role=public", "")
	require.Equal(t, http.StatusOK, types.status)
	assert.Contains(t, types.body, `"nums"`)
	for _, column := range []string{"attrs", "point", "members", "payload"} {
		assert.NotContains(t, types.body, `"`+column+`"`)
		refused(t, s.query("people", `{"columns":["`+column+`"]}`), http.StatusForbidden, "query.column_not_allowed")
	}
}
