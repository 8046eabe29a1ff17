package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
)

// benchColumns is an event as applications send it: eleven columns, some 270
// bytes of JSON.
func benchColumns() []Column {
	return columns(
		"event_id UUID",
		"user_id UInt64",
		"session String",
		"page String",
		"referrer Nullable(String)",
		"country LowCardinality(String)",
		"device LowCardinality(Nullable(String))",
		"duration_ms UInt32",
		"score Float64",
		"ratio Nullable(Float32)",
		"ts DateTime64(3, 'UTC')",
	)
}

func benchBody(rows int) []byte {
	var b bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&b, `{"event_id":"61f0c404-5cb3-11e7-907b-%012x","user_id":%d,"session":"sess-%08d-abcdef","page":"/products/%d/details",`+
			`"referrer":"https://example.com/search?q=%d","country":"DE","device":"mobile","duration_ms":%d,"score":%d.25,"ratio":0.%d,"ts":"2026-03-04T05:%02d:%02d.%03dZ"}`+"\n",
			i, 1_000_000_007*i, i, i%977, i, i*13%100_000, i%1000, i%90+10, i/60%60, i%60, i%1000)
	}
	return b.Bytes()
}

func BenchmarkDecodeNDJSON(b *testing.B) {
	table := Compile("events", benchColumns(), time.UTC)
	body := benchBody(1000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := table.NewDecoder(NDJSON, body, DecodeOptions{})
		n := 0
		for d.Next() {
			if d.Record().Err != nil {
				b.Fatal(d.Record().Err)
			}
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}

// benchDelimited is the rows of benchBody as fields.
func benchDelimited(rows int, separator string) []byte {
	var b bytes.Buffer
	for i, c := range benchColumns() {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(c.Name)
	}
	for i := range rows {
		text := fmt.Sprintf("\n61f0c404-5cb3-11e7-907b-%012x|%d|sess-%08d-abcdef|/products/%d/details|https://example.com/search?q=%d|DE|mobile|%d|%d.25|0.%d|2026-03-04T05:%02d:%02d.%03dZ",
			i, 1_000_000_007*i, i, i%977, i, i*13%100_000, i%1000, i%90+10, i/60%60, i%60, i%1000)
		b.WriteString(strings.ReplaceAll(text, "|", separator))
	}
	return b.Bytes()
}

// BenchmarkDecodeCSV and BenchmarkDecodeTSV read the rows of
// BenchmarkDecodeNDJSON.
func BenchmarkDecodeCSV(b *testing.B) { benchDecode(b, CSV, benchDelimited(1000, ",")) }

func BenchmarkDecodeTSV(b *testing.B) { benchDecode(b, TSV, benchDelimited(1000, "\t")) }

// BenchmarkDecodeQuotedCSV reads them with every field in quotes.
func BenchmarkDecodeQuotedCSV(b *testing.B) {
	body := bytes.ReplaceAll(benchDelimited(1000, ","), []byte(","), []byte(`","`))
	body = bytes.ReplaceAll(body, []byte("\n"), []byte("\"\n\""))
	benchDecode(b, CSV, append(append([]byte{'"'}, body...), '"'))
}

// BenchmarkDecodeLines reads rows whose set has a type without a codec.
func BenchmarkDecodeLines(b *testing.B) {
	body := bytes.ReplaceAll(benchBody(1000), []byte(`,"score"`), []byte(`,"extra":{"a":[1,2]},"score"`))
	benchDecode(b, NDJSON, body, "extra JSON")
}

func benchDecode(b *testing.B, format InputFormat, body []byte, more ...string) {
	table := Compile("events", append(benchColumns(), columns(more...)...), time.UTC)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := table.NewDecoder(format, body, DecodeOptions{})
		n := 0
		for d.Next() {
			if d.Record().Err != nil {
				b.Fatal(d.Record().Err)
			}
			n++
		}
		if n != 1000 {
			b.Fatal(n, d.Err())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}

func BenchmarkDecodeArray(b *testing.B) {
	table := Compile("events", benchColumns(), time.UTC)
	body := append([]byte{'['}, bytes.ReplaceAll(bytes.TrimSpace(benchBody(1000)), []byte("\n"), []byte(","))...)
	body = append(body, ']')
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := table.NewDecoder(JSON, body, DecodeOptions{})
		for d.Next() {
			if d.Record().Err != nil {
				b.Fatal(d.Record().Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}

func BenchmarkDecodeOne(b *testing.B) {
	table := Compile("events", benchColumns(), time.UTC)
	body := benchBody(1)
	b.ReportAllocs()
	for b.Loop() {
		d := table.NewDecoder(JSON, body, DecodeOptions{})
		if !d.Next() || d.Record().Err != nil {
			b.Fatal(d.Err(), d.Record().Err)
		}
	}
}

// BenchmarkBaselineVisit is the baseline of BenchmarkDecodeNDJSON: a fast
// general JSON parser that reads the same rows and visits every value, without
// judging or encoding any.
func BenchmarkBaselineVisit(b *testing.B) {
	body := benchBody(1000)
	var p fastjson.Parser
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		total := 0
		for rest := body; len(rest) > 0; {
			end := bytes.IndexByte(rest, '\n')
			v, err := p.ParseBytes(rest[:end])
			if err != nil {
				b.Fatal(err)
			}
			o, err := v.Object()
			if err != nil {
				b.Fatal(err)
			}
			o.Visit(func(key []byte, v *fastjson.Value) { total += len(key) + visit(v) })
			rest = rest[end+1:]
		}
		if total == 0 {
			b.Fatal("nothing visited")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}

// visit reads a value as a caller would who wants it typed.
func visit(v *fastjson.Value) int {
	switch v.Type() {
	case fastjson.TypeString:
		s, _ := v.StringBytes()
		return len(s)
	case fastjson.TypeNumber:
		f, _ := v.Float64()
		return int(f) & 1
	}
	return 0
}

func BenchmarkAppendObject(b *testing.B) {
	table := Compile("events", benchColumns(), time.UTC)
	d := table.NewDecoder(NDJSON, benchBody(1), DecodeOptions{})
	require.True(b, d.Next())
	layout, err := ParseLayout(d.Record().Set.Header(), time.UTC)
	require.NoError(b, err)
	row := d.Record().Row
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if out, err = layout.AppendObject(out[:0], row, nil, RenderOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnds(b *testing.B) {
	table := Compile("events", benchColumns(), time.UTC)
	d := table.NewDecoder(NDJSON, benchBody(1000), DecodeOptions{})
	var body []byte
	var header string
	for d.Next() {
		body, header = append(body, d.Record().Row...), d.Record().Set.Header()
	}
	layout, err := ParseLayout(header, time.UTC)
	require.NoError(b, err)
	var ends []int
	b.ReportAllocs()
	for b.Loop() {
		if ends, err = layout.Ends(ends[:0], body, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
