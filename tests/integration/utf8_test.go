package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever bytes ClickHouse holds, what is sent as JSON is JSON, which is UTF-8.
func TestJSONAnswersAreUTF8(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE bytes (id UInt32, s String, f FixedString(3), n LowCardinality(Nullable(String)), a Array(String),
		m Map(String, String), p Tuple(inner String, plain UInt8), v Variant(String, UInt8), d Dynamic, e Enum8('a\xFF' = 1, 'ü' = 2),
		state AggregateFunction(uniq, UInt32), `+"`col\\xFF`"+` UInt8) ENGINE = MergeTree ORDER BY id
		SETTINGS allow_suspicious_low_cardinality_types = 1`)
	const values = ` SELECT number + 10, x, substring(x, 1, 3), x, [x, 'é'], map(x, x), (x, 1), x::Variant(String, UInt8), x::Dynamic, 1, uniqState(toUInt32(number)), 2 FROM`
	s.ch.Exec(t, `INSERT INTO bytes`+strings.Replace(values, "number + 10", "number", 1)+` (SELECT number, arrayElement([unhex('61FF62'), unhex('C3'), unhex('EDA080'),
		unhex('F4908080'), unhex('C0AF'), unhex('E282'), '€𐍈', 'plain', '', '"\\\n\0'], number + 1) AS x FROM numbers(10)) GROUP BY number, x`)
	s.adopt(pipesFile("bytes", `"sql":"SELECT * FROM bytes"`))
	for route, ask := range map[string]func(accept string) answer{
		"query":       func(accept string) answer { return s.query("bytes", `{"select_all":true}`, "Accept", accept) },
		"pipe":        func(accept string) answer { return s.pipe("bytes", "Accept", accept) },
		"ops":         func(accept string) answer { return s.opsSQL("SELECT * FROM bytes", "Accept", accept) },
		"own format":  func(string) answer { return s.opsSQL("SELECT * FROM bytes FORMAT JSONEachRow") },
		"own compact": func(string) answer { return s.opsSQL("SELECT * FROM bytes FORMAT JSONCompactEachRow") },
		"own objects": func(string) answer { return s.opsSQL("SELECT * FROM bytes FORMAT JSON") },
	} {
		for _, accept := range []string{"application/json", ndjson} {
			a := ask(accept)
			require.Equal(t, http.StatusOK, a.status, "%s: %s", route, a.body)
			require.True(t, utf8.ValidString(a.body), "%s as %s is not UTF-8", route, accept)
			values := json.NewDecoder(strings.NewReader(a.body))
			for values.More() {
				var value any
				require.NoError(t, values.Decode(&value), "%s as %s: %s", route, accept, a.body)
			}
		}
	}
	a := s.query("bytes", `{"columns":["s","f","m","p","e","state"],"order_by":[{"column":"id"}],"limit":1}`)
	assert.Equal(t, "[\n{\"s\":\"a\ufffdb\",\"f\":\"a\ufffdb\",\"m\":{\"a\ufffdb\":\"a\ufffdb\"},\"p\":{\"inner\":\"a\ufffdb\",\"plain\":1},\"e\":\"a\ufffd\",\"state\":\""+
		s.ch.Value(t, "SELECT hex(state) FROM bytes ORDER BY id LIMIT 1")+"\"}\n]\n", a.body)

	// The bytes themselves are in CSV and TSV.
	for accept, want := range map[string]string{"text/csv": "\"s\"\n\"a\xffb\"\n", "text/tab-separated-values": "s\na\xffb\n"} {
		a = s.query("bytes", `{"columns":["s"],"order_by":[{"column":"id"}],"limit":1}`, "Accept", accept)
		assert.Equal(t, want, a.body)
		assert.Equal(t, accept, a.header.Get("Content-Type"), "no charset is claimed")
	}
	a = s.opsSQL("SELECT s FROM bytes ORDER BY id LIMIT 1 FORMAT CSV")
	assert.NotContains(t, strings.ToLower(a.header.Get("Content-Type")), "charset", a.header.Get("Content-Type"))

	// Errors quote values.
	a = s.opsSQL("SELECT CAST(concat(s, 'x') AS UInt8) FROM bytes ORDER BY id")
	require.Equal(t, http.StatusBadRequest, a.status)
	assert.True(t, utf8.ValidString(a.body) && json.Valid([]byte(a.body)), a.body)

	// Answers that are passed on, of random bytes.
	s.ch.Exec(t, `INSERT INTO bytes`+values+` (SELECT number, randomString(rand() % 200) AS x FROM numbers(8000)) GROUP BY number, x`)
	for _, accept := range []string{"application/json", ndjson} {
		a = s.query("bytes", `{"select_all":true,"order_by":[{"column":"id"}]}`, "Accept", accept)
		require.Greater(t, len(a.body), 8<<20)
		require.True(t, utf8.ValidString(a.body))
		if accept == "application/json" {
			require.Len(t, decode[[]map[string]any](t, a), 8010)
		}
	}
}

// What is streamed is what was accepted, which is UTF-8: names of an Enum are the one
// thing in it that ClickHouse has.
func TestStreamedJSONIsUTF8(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE named (id UInt32, e Enum8('a\xFF' = 1, 'ü' = 2), f FixedString(4)) ENGINE = MergeTree ORDER BY id`)
	l := s.listen("named", "")
	b := s.ingestLines("named", `{"id":1,"e":1,"f":"ü"}`+"\n"+`{"id":2,"e":2,"f":"é"}`)
	require.Equal(t, 2, b.Succeeded, "%+v", b.Results)
	for _, row := range l.rows(2) {
		assert.True(t, utf8.ValidString(string(row)) && json.Valid(row), "%q", row)
	}
}
