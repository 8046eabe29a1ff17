package record

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown lists the records as JSON or, when refused, as their code.
func shown(all []decoded) []string {
	list := []string{}
	for _, r := range all {
		if r.Err != nil {
			list = append(list, r.Err.Code)
			continue
		}
		list = append(list, r.JSON)
	}
	return list
}

func TestTSVWithWindowsLines(t *testing.T) {
	all := decodeAll(t, pages(), TSV, "event_id\tpage\tn\r\ng1\t/a\t5\r\ng2\t/b\t6\r", DecodeOptions{})
	assert.Equal(t, []string{`{"event_id":"g1","page":"/a","n":5}`, `{"event_id":"g2","page":"/b","n":6}`}, shown(all))
	all = decodeAll(t, pages(), TSV, "event_id\tpage\r\ng1\t/a\r\n", DecodeOptions{})
	assert.Equal(t, []string{`{"event_id":"g1","page":"/a"}`}, shown(all))
	all = decodeAll(t, pages(), CSV, "event_id,page\r\n\"g1\",/a\r\ng2,\"/b\"\r\n", DecodeOptions{})
	assert.Equal(t, []string{`{"event_id":"g1","page":"/a"}`, `{"event_id":"g2","page":"/b"}`}, shown(all))
}

func TestQuotedCSVFields(t *testing.T) {
	body := "event_id,page,org\nh1,\"two\nlines\",\"a \"\"q\"\", b\"\nh2,/b,z"
	all := decodeAll(t, pages(), CSV, body, DecodeOptions{})
	assert.Equal(t, []string{`{"event_id":"h1","page":"two\nlines","org":"a \"q\", b"}`, `{"event_id":"h2","page":"/b","org":"z"}`}, shown(all))
	all = decodeAll(t, pages(), CSV, "event_id,page,n\nh1,\"two\nlines\",1\nh2,/b,x\n", DecodeOptions{})
	assert.Equal(t, []string{"", CodeTypeMismatch}, codes(all))
	assert.Equal(t, 2, all[1].Index, "records are counted, not lines")
	assert.Equal(t, "n", all[1].Err.Column)
}

func TestSemicolonsInCSV(t *testing.T) {
	fault := bodyFault(t, CSV, "event_id;page;n\ni1;/a;2\n")
	assert.Equal(t, CodeUnknownColumn, fault.Code)
	assert.Contains(t, fault.Message, `"event_id;page;n"`)
}

func TestTooManyAndTooFewFields(t *testing.T) {
	for format, separator := range map[InputFormat]string{CSV: ",", TSV: "\t"} {
		body := strings.ReplaceAll("event_id,page,n\nj1,/a,1\nj2,/b,2,extra\nj3,/c\nj4,/d,4", ",", separator)
		all := decodeAll(t, pages(), format, body, DecodeOptions{})
		assert.Equal(t, []string{`{"event_id":"j1","page":"/a","n":1}`, CodeMalformed, CodeMalformed, `{"event_id":"j4","page":"/d","n":4}`}, shown(all))
		assert.Equal(t, "expected 3 fields and found 4", all[1].Err.Message)
		assert.Equal(t, "expected 3 fields and found 2", all[2].Err.Message)
	}
}

func TestHeaderLines(t *testing.T) {
	for format, separator := range map[InputFormat]string{CSV: ",", TSV: "\t"} {
		body := func(text string) string { return strings.ReplaceAll(text, ",", separator) }
		all := decodeAll(t, pages(), format, body("page,event_id\n/a,l1\n"), DecodeOptions{})
		assert.Equal(t, []string{`{"event_id":"l1","page":"/a"}`}, shown(all))
		fault := bodyFault(t, format, body("event_id,event_id\nl2,l3\n"))
		assert.Equal(t, CodeDuplicateColumn, fault.Code)
		fault = bodyFault(t, format, body("event_id,nosuch\nl4,x\n"))
		assert.Equal(t, CodeUnknownColumn, fault.Code)
		assert.Contains(t, fault.Message, `"nosuch"`)
		for _, end := range []string{"", "\n", "\r\n", "\n\n\r\n"} {
			assert.Empty(t, decodeAll(t, pages(), format, body("event_id,page")+end, DecodeOptions{}))
		}
	}
	assert.Equal(t, []string{`{"event_id":"q","page":"/"}`}, shown(decodeAll(t, pages(), CSV, "\n\n\"event_id\", \"page\"\nq,/\n", DecodeOptions{})))
}

