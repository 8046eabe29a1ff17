package query_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// parted is a table whose columns have parts, in the types that have some.
func parted() *schema.Table {
	return tableOf("t", nil, "id", "String", "attrs", "Map(String, String)", "nums", "Map(UInt16, String)", "colors", "Map(Enum8('red' = 1, 'blue' = 2), String)",
		"person", "Tuple(name String, email String, home Tuple(street String, city String))", "rows", "Array(Tuple(id Int32, email String))", "nested", "Nested(a Int8, b String)",
		"tags", "Array(String)", "payload", "JSON(user.id UInt32, who Tuple(name String, age Int8), objs Array(JSON))", "docs", "Map(String, JSON)", "loc", "Point", "plain", "String", "a.b", "String", "a", "Map(String, String)")
}

func TestADeniedPathIsDeniedInEverySpelling(t *testing.T) {
	for _, c := range []struct {
		denied           string
		refused, allowed []string
	}{
		{`attrs.secret`,
			[]string{`attrs`, `attrs.secret`, `attrs["secret"]`, `attrs["\u0073ecret"]`, `attrs.Secret`, `attrs["SECRET"]`, `attrs.secret.x`, `attrs["secret"][1]`, `attrs["secret`, `attrs.`, `attrs[0]`},
			[]string{`attrs.page`, `attrs["secret "]`, `attrs["a.b"]`, `attrs["secret.x"]`, `id`}},
		{`attrs["a.b"]`, []string{`attrs`, `attrs["a.b"]`, `attrs["A.b"]`}, []string{`attrs.a`, `attrs["a"]`}},
		{`attrs.a.b`, []string{`attrs`, `attrs.a`, `attrs["a.b"]`, `attrs.page`}, []string{`id`}}, // names nothing that there is: no part of the column is read
		{`attrs["x`, []string{`attrs`, `attrs.x`, `attrs.page`}, []string{`id`}},
		{`nums[7]`, []string{`nums`, `nums[7]`, `nums.7`, `nums["7"]`, `nums["+7"]`, `nums["07"]`, `nums["7.0"]`}, []string{`nums[8]`}},
		{`nums.7`, []string{`nums[7]`, `nums["7"]`}, []string{`nums[70]`}},
		{`colors.red`, []string{`colors`, `colors.red`, `colors[1]`, `colors["1"]`}, []string{`colors.blue`, `colors[2]`}},
		{`colors[1]`, []string{`colors.red`, `colors["red"]`}, []string{`colors.blue`}},
		{`person.email`, []string{`person`, `person.email`, `person[2]`, `person.2`, `person["email"]`, `person["2"]`, `person.Email`, `person.nope`}, []string{`person.name`, `person[1]`, `person.home`, `person.home.city`}},
		{`person[2]`, []string{`person`, `person.email`, `person[2]`}, []string{`person.name`}},
		{`person.home.street`, []string{`person`, `person.home`, `person[3]`, `person.home.street`, `person.home[1]`, `person[3][1]`, `person.3.1`}, []string{`person.home.city`, `person[3].city`, `person.email`}},
		{`person.home`, []string{`person`, `person.home`, `person.home.street`, `person[3].city`}, []string{`person.name`}},
		{`rows.email`, []string{`rows`, `rows[1]`, `rows[-1]`, `rows.email`, `rows[1].email`, `rows[-2][2]`, `rows.2`, `rows["email"]`, `rows.email[1]`}, []string{`rows.id`, `rows[1].id`, `rows.id[2]`, `rows.1`}},
		{`rows[1].email`, []string{`rows`, `rows[1]`, `rows[2].email`, `rows.email`}, []string{`rows.id`}},
		{`nested.b`, []string{`nested`, `nested.b`, `nested[1].b`, `nested[1]`}, []string{`nested.a`, `nested[1].a`}},
		{`tags[1]`, []string{`tags`, `tags[1]`, `tags[2]`, `tags[-1]`}, []string{`id`}},
		{`payload.user.email`,
			[]string{`payload`, `payload.user`, `payload["user"]`, `payload.user.email`, `payload["user.email"]`, `payload.user["email"]`, `payload.USER.Email`, `payload.user.email.domain`, "payload[\"^`user`\"]", `payload.^user`, `payload["^user"].email`, "payload[\"user.email.:`String`\"]", `payload["user[].email"]`, `payload.@user`},
			[]string{`payload.user.id`, `payload.user.name`, `payload.users`, `payload.who.name`, `payload.email`}},
		{`payload["user.email"]`, []string{`payload.user.email`, `payload.user`}, []string{`payload.user.name`}},
		{`payload.user`, []string{`payload.user`, `payload.user.id`, `payload.user.name.first`, `payload`}, []string{`payload.other`}},
		{`payload.who.age`, []string{`payload`, `payload.who`, `payload.who.age`, `payload.who[2]`}, []string{`payload.who.name`, `payload.who[1]`, `payload.user.id`}},
		{`payload.objs.a`, []string{`payload.objs`, `payload.objs[1].a`, `payload.objs[-1]["a"]`, `payload.objs[1].a.b`, `payload.objs[1]`}, []string{`payload.objs[1].b`, `payload.x`}},
		{`payload.items[1].a`, []string{`payload.items`, `payload.items.a`, `payload`}, []string{`payload.x`}},
		{`docs.d.x`, []string{`docs`, `docs.d`, `docs.d.x`, `docs["d"]["x"]`, `docs.d["x.y"]`}, []string{`docs.d.y`, `docs.e`}},
		{`loc[1]`, []string{`loc`, `loc[1]`, `loc.1`}, []string{`loc[2]`}},
		{`a.b`, []string{`a.b`, `a`, `a["b"]`}, []string{`a.c`}}, // both of which it is the name
		{`plain.x`, []string{`plain`, `plain.x`}, []string{`id`}},
		{`attrs`, []string{`attrs`, `attrs.x`}, []string{`id`}},
	} {
		grant := grantOf(t, policy.SelectDocument{DenyColumns: []string{c.denied}})
		for _, body := range []string{
			`{"columns":[%]}`, `{"columns":["id"],"filters":[{"column":%,"op":"is_null"}]}`, `{"columns":["id"],"filters":[{"or":[{"not":{"column":%,"op":"eq","value":"x"}}]}]}`,
			`{"aggregations":[{"fn":"count","column":%}]}`, `{"aggregations":[{"fn":"arg_max","column":"id","by":%}]}`, `{"aggregations":[{"fn":"count","where":[{"column":%,"op":"is_null"}]}]}`, `{"aggregations":[{"fn":"count"}],"group_by":[%]}`, `{"columns":["id"],"group_by":["id",%],"having":[{"column":%,"op":"is_null"}]}`,
			`{"columns":["id"],"order_by":[{"column":%}]}`, `{"columns":["id"],"time_range":{"column":%,"since":"1h"}}`, `{"columns":["id"],"time_bucket":{"column":%,"every":"1h"}}`,
		} {
			for _, reference := range c.refused {
				name, err := json.Marshal(reference)
				require.NoError(t, err)
				_, err = build(parted(), grant, strings.ReplaceAll(body, "%", string(name)))
				if e := asError(t, err); assert.Equal(t, query.CodeColumnNotAllowed, e.Code, "%s with %s denied: %s", reference, c.denied, e.Message) {
					assert.Contains(t, e.Message, "there is no column", "what is denied and what is not there are answered alike")
				}
			}
		}
		for _, reference := range c.allowed {
			name, err := json.Marshal(reference)
			require.NoError(t, err)
			_, err = build(parted(), grant, `{"columns":[`+string(name)+`]}`)
			assert.NoError(t, err, "%s with %s denied", reference, c.denied)
		}
	}
}

