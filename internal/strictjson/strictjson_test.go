package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type inner struct {
	Rows *int           `json:"max_rows"`
	Wait *time.Duration `json:"max_wait"`
}

type even int

func (e *even) UnmarshalStrict(raw json.RawMessage) error {
	var n int
	if err := json.Unmarshal(raw, &n); err != nil || n%2 != 0 {
		return errors.New("want an even number")
	}
	*e = even(n)
	return nil
}

type document struct {
	Name    string            `json:"name"`
	On      bool              `json:"on"`
	Count   int               `json:"count"`
	Small   int8              `json:"small"`
	Big     uint64            `json:"big"`
	Ratio   float64           `json:"ratio"`
	Exact   json.Number       `json:"exact"`
	Raw     json.RawMessage   `json:"raw"`
	Any     any               `json:"any"`
	Labels  map[string]string `json:"labels"`
	Tables  map[string]inner  `json:"tables"`
	List    []inner           `json:"list"`
	Even    even              `json:"even"`
	Wait    time.Duration     `json:"wait"`
	Minutes time.Duration     `json:"minutes"`
	Bytes   int64             `json:"bytes"`
	Hidden  string            `json:"-"`
}

// decode reads a document whose numbers have units.
func decode(text string, d *document) []Fault {
	units := map[string]string{"minutes": "m", "bytes": "GB", "tables.*.max_wait": "s", "list[].max_wait": "s"}
	doc, faults := Parse([]byte(text))
	return append(faults, doc.Decode(d, Rules{Unit: func(place string) string { return units[place] }})...)
}

func TestDecodeReadsEveryKind(t *testing.T) {
	d := document{Name: "kept", Ratio: 2}
	faults := decode(`{
		"on": true, "count": -3, "small": 127, "big": 18446744073709551615, "ratio": 1.5e-1,
		"exact": 9007199254740993, "raw": {"b": [1, 2]}, "any": {"n": 9007199254740993, "l": [null, true, "x"]},
		"labels": {"a": "é\n"}, "tables": {"t": {"max_rows": 5, "max_wait": 1.5}}, "list": [{}, {"max_wait": "2m"}],
		"even": 4, "wait": "1h30m", "minutes": 15, "bytes": 0.5
	}`, &d)
	require.Empty(t, faults)
	assert.Equal(t, "kept", d.Name, "what the document does not name keeps its value")
	assert.True(t, d.On)
	assert.Equal(t, -3, d.Count)
	assert.Equal(t, int8(127), d.Small)
	assert.Equal(t, uint64(18446744073709551615), d.Big)
	assert.InDelta(t, 0.15, d.Ratio, 0)
	assert.Equal(t, json.Number("9007199254740993"), d.Exact)
	assert.Equal(t, `{"b": [1, 2]}`, string(d.Raw))
	assert.Equal(t, map[string]any{"n": json.Number("9007199254740993"), "l": []any{nil, true, "x"}}, d.Any)
	assert.Equal(t, map[string]string{"a": "é\n"}, d.Labels)
	assert.Equal(t, 5, *d.Tables["t"].Rows)
	assert.Equal(t, 1500*time.Millisecond, *d.Tables["t"].Wait)
	assert.Len(t, d.List, 2)
	assert.Nil(t, d.List[0].Wait)
	assert.Equal(t, 2*time.Minute, *d.List[1].Wait)
	assert.Equal(t, even(4), d.Even)
	assert.Equal(t, 90*time.Minute, d.Wait)
	assert.Equal(t, 15*time.Minute, d.Minutes)
	assert.Equal(t, int64(5e8), d.Bytes)
}