func TestWithoutHeaderFieldsAreAllColumnsThatMayBeSent(t *testing.T) {
	table := Compile("t", columns("a String", "m UInt8 MATERIALIZED 1", "e UInt8 EPHEMERAL", "b UInt8", "x UInt8 ALIAS b"), time.UTC)
	for format, separator := range map[InputFormat]string{CSVWithoutHeader: ",", TSVWithoutHeader: "\t"} {
		all := decodeAll(t, table, format, strings.ReplaceAll("x,5,7\ny,\\N,8\nz,1\n", ",", separator), DecodeOptions{})
		assert.Equal(t, []string{`{"a":"x","e":5,"b":7}`, `{"a":"y","b":8}`, CodeMalformed}, shown(all))
	}
}

func TestByteOrderMarkInFrontOfAHeader(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	for _, header := range []string{"event_id,page", `"event_id",page`} {
		assert.Equal(t, []string{`{"event_id":"e1","page":"/bom"}`}, shown(decodeAll(t, pages(), CSV, mark+header+"\ne1,/bom\n", DecodeOptions{})))
	}
	all := decodeAll(t, pages(), CSV, "event_id,page\n"+mark+"e1,/bom\n", DecodeOptions{})
	assert.Equal(t, "{\"event_id\":\"\uFEFFe1\",\"page\":\"/bom\"}", all[0].JSON, "it is only a mark at the start")
	assert.Equal(t, CodeBodyEmpty, bodyFault(t, CSV, mark).Code)
}

func TestDelimitedBytesThatAreNotUTF8(t *testing.T) {
	for _, bad := range []string{"ab\xFFc", "\xED\xA0\x80", "\xC0\xAF"} {
		all := decodeAll(t, pages(), CSV, "event_id,page\nq0,é\nq1,"+bad+"\nq2,\""+bad+"\"\nq3,/\n", DecodeOptions{})
		require.Equal(t, []string{"", CodeMalformed, CodeMalformed, ""}, codes(all))
		assert.Contains(t, all[1].Err.Message, "UTF-8")
	}
	all := decodeAll(t, pages(), TSV, "event_id\tpage\nq1\t\\xFF\nq2\t\\xC3\\xA9\nq3\t['\xFF']\n", DecodeOptions{})
	assert.Equal(t, []string{CodeMalformed, `{"event_id":"q2","page":"é"}`, CodeMalformed}, shown(all))
	assert.Equal(t, CodeBodyMalformed, bodyFault(t, CSV, "event_id\xFF\nx\n").Code)
}

func TestDeepFieldsAndAbsurdNumbers(t *testing.T) {
	table := Compile("t", columns("id String", "a Array(Array(UInt8)) DEFAULT []", "n Int64 DEFAULT 0", "f Float64 DEFAULT 0"), time.UTC)
	deep := strings.Repeat("[", 200_000)
	body := "id,a,n,f\nr1," + deep + ",,\nr2,\"" + deep + strings.Repeat("]", 200_000) + "\",,\nr3,," + strings.Repeat("9", 100_000) + ",\nr4,,,1e999999999\nr5,\"[[1],['" + strings.Repeat(`\\'`, 100_000) + "']]\",,\nok,[],1,1\n"
	all := decodeAll(t, table, CSV, body, DecodeOptions{})
	assert.Equal(t, []string{CodeTypeMismatch, CodeTypeMismatch, CodeOutOfRange, CodeOutOfRange, CodeTypeMismatch, ""}, codes(all))
	for _, r := range all[:5] {
		assert.Less(t, len(r.Err.Message), 300)
	}
}