func TestSelectAllLeavesOutAColumnOfWhichAPartIsDenied(t *testing.T) {
	s, err := build(parted(), grantOf(t, policy.SelectDocument{DenyColumns: []string{"attrs.secret", "payload.user.email", "person[2]"}}), `{"select_all":true}`)
	require.NoError(t, err)
	for _, name := range []string{"attrs", "payload", "person"} {
		assert.NotContains(t, s.SQL, name)
	}
	assert.Contains(t, s.SQL, "`docs`")
	grant := grantOf(t, policy.SelectDocument{AllowColumns: []string{"attrs", "id"}, DenyColumns: []string{"attrs.secret", "id"}})
	_, err = build(parted(), grant, `{"select_all":true}`)
	assert.Error(t, err, "it reads nothing")
	_, err = build(parted(), grant, `{"columns":["attrs.page"]}`)
	assert.NoError(t, err)
	for _, reference := range []string{"person.name", "docs.d"} {
		_, err = build(parted(), grant, `{"columns":["`+reference+`"]}`)
		assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code, "a part of a column that is not allowed")
	}
}

// ClickHouse reads payload.secret as the column of that name, should there be one.
func TestAPartIsNeverReadAsAnotherColumn(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE doubled (k UInt8, payload JSON, `payload.secret` String, pair Tuple(a Int8)) ENGINE = MergeTree ORDER BY k",
		`INSERT INTO doubled FORMAT JSONEachRow {"k":1,"payload":{"secret":"open","n":1},"payload.secret":"hidden-value","pair":{"a":1}}`)
	table := e.describe(t, "doubled")
	grant := grantOf(t, policy.SelectDocument{AllowColumns: []string{"k", "payload", "pair"}})
	assert.Equal(t, []string{`{"payload[\"secret\"]":"open","payload.n":1,"pair[1]":1}`}, e.rows(t, table, grant, `{"columns":["payload[\"secret\"]","payload.n","pair[1]"]}`))
	_, err := build(table, grant, `{"columns":["payload.secret"]}`)
	assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code, "an exact name wins")
}