func TestDecodeNamesEachFault(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "line 1: the document is empty; {} is an empty object"},
		{" \n ", "line 2: the document is empty; {} is an empty object"},
		{`null`, "line 1: the document is null; {} is an empty object"},
		{`[]`, "line 1: want an object, not an array"},
		{"\xef\xbb\xbf{}", "line 1: the file begins with a byte order mark; save it as UTF-8 without one"},
		{`{} {}`, "line 1: there is data after the end of the document"},
		{"{\n\"name\": \"a\",\n\"name\": \"b\"}", "line 3 name: the key is repeated"},
		{`{"name": "a",}`, "line 1: there is a comma before the closing bracket"},
		{`{"name": "a",, "on": true}`, "line 1: there is a comma too many"},
		{`{"list": [{},]}`, "line 1 list: there is a comma before the closing bracket"},
		{`{"name" "a"}`, `line 1: want a colon after the key "name"`},
		{`{name: 1}`, "line 1: want a key in double quotes"},
		{`{"name": 'a'}`, "line 1 name: want a value"},
		{`{"name": nulls}`, "line 1 name: want a value"},
		{`{"count": 01}`, `line 1 count: "01" is not a number`},
		{`{"count": NaN}`, "line 1 count: want a value"},
		{`{"on": true "count": 1}`, `line 1: want a comma or '}'`},
		{`{"on": true`, `line 1: the document ends too early: want a comma or '}'`},
		{`{"name": "abc`, "line 1 name: a string does not end"},
		{"{\"name\": \"a\tb\"}", "line 1 name: a string holds a raw control character; write it as an escape"},
		{`{"name": "\x"}`, "line 1 name: a string holds an escape that JSON does not have"},
		{"{\"name\": \"\xff\"}", "line 1 name: a string is not valid UTF-8"},
		{`{"name": "\ud83d"}`, "line 1 name: a string holds half of a surrogate pair"},
		{`{"name": "\ud83d\ud83d\ude00"}`, "line 1 name: a string holds half of a surrogate pair"},
		{`{"name": "\\\ude00 \\ud83d"}`, "line 1 name: a string holds half of a surrogate pair"},
		{`{"nmae": "a"}`, `line 1 nmae: unknown key; did you mean "name"?`},
		{`{"Name": "a"}`, `line 1 Name: unknown key; did you mean "name"?`},
		{`{"zzz": 1}`, `line 1 zzz: unknown key; want one of any, big, bytes, count, even, exact, labels, list, minutes, name, on, ratio, raw, small, tables, wait`},
		{`{"Hidden": 1}`, `line 1 Hidden: unknown key; want one of any, big, bytes, count, even, exact, labels, list, minutes, name, on, ratio, raw, small, tables, wait`},
		{`{"name": null}`, "line 1 name: null is not a value here; leave the key out to get its default"},
		{`{"list": null}`, "line 1 list: null is not a value here; leave the key out to get its default"},
		{`{"name": 1}`, "line 1 name: want a string, not a number"},
		{`{"on": "true"}`, "line 1 on: want a boolean, not a string"},
		{`{"count": 1.5}`, `line 1 count: want a whole number, not "1.5"`},
		{`{"count": 1e3}`, `line 1 count: want a whole number, not "1e3"`},
		{`{"small": 128}`, `line 1 small: "128" is out of range`},
		{`{"big": -1}`, `line 1 big: "-1" is out of range`},
		{`{"ratio": 1e999}`, `line 1 ratio: "1e999" is out of range`},
		{`{"exact": "1"}`, "line 1 exact: want a number, not a string"},
		{`{"labels": {"a.b": 1}}`, `line 1 labels["a.b"]: want a string, not a number`},
		{`{"list": [{}, {"max_row": 1}]}`, `line 1 list[1].max_row: unknown key; did you mean "max_rows"?`},
		{`{"even": 3}`, "line 1 even: want an even number"},
		{`{"wait": 5}`, `line 1 wait: a number has no unit here: want a duration like "90s", "12h" or "7d"`},
		{`{"wait": true}`, `line 1 wait: want a duration like "90s", "12h" or "7d", not a boolean`},
		{`{"minutes": {}}`, `line 1 minutes: want a duration like "90s", "12h" or "7d", or a number (in m), not an object`},
		{`{"minutes": -1}`, "line 1 minutes: -1 is negative"},
		{`{"minutes": 99999999999999999}`, "line 1 minutes: 99999999999999999 is too large"},
		{`{"minutes": "-1h"}`, `line 1 minutes: "-1h" is not a duration: want a number with a unit, like "90s", "12h" or "7d"`},
		{`{"bytes": "12"}`, `line 1 bytes: "12" is not a size: want a number with a unit, like "512MiB" or "1GB"`},
		{`{"bytes": []}`, `line 1 bytes: want a size like "512MiB" or "1GB", or a number (in GB), not an array`},
		{`{"count": 99999999999999999999}`, `line 1 count: "99999999999999999999" is out of range`},
	} {
		var d document
		faults := decode(c.text, &d)
		require.Len(t, faults, 1, "for %q: %v", c.text, faults)
		assert.Equal(t, c.want, faults[0].String(), "for %q", c.text)
	}
}

func TestDecodeKeepsTextThatIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		`\ud83d\ude00`: "😀", `\\ud800`: `\ud800`, `\uFFFD`: "\ufffd", `a\uD834\uDD1Eb\u0000`: "a𝄞b\x00", `\"\u0022\\`: `""\`,
	} {
		var d document
		require.Empty(t, Decode([]byte(`{"name": "`+text+`"}`), &d), text)
		assert.Equal(t, want, d.Name)
	}
}

func TestDecodeReportsAllFaultsOfADocument(t *testing.T) {
	var d document
	faults := Decode([]byte("\xef\xbb\xbf{\n \"nam\": 1,\n \"count\": \"x\",\n \"on\": 1,\n \"on\": 2}"), &d)
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%d %s", f.Line, f.Path))
	}
	assert.Equal(t, []string{"1 ", "5 on", "2 nam", "3 count", "4 on", "5 on"}, got)
}

func TestDecodeBoundsDepthAndReport(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	var x any
	faults := Decode([]byte(deep), &x)
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0].Message, "nested deeper than 64")
	assert.Empty(t, Decode([]byte(deep[1:len(deep)-1]), &x))

	many := "{" + strings.Repeat(`"name":1,`, 500) + `"on":true}`
	doc, faults := Parse([]byte(many))
	assert.Len(t, faults, maxFaults+1)
	assert.Contains(t, faults[maxFaults].Message, "more than 100 faults")
	assert.Len(t, doc.Decode(&document{}, Rules{}), maxFaults+1)
}

func TestLongKeysAreCutInReports(t *testing.T) {
	faults := Decode([]byte(`{"`+strings.Repeat("k", 5000)+`": 1}`), &document{})
	require.Len(t, faults, 1)
	assert.Less(t, len(faults[0].String()), 300)
}

func TestRawMessageIsACopy(t *testing.T) {
	data := []byte(`{"raw": [1]}`)
	var d document
	require.Empty(t, Decode(data, &d))
	data[9] = '7'
	assert.Equal(t, "[1]", string(d.Raw))
}

func TestDocumentFindsPaths(t *testing.T) {
	doc, faults := Parse([]byte("{\n\"tables\": {\n\"a.b\": {\n\"max_rows\": 1},\n\"a\": [\n1,\n{\"x\": 2}]}}"))
	require.Empty(t, faults)
	for path, line := range map[string]int{
		"": 1, "tables": 2, `tables["a.b"].max_rows`: 4, "tables.a": 5, "tables.a[1].x": 7,
		"tables.a[9]": 5, "nothing": 1, "tables.b": 2, "tabl": 1,
	} {
		assert.Equal(t, line, doc.Line(path), path)
	}
	assert.True(t, doc.Has("tables.a[1].x"))
	assert.False(t, doc.Has("tables.a[2]"))
	assert.False(t, doc.Has("tables.a.x"))

	empty, _ := Parse(nil)
	assert.Zero(t, empty.Line("a"))
	assert.False(t, empty.Has(""))
}

func TestAnnotationsAreForTheRootAlone(t *testing.T) {
	read := func(text string) []string {
		doc, faults := Parse([]byte(text))
		require.Empty(t, faults)
		var found []string
		for _, f := range doc.Decode(&document{}, Rules{Annotated: true}) {
			found = append(found, f.String())
		}
		return found
	}
	assert.Empty(t, read(`{"$schema": "x", "$comment": ["a", "b"], "name": "a"}`))
	assert.Empty(t, read(`{"$comment": "a"}`))
	assert.Equal(t, []string{"line 1 $schema: want a string", "line 1 $comment: want a string or a list of strings"},
		read(`{"$schema": 1, "$comment": ["a", 1]}`))
	assert.Equal(t, []string{"line 1 list[0].$schema: unknown key; want one of max_rows, max_wait"}, read(`{"list": [{"$schema": "x"}]}`))
	assert.Len(t, Decode([]byte(`{"$schema": "x"}`), &document{}), 1, "other documents have none")
}

func TestValuesThatWereReadAreChecked(t *testing.T) {
	doc, _ := Parse([]byte(`{"count": 1, "small": "x", "tables": {"a.b": {"max_rows": 5}}, "list": [{"max_rows": 5}]}`))
	places := map[string]int64{}
	var d document
	faults := doc.Decode(&d, Rules{Check: func(place string, v reflect.Value) string {
		if !v.CanInt() {
			return ""
		}
		places[place] = v.Int()
		return "no"
	}})
	assert.Equal(t, map[string]int64{"count": 1, "tables.*.max_rows": 5, "list[].max_rows": 5}, places)
	require.Len(t, faults, 4)
	assert.Equal(t, `tables["a.b"].max_rows`, faults[2].Path)
	assert.Equal(t, "small", faults[1].Path, "what could not be read is not judged")
}

func TestWhatFollowsFromAFault(t *testing.T) {
	doc, _ := Parse([]byte(`{"tables": {"a.b": {"max_row": 5}}, "list": [{"max_rows": "x"}]}`))
	faults := doc.Decode(&document{}, Rules{})
	require.Len(t, faults, 2)
	for path, follows := range map[string][2]bool{
		`tables["a.b"]`: {true, false}, `tables["a.b"].max_row`: {true, false}, `tables["a.b"].max_rows`: {false, false}, "tables": {false, false},
		"list[0].max_rows": {false, true}, "list[0]": {false, true}, "list[0].max_rows.x": {false, true}, "list[1]": {false, false}, "": {false, false},
	} {
		for i, f := range faults {
			assert.Equal(t, follows[i], f.Explains(path), "%s of %s", path, f)
		}
	}
}

func TestDecodeRefusesMisuse(t *testing.T) {
	assert.Panics(t, func() { Decode([]byte(`{}`), document{}) })
	assert.Panics(t, func() { Decode([]byte(`{"1": 1}`), &map[int]int{}) })
	assert.Panics(t, func() { Decode([]byte(`1`), new(complex64)) })
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"name":"\u00e9","list":[{"max_wait":"1h"}]}`, `{"minutes":1e9}`, "\xef\xbb\xbf[", `{"a":{"a":[[]]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d document
		faults := Decode(data, &d)
		if len(faults) == 0 && !json.Valid(data) {
			t.Fatalf("accepted what is not JSON: %q", data)
		}
		doc, _ := Parse(data)
		for _, fault := range faults {
			if fault.Message == "" || fault.Line < 0 {
				t.Fatalf("empty fault %#v", fault)
			}
			doc.Line(fault.Path)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"name":"x","count":5,"labels":{"a":"b"},"tables":{"t":{"max_rows":5,"max_wait":"1s"}},"list":[{},{}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var d document
		if faults := Decode(data, &d); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}