func TestDelimitedRecordThatIsTooLarge(t *testing.T) {
	body := "event_id,page\nt1,/1\nt2," + strings.Repeat("x", 3<<20) + "\nt3,/3\n"
	all := decodeAll(t, pages(), CSV, body, DecodeOptions{})
	assert.Equal(t, []string{"", CodeTooLarge, ""}, codes(all))
}

// Nothing is stored of a body whose end is missing.
func TestQuotesThatDoNotClose(t *testing.T) {
	for _, body := range []string{
		"event_id,page\na,\"open\nb,/b\n", "event_id,page\na, \"open", `"event_id,page` + "\n", "event_id,page\na,\"x\"\"\n", "event_id,page\na,\"", "event_id,page\n\"\"\"",
	} {
		assert.Equal(t, CodeBodyMalformed, bodyFault(t, CSV, body).Code, body)
	}
	for body, want := range map[string]string{
		`5" pipe`: `5\" pipe`, `a""b`: `a\"\"b`, `"a" `: "a", ` "a"`: "a", `""""`: `\"`, `x"`: `x\"`, " a ": " a ", "a\rb": `a\rb`, `"a` + "\r\n" + `b"`: `a\r\nb`, `\n`: `\\n`,
	} {
		all := decodeAll(t, pages(), CSV, "event_id,page\n1,"+body+"\n2,/\n", DecodeOptions{})
		assert.Equal(t, []string{`{"event_id":"1","page":"` + want + `"}`, `{"event_id":"2","page":"/"}`}, shown(all), body)
	}
	all := decodeAll(t, pages(), CSV, "event_id,page\n1,\"a\"b\"c\n2,\"a\" \"b\"\n3,/\n", DecodeOptions{})
	assert.Equal(t, []string{CodeMalformed, CodeMalformed, ""}, codes(all))
	assert.Contains(t, all[0].Err.Message, "follows the closing quote")
}

func TestOmittedFields(t *testing.T) {
	table := Compile("t", columns("a String DEFAULT 'x'", "b Nullable(UInt8) DEFAULT 7", "c UInt8"), time.UTC)
	all := decodeAll(t, table, CSV, "a,b,c\n,,1\n\\N,\\N,2\n\"\",\"\\N\",3\n\"\",5,4\n,,\n", DecodeOptions{})
	assert.Equal(t, []string{`{"c":1}`, `{"b":null,"c":2}`, CodeTypeMismatch, `{"a":"","b":5,"c":4}`, CodeMissingColumn}, shown(all), "\\N is null, as in JSON")
	all = decodeAll(t, table, TSV, "a\tb\tc\n\\N\t\\N\t1\n\t5\t2\n\\\\N\t5\t3\nq\t\t4\n", DecodeOptions{})
	assert.Equal(t, []string{`{"b":null,"c":1}`, `{"a":"","b":5,"c":2}`, `{"a":"\\N","b":5,"c":3}`, CodeTypeMismatch}, shown(all))
	all = decodeAll(t, table, CSV, "a,b\n,\n", DecodeOptions{MissingAsZero: true})
	assert.Equal(t, []string{CodeMissingColumn}, codes(all), "a record without any value")
}

