package pipes

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func bindOne(t *testing.T, typ, query, body string) (*Statement, error) {
	t.Helper()
	p, faults, _ := onePipe(t, `SELECT {{x}}`, `{"name": "x", "type": "`+typ+`", "required": true}`)
	require.Empty(t, faults)
	values, err := url.ParseQuery(query)
	require.NoError(t, err)
	return p.Bind(Arguments{Tenant: "0", Query: values, Body: []byte(body)})
}

func TestValuesAreTypedAndBound(t *testing.T) {
	for _, c := range []struct{ typ, query, body, sql, value string }{
		{"string", "x=a%27b", "", "{p_x:String}", "a'b"},
		{"string", "x=a%5Cb%09c%0Ad%00", "", "{p_x:String}", `a\\b\tc\nd\0`},
		{"string", "x=", "", "{p_x:String}", ""},
		{"string", "", `{"x": "\ud83d\ude00"}`, "{p_x:String}", "😀"},
		{"string", "x=lost", `{"x": "wins"}`, "{p_x:String}", "wins"},
		{"number", "x=10", "", "{p_x:Int64}", "10"},
		{"number", "x=-0", "", "{p_x:Int64}", "0"},
		{"number", "", `{"x": 1.10}`, "{p_x:Float64}", "1.10"},
		{"number", "", `{"x": "7"}`, "{p_x:Int64}", "7"},
		{"number", "x=18446744073709551615", "", "{p_x:UInt64}", "18446744073709551615"},
		{"number", "x=-18446744073709551615", "", "{p_x:Int256}", "-18446744073709551615"},
		{"boolean", "x=1", "", "{p_x:Bool}", "true"},
		{"boolean", "", `{"x": false}`, "{p_x:Bool}", "false"},
		{"date", "x=2026-02-28", "", "{p_x:Date}", "2026-02-28"},
		{"date", "x=1950-01-01", "", "{p_x:Date32}", "1950-01-01"},
		{"datetime", "x=2026-03-24T12:00:00.5%2B02:00", "", "{p_x:DateTime64(6, 'UTC')}", "2026-03-24 10:00:00.500000"},
		{"datetime", "x=2026-03-24", "", "{p_x:DateTime64(6, 'UTC')}", "2026-03-24 00:00:00.000000"},
		{"uuid", "x=61F0C404-5cb3-11e7-907b-a6006ad3dba0", "", "{p_x:UUID}", "61f0c404-5cb3-11e7-907b-a6006ad3dba0"},
		{"array(string)", "x=a&x=b%27c", "", "{p_x:Array(String)}", `['a','b\'c']`},
		{"array(string)", `x=["a","b"]`, "", "{p_x:Array(String)}", `['a','b']`},
		{"array(string)", "", `{"x": []}`, "{p_x:Array(String)}", `[]`},
		{"array(number)", "x=1&x=2.5", "", "{p_x:Array(Float64)}", `[1,2.5]`},
		{"array(number)", "", `{"x": [-1, 18446744073709551615]}`, "{p_x:Array(Int256)}", `[-1,18446744073709551615]`},
		{"array(date)", "x=2026-01-01&x=1950-01-01", "", "{p_x:Array(Date32)}", `['2026-01-01','1950-01-01']`},
	} {
		st, err := bindOne(t, c.typ, c.query, c.body)
		if assert.NoError(t, err, "%+v", c) {
			assert.Equal(t, "SELECT "+c.sql, st.SQL)
			assert.Equal(t, map[string]string{"p_x": c.value}, st.Params)
		}
	}
	st, err := bindOne(t, "identifier(a|b.c)", "x=b.c", "")
	require.NoError(t, err)
	assert.Equal(t, "SELECT `b`.`c`", st.SQL)
	assert.Empty(t, st.Params)
}

