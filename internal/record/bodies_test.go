package record

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a body becomes is judged here; the answers over HTTP are judged where
// those are made.

func TestTwoObjectsOnOneLine(t *testing.T) {
	all := decodeAll(t, pages(), NDJSON, `{"event_id":"a1","page":"/x"}{"event_id":"a2","page":"/y"}`+"\n"+`{"event_id":"a3","page":"/z"}`, DecodeOptions{})
	assert.Equal(t, []string{CodeMalformed, ""}, codes(all))
	assert.Contains(t, all[0].Err.Message, "extra data")
	assert.Equal(t, `{"event_id":"a3","page":"/z"}`, all[1].JSON)
}

func TestArrayCutOff(t *testing.T) {
	body := `[{"event_id":"b1","page":"/1"},{"event_id":"b2","page":"/2"}`
	assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, body))
	assert.Len(t, decodeAll(t, pages(), JSON, body+"]", DecodeOptions{}), 2)
	for _, cut := range []string{"[", `[{"event_id":"b1`, `[{"event_id":"b1"`, body + "]]", body + "] x", body + "}", `[{"page":"]"}`, `{"page":"/1"`, `{"page":"/1"} {}`, "5", "nul", `"x"`} {
		assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, cut), cut)
	}
}

func TestElementsThatAreNoObjects(t *testing.T) {
	all := decodeAll(t, pages(), JSON, `[{"event_id":"d1","page":"/1"}, 5, null, [], "x", {"event_id":"d2","page":"/2"}]`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeMalformed, CodeMalformed, CodeMalformed, CodeMalformed, ""}, codes(all))
	assert.Equal(t, 6, all[5].Index)
	assert.Equal(t, `{"event_id":"d2","page":"/2"}`, all[5].JSON)
}

func TestEmptyBodiesAndBatches(t *testing.T) {
	for _, body := range []string{"", "\n \n", "\xEF\xBB\xBF", " \r\n\t"} {
		assert.Equal(t, CodeBodyEmpty, bodyCode(t, JSON, body))
		assert.Equal(t, CodeBodyEmpty, bodyCode(t, NDJSON, body))
	}
	for _, body := range []string{"[]", " [ ] \n"} {
		assert.Empty(t, decodeAll(t, pages(), JSON, body, DecodeOptions{}))
	}
}

func TestByteOrderMark(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	one := decodeAll(t, pages(), JSON, mark+`{"event_id":"e1","page":"/bom"}`, DecodeOptions{})
	require.Len(t, one, 1)
	assert.Equal(t, `{"event_id":"e1","page":"/bom"}`, one[0].JSON)
	two := decodeAll(t, pages(), NDJSON, mark+`{"event_id":"e1","page":"/1"}`+"\n"+`{"event_id":"e2","page":"/2"}`, DecodeOptions{})
	assert.Equal(t, []string{"", ""}, codes(two))
	later := decodeAll(t, pages(), NDJSON, `{"event_id":"e1","page":"/1"}`+"\n"+mark+`{"event_id":"e2","page":"/2"}`, DecodeOptions{})
	assert.Equal(t, []string{"", CodeMalformed}, codes(later))
}

func TestRepeatedKey(t *testing.T) {
	table := Compile("m", columns("event_id String", "org String DEFAULT ''", "m Map(String, UInt8) DEFAULT map()"), time.UTC)
	for _, body := range []string{
		`{"event_id":"n1","org":"cedar","org":"birch"}`, `{"event_id":"n1","org":"birch","org":"cedar"}`, `{"event_id":"n1","org":"birch","\u006frg":"cedar"}`,
		`{"event_id":"n1","m":{"a":1,"b":2,"a":3}}`, `{"event_id":"n1","org":null,"org":"birch"}`,
	} {
		all := decodeAll(t, table, JSON, body, DecodeOptions{})
		require.Equal(t, []string{CodeDuplicateColumn}, codes(all), body)
		assert.NotEmpty(t, all[0].Err.Column)
	}
}