func TestTSVEscapes(t *testing.T) {
	table := Compile("t", columns("s String", "n UInt8"), time.UTC)
	for field, want := range map[string]string{
		`a\tb`: `a\tb`, `\n\r\b\f\0\a\v\e`: `\n\r\b\f\u0000\u0007\u000B\u001B`, `\\`: `\\`, `\'\"` + "\\`" + `\/`: `'\"` + "`" + `/`, `\%\q`: `\\%\\q`, `\x41\x7a`: "Az",
		"a\\\nb": `a\nb`, "a\\\tb": `a\tb`, `"a"`: `\"a\"`, " a ": " a ", "": "",
	} {
		all := decodeAll(t, table, TSV, "s\tn\n"+field+"\t1\n", DecodeOptions{})
		assert.Equal(t, []string{`{"s":"` + want + `","n":1}`}, shown(all), field)
	}
	for _, field := range []string{`\x4`, `\xg0`, `a\Nb`} {
		all := decodeAll(t, table, TSV, "s\tn\n"+field+"\t1\nok\t2\n", DecodeOptions{})
		assert.Equal(t, []string{CodeMalformed, ""}, codes(all), field)
		assert.Equal(t, "s", all[0].Err.Column)
	}
	assert.Equal(t, []string{CodeMalformed}, codes(decodeAll(t, table, TSV, "n\ts\n1\ta\\", DecodeOptions{})))
	one := Compile("t", columns("s String"), time.UTC)
	assert.Equal(t, []string{`{"s":"a"}`, `{"s":""}`, `{"s":"b"}`}, shown(decodeAll(t, one, TSV, "s\na\n\nb\n", DecodeOptions{})), "an empty line is an empty text")
}

func TestDelimitedColumnsThatMayNotBeSent(t *testing.T) {
	table := Compile("t", columns("a String", "m UInt8 MATERIALIZED 1", "b UInt8 DEFAULT 1"), time.UTC)
	assert.Equal(t, []string{CodeColumnComputed, ""}, codes(decodeAll(t, table, CSV, "a,m,b\nx,5,1\nx,,1\n", DecodeOptions{})))
	for _, allowed := range []int{1, 2} { // not the computed one and not the other
		d := table.NewDecoder(CSV, []byte("a,m,b\nx,,1\n"), DecodeOptions{Allow: func(column int) bool { return column == 0 || column == allowed }})
		var fault *BodyError
		require.ErrorAs(t, d.Err(), &fault)
		assert.Equal(t, CodeColumnNotAllowed, fault.Code)
		assert.False(t, d.Next())
	}
	all := decodeAll(t, table, CSVWithoutHeader, "x,1\nx,\n", DecodeOptions{Allow: func(column int) bool { return column != 2 }})
	assert.Equal(t, []string{CodeColumnNotAllowed, ""}, codes(all))
}

func TestDelimitedValues(t *testing.T) {
	d := pages().NewDecoder(CSV, []byte("event_id,page,n\n\"a \"\"1\"\"\",/,\n"), DecodeOptions{})
	_, ok := d.Value(0)
	require.False(t, ok)
	require.True(t, d.Next())
	value, ok := d.Value(0)
	assert.True(t, ok)
	assert.Equal(t, `"a \"1\""`, string(value))
	_, ok = d.Value(4)
	assert.False(t, ok, "an empty field is omitted")
	assert.False(t, d.Single())
}