func TestValuesOfAnotherTypeAreRefused(t *testing.T) {
	for _, c := range []struct{ typ, query, body, want string }{
		{"number", "x=1%20OR%201=1", "", `parameter x: want a number, not "1 OR 1=1"`},
		{"number", "x=1)%3BDROP%20TABLE%20t", "", `parameter x: want a number, not "1);DROP TABLE t"`},
		{"number", "x=", "", `parameter x: want a number, not ""`},
		{"number", "x=NaN", "", `parameter x: want a number, not "NaN"`},
		{"number", "x=0x10", "", `parameter x: want a number, not "0x10"`},
		{"number", "x=%201", "", `parameter x: want a number, not " 1"`},
		{"number", "x=1e999", "", `parameter x: the number 1e999 is out of range`},
		{"number", "x=" + strings.Repeat("9", 78), "", `parameter x: the number 9999999999999999999999999999999999999999999999999999999999999999… is out of range`},
		{"number", "", `{"x": true}`, `parameter x: want a number, not true`},
		{"number", "x=1&x=2", "", `parameter x: it is given 2 times`},
		{"string", "", `{"x": {"a": 1}}`, `parameter x: want a string, not an object`},
		{"string", "", `{"x": 5}`, `parameter x: want a string, not the number 5`},
		{"string", "", `{"x": ["a"]}`, `parameter x: want a string, not an array`},
		{"boolean", "x=yes", "", `parameter x: want true or false, not "yes"`},
		{"boolean", "", `{"x": 1}`, `parameter x: want true or false, not the number 1`},
		{"date", "x=2026-2-3", "", `parameter x: want a date like 2026-03-24, not "2026-2-3"`},
		{"date", "x=1899-12-31", "", `parameter x: the date 1899-12-31 is out of range: want 1900-01-01 to 2299-12-31`},
		{"datetime", "x=noon", "", `parameter x: want a time like 2026-03-24T12:00:00Z, not "noon"`},
		{"datetime", "x=2300-01-01T00:00:00Z", "", `parameter x: the time "2300-01-01T00:00:00Z" is out of range: want the years 1900 to 2299`},
		{"uuid", "x=61f0c404", "", `parameter x: want a UUID, not "61f0c404"`},
		{"array(number)", "x=1&x=a", "", `parameter x: element 2: want a number, not "a"`},
		{"array(string)", "", `{"x": "a"}`, `parameter x: want an array, not "a"`},
		{"identifier(a|b)", "x=c", "", `parameter x: want one of a, b, not "c"`},
		{"identifier(a|b)", "x=a`", "", "parameter x: want one of a, b, not \"a`\""},
		{"string", "", `{"x": "a\ud800"}`, `half of a surrogate pair`},
		{"array(string)", "", `{"x": ["\udc00\ud800"]}`, `half of a surrogate pair`},
		{"array(string)", "x=" + url.QueryEscape(`["\ud800"]`), "", `parameter x: a string holds half of a surrogate pair`},
		{"string", "x=%ED%A0%80", "", `parameter x: the text is not valid UTF-8`},
		{"array(string)", "x=a&x=%FF", "", `parameter x: element 2: the text is not valid UTF-8`},
		{"string", "", `[1]`, `the body is not a JSON object of parameters: `},
		{"string", "", `{"x": "a", "x": "b"}`, `the body is not a JSON object of parameters: `},
		{"string", "y=1&x=a", "", `unknown parameter "y": this pipe has x`},
		{"string", "", `{"y": 1}`, `unknown parameter "y": this pipe has x`},
		{"string", "x=" + strings.Repeat("a", 64<<10+1), "", `parameter x: the value is longer than 65536 bytes`},
	} {
		_, err := bindOne(t, c.typ, c.query, c.body)
		var refusal *Error
		if assert.ErrorAs(t, err, &refusal, "%+v", c) {
			assert.Equal(t, CodeInvalid, refusal.Code)
			assert.Contains(t, refusal.Message, c.want)
		}
	}
	for _, given := range []string{"", `{"x": null}`} {
		_, err := bindOne(t, "string", "", given)
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, Error{Code: CodeMissing, Parameter: "x", Message: "the parameter x is missing"}, *refusal)
	}
}

func TestDefaults(t *testing.T) {
	p, faults, _ := onePipe(t, `SELECT {{a}}, {{a:z}}, {{b:5}}, {{c}}, {{d}}, {{e:[1,2]}}`,
		`{"name": "a", "type": "string", "default": "y"}, {"name": "b", "type": "number"}, {"name": "c", "type": "date"},
		 {"name": "d", "type": "array(uuid)"}, {"name": "e", "type": "array(number)"}`)
	require.Empty(t, faults)
	st, err := p.Bind(Arguments{})
	require.NoError(t, err)
	assert.Equal(t, "SELECT {p_a:String}, {d1_a:String}, {d2_b:Int64}, {p_c:Nullable(Date32)}, {p_d:Array(UUID)}, {d5_e:Array(Int64)}", st.SQL)
	assert.Equal(t, map[string]string{"p_a": "y", "d1_a": "z", "d2_b": "5", "p_c": `\N`, "p_d": "[]", "d5_e": "[1,2]"}, st.Params)
	assert.Equal(t, "SELECT '', '', 1, '', [], []", st.Shape)
	st, err = p.Bind(Arguments{Query: url.Values{"a": {"x"}, "b": {"1"}}})
	require.NoError(t, err)
	assert.Equal(t, "SELECT {p_a:String}, {p_a:String}, {p_b:Int64}, {p_c:Nullable(Date32)}, {p_d:Array(UUID)}, {d4_e:Array(Int64)}", st.SQL)
}

func TestClaimsAndTenant(t *testing.T) {
	p, faults, _ := onePipe(t, `SELECT {{ tenant }}, {{ jwt.sub }}, {{jwt.app.orgs}}, {{ jwt.n }}, {{ jwt."https://x/y.z" }}`, "")
	require.Empty(t, faults)
	claims := map[string]any{"sub": `u'1\`, "n": json.Number("5"), "app": map[string]any{"orgs": []any{"a", "b'"}}, "https://x/y.z": "url", "app.orgs": "forged"}
	st, err := p.Bind(Arguments{Tenant: "birch", Claims: claims})
	require.NoError(t, err)
	assert.Equal(t, "SELECT {wh_tenant:String}, {wh_claim_1:String}, {wh_claim_2:Array(String)}, {wh_claim_3:Int64}, {wh_claim_4:String}", st.SQL)
	assert.Equal(t, map[string]string{
		"wh_tenant": "birch", "wh_claim_1": `u'1\\`, "wh_claim_2": `['a','b\'']`, "wh_claim_3": "5", "wh_claim_4": "url",
	}, st.Params)
	for _, bad := range []map[string]any{
		nil, {"sub": nil}, {"sub": map[string]any{}, "n": json.Number("5")}, {"sub": "u", "app": "x", "n": json.Number("5")},
		{"sub": "u", "app": map[string]any{"orgs": []any{"a", json.Number("1")}}, "n": json.Number("5")},
		{"sub": "", "app": map[string]any{"orgs": "a"}, "n": json.Number("5")},
		{"sub": "u", "app": map[string]any{"orgs": []any{}}, "n": json.Number("5")},
		{"sub": "u", "app": map[string]any{"orgs": []any{"a", ""}}, "n": json.Number("5")},
		{"sub": "u", "app": map[string]any{"orgs": []any{map[string]any{}}}, "n": json.Number("5")},
	} {
		_, err := p.Bind(Arguments{Claims: bad})
		var refusal *Error
		require.ErrorAs(t, err, &refusal, "%v", bad)
		assert.Equal(t, CodeClaim, refusal.Code)
	}
}