func TestHalfASurrogatePair(t *testing.T) {
	for _, bad := range []string{`\ud83d`, `\ude00`, `\ud83dx`, `\ud83d\n`, `\ud83d\ud83d`, `\ud83d\u0041`, `\ud83d\u`} {
		all := decodeAll(t, pages(), NDJSON, `{"event_id":"p1","page":"`+bad+`"}`, DecodeOptions{})
		assert.Equal(t, []string{CodeMalformed}, codes(all), bad)
	}
	all := decodeAll(t, pages(), JSON, `{"event_id":"p2","page":"\ud83d\ude00"}`, DecodeOptions{})
	require.Equal(t, []string{""}, codes(all))
	assert.Equal(t, "\x02p2\x04\xF0\x9F\x98\x80", string(all[0].Row))
}

func TestBytesThatAreNotUTF8(t *testing.T) {
	for _, bad := range []string{"ab\xFFc", "\xED\xA0\x80", "\xC0\xAF", "\xE2\x82", "12345678\xFF12345678"} {
		all := decodeAll(t, pages(), NDJSON, `{"event_id":"q1","page":"`+bad+`"}`, DecodeOptions{})
		require.Equal(t, []string{CodeMalformed}, codes(all))
		assert.Contains(t, all[0].Err.Message, "UTF-8")
	}
}

func TestDeepNestingAndAbsurdNumbers(t *testing.T) {
	deep := strings.Repeat("[", 200_000)
	assert.Equal(t, CodeBodyMalformed, bodyCode(t, JSON, `{"event_id":"r1","page":`+deep))
	closed := deep + strings.Repeat("]", 200_000)
	for _, body := range []string{
		`{"event_id":"r1","page":` + closed + `}`, `{"event_id":"r2","n":1e999999999}`, `{"event_id":"r3","n":` + strings.Repeat("9", 100_000) + `}`, `{"event_id":"r4","n":0.` + strings.Repeat("0", 100_000) + `1}`,
	} {
		all := decodeAll(t, pages(), NDJSON, body+"\n"+`{"event_id":"ok","page":"/"}`, DecodeOptions{})
		require.Len(t, all, 2)
		assert.NotNil(t, all[0].Err)
		assert.Nil(t, all[1].Err)
		assert.Less(t, len(all[0].Err.Message), 300)
		assert.Len(t, decodeAll(t, pages(), JSON, "["+body+"]", DecodeOptions{}), 1)
	}
	nested := func(n int) string {
		return `{"event_id":"r5","page":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	all := decodeAll(t, pages(), NDJSON, nested(63)+"\n"+nested(64), DecodeOptions{})
	assert.Equal(t, []string{CodeTypeMismatch, CodeMalformed}, codes(all))
	assert.Contains(t, all[1].Err.Message, "deeper than 64")
}

func TestWindowsLinesAndBlankLines(t *testing.T) {
	all := decodeAll(t, pages(), NDJSON, `{"event_id":"s1","page":"/1"}`+"\r\n\r\n   \r\n"+`{"event_id":"s2","page":"/2"}`+"\r\n"+`{"event_id":"s3","page":"/3"}`, DecodeOptions{})
	assert.Equal(t, []string{"", "", ""}, codes(all))
	for i, r := range all {
		assert.Equal(t, i+1, r.Index)
	}
}

func TestRecordThatIsTooLarge(t *testing.T) {
	line := func(page string) string { return `{"event_id":"t","page":"` + page + `"}` + "\n" }
	all := decodeAll(t, pages(), NDJSON, line("/1")+line(strings.Repeat("x", 3<<20))+line("/3"), DecodeOptions{})
	assert.Equal(t, []string{"", CodeTooLarge, ""}, codes(all))
	assert.Contains(t, all[1].Err.Message, "524288 bytes")
	all = decodeAll(t, pages(), NDJSON, line("123456")+line("1234567"), DecodeOptions{MaxRecordBytes: 9})
	assert.Equal(t, []string{"", CodeTooLarge}, codes(all))
}

// Memory must not grow with what a body only promises.
func TestRefusedBodiesHoldNoMemory(t *testing.T) {
	body := "[" + strings.Repeat("1,", 1<<17) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := pages().NewDecoder(JSON, []byte(body), DecodeOptions{})
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*len(body)))
	n := 0
	for d.Next() {
		n++
		require.NotNil(t, d.Record().Err)
	}
	assert.Equal(t, 1<<17+1, n)
}