func TestCompositeFields(t *testing.T) {
	for _, c := range []struct{ typeText, field, want string }{
		{"Array(UInt8)", "[1,2]", "[1,2]"}, {"Array(UInt8)", "[ 1 , 2 ]", "[1,2]"}, {"Array(UInt8)", "[]", "[]"}, {"Array(String)", `['a','b\'c','d''e','\'''']`, `["a","b'c","d'e","''"]`},
		{"Array(String)", `["a","\u00e9"]`, `["a","é"]`}, {"Array(String)", "[a]", CodeTypeMismatch}, {"Array(UInt8)", "[1,300]", CodeOutOfRange}, {"Array(UInt8)", "[NULL]", CodeNullNotAllowed},
		{"Array(Nullable(String))", `['a',NULL,null]`, `["a",null,null]`}, {"Array(UInt8)", "[1", CodeTypeMismatch}, {"Array(UInt8)", "[1,]", CodeTypeMismatch}, {"Array(UInt8)", "[1]x", CodeTypeMismatch},
		{"Array(String)", `['a`, CodeTypeMismatch}, {"Array(String)", `['\xFF']`, CodeMalformed}, {"Array(Float64)", "[nan,-inf,1.5]", "[null,null,1.5]"}, {"Array(Date)", "['2026-03-04']", `["2026-03-04"]`},
		{"Map(String, UInt8)", `{'a':1,'b' : 2}`, `{"a":1,"b":2}`}, {"Map(String, UInt8)", `{"a":1}`, `{"a":1}`}, {"Map(String, UInt8)", `{'a':1,'a':2}`, CodeDuplicateColumn}, {"Map(String, UInt8)", `{'a'}`, CodeTypeMismatch},
		{"Map(UInt8, String)", `{1:'x'}`, `{"1":"x"}`}, {"Map(String, Array(UInt8))", `{'a':[1,2]}`, `{"a":[1,2]}`}, {"Map(String, UInt8)", `{'a':x}`, CodeTypeMismatch},
		{"Tuple(UInt8, String)", "(1,'x')", `[1,"x"]`}, {"Tuple(UInt8, String)", `[1,"x"]`, `[1,"x"]`}, {"Tuple(UInt8, String)", "(1)", CodeTypeMismatch}, {"Tuple(UInt8)", "(1,)", "[1]"},
		{"Tuple(a UInt8, b Nullable(String))", "(1,NULL)", `{"a":1,"b":null}`}, {"Tuple(a UInt8, b Nullable(String))", `{"a":1}`, `{"a":1,"b":null}`}, {"Tuple(UInt8, String)", "(1,x)", CodeTypeMismatch},
		{"Point", "(1.5,2)", "[1.5,2]"}, {"Polygon", "[[(0,0),(1,0),(1,1)]]", "[[[0,0],[1,0],[1,1]]]"}, {"Nested(a UInt8, b String)", "[(1,'x')]", `[{"a":1,"b":"x"}]`},
		{"Array(Bool)", "[true,False,'TRUE']", "[true,false,true]"}, {"Array(UInt8)", "", CodeTypeMismatch},
	} {
		codec, err := NewCodec(c.typeText, time.UTC)
		require.NoError(t, err)
		prefix := []byte("kept")
		encoded, err := codec.AppendText(prefix, []byte(c.field))
		if err != nil {
			var fault *Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, c.want, fault.Code, "%s %s: %v", c.typeText, c.field, err)
			assert.Equal(t, "kept", string(encoded), "nothing is appended on error")
			continue
		}
		text, _, err := codec.RenderJSON(nil, encoded[4:], RenderOptions{})
		require.NoError(t, err)
		assert.Equal(t, c.want, string(text), "%s %s", c.typeText, c.field)
	}
}

func TestEmptyDelimitedBodies(t *testing.T) {
	for _, format := range []InputFormat{CSV, TSV, CSVWithoutHeader, TSVWithoutHeader} {
		for _, body := range []string{"", "\n", "\r\n \t\n"} {
			assert.Equal(t, CodeBodyEmpty, bodyFault(t, format, body).Code, "%q", body)
		}
	}
}

func TestWideRecords(t *testing.T) {
	const width = 1000
	var names, fields, members []string
	var all []Column
	for i := range width {
		name := fmt.Sprintf("c%03d", i)
		all = append(all, Column{Name: name, Type: "UInt32", Position: i + 1})
		names, fields = append(names, name), append(fields, fmt.Sprint(i))
		members = append(members, fmt.Sprintf("%q:%d", name, i))
	}
	table := Compile("wide", all, time.UTC)
	line := strings.Join(fields, ",") + "\n"
	fieldRows := decodeAll(t, table, CSV, strings.Join(names, ",")+"\n"+strings.Repeat(line, 3), DecodeOptions{})
	jsonRows := decodeAll(t, table, NDJSON, strings.Repeat("{"+strings.Join(members, ",")+"}\n", 3), DecodeOptions{})
	require.Len(t, fieldRows, 3)
	require.Equal(t, []string{"", "", ""}, codes(fieldRows))
	for i, r := range fieldRows {
		assert.Equal(t, jsonRows[i].Row, r.Row)
		assert.Len(t, r.Set.Columns(), width)
		assert.Equal(t, "{"+strings.Join(members, ",")+"}", r.JSON)
	}
}

// A body of the largest size is read to its end, whatever its format, in
// memory that does not grow with it.
func TestBodiesOf16MiB(t *testing.T) {
	size := 16 << 20
	if testing.Short() {
		size = 2 << 20
	}
	table := Compile("t", columns("event_id String", "page String", "n Int64 DEFAULT 0"), time.UTC)
	for name, c := range map[string]struct {
		format       InputFormat
		start, stop  string
		line, broken string
	}{
		"NDJSON": {NDJSON, "", "", `{"event_id":"e","page":"/a/page","n":12345}` + "\n", `{"event_id":5` + "\n"},
		"array":  {JSON, "[", `{"event_id":"last","page":"/"}]`, `{"event_id":"e","page":"/a/page","n":12345},`, `{"event_id":"e"},`},
		"CSV":    {CSV, "event_id,page,n\n", "", "e,\"/a \"\"page\"\"\",12345\n", "e,/a\n"},
		"TSV":    {TSV, "event_id\tpage\tn\n", "", "e\t/a\\tpage\t12345\n", "e\t/a\tx\n"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := (size - len(c.start) - len(c.stop) - len(c.broken)) / len(c.line)
			body := c.start + strings.Repeat(c.line, lines/2) + c.broken + strings.Repeat(c.line, lines-lines/2) + c.stop
			var taken, refused int
			allocations := testing.AllocsPerRun(1, func() {
				taken, refused = 0, 0
				for d := table.NewDecoder(c.format, []byte(body), DecodeOptions{}); d.Next(); {
					if d.Record().Err != nil {
						refused++
						assert.Equal(t, lines/2+1, d.Record().Index)
						continue
					}
					taken++
				}
			})
			assert.Equal(t, 1, refused)
			assert.GreaterOrEqual(t, taken, lines)
			assert.Less(t, allocations, 100.0)
		})
	}
}

// Files that another writer makes are read as they were meant.
func TestCSVOfAnotherWriter(t *testing.T) {
	table := Compile("t", columns("a String DEFAULT ''", "b String DEFAULT ''", "c String DEFAULT ''"), time.UTC)
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{`"`, ",", "\n", "a", "é", " ", "\t", ";", `""`, "'", `\`, "😀", "long enough for eight bytes at once", "|"}
	for range 200 {
		var body bytes.Buffer
		w := csv.NewWriter(&body)
		w.UseCRLF = random.IntN(2) == 0
		require.NoError(t, w.Write([]string{"a", "b", "c"}))
		var want [][]string
		for range random.IntN(20) {
			record := []string{"x", "", ""} // no line of empty fields alone
			for i := range record {
				for range random.IntN(4) {
					record[i] += pieces[random.IntN(len(pieces))]
				}
			}
			require.NoError(t, w.Write(record))
			for i := range record { // as the writer does
				if w.UseCRLF {
					record[i] = strings.ReplaceAll(record[i], "\n", "\r\n")
				}
			}
			want = append(want, record)
		}
		w.Flush()
		var got [][]string
		for _, r := range decodeAll(t, table, CSV, body.String(), DecodeOptions{}) {
			require.Nil(t, r.Err, body.String())
			var row map[string]string
			require.NoError(t, json.Unmarshal([]byte(r.JSON), &row))
			got = append(got, []string{row["a"], row["b"], row["c"]})
		}
		require.Equal(t, want, got, body.String())
	}
}
