package record

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		format InputFormat
		body   string
		want   int
	}{
		{JSON, `{"a":1}`, 1}, {JSON, ` [] `, 0}, {JSON, `[{"a":"],["},{"a":[1,2]} , 3]`, 3}, {JSON, `[1,]`, 2}, {JSON, `[`, 0}, {JSON, ``, 0}, {JSON, `"x"`, 0},
		{NDJSON, "{}\n\n {} \r\n{}", 3}, {NDJSON, "\n", 0},
		{CSV, "a,b\n1,2\n\"x\ny\",\"z\"\"\n\"\n", 2}, {CSV, "a,b\n", 0}, {CSV, "a\n1", 1}, {CSVWithoutHeader, "1,2\r\n\r\n3,", 2}, {CSVWithoutHeader, `"open`, 0},
		{TSV, "a\tb\n1\t2\n", 1}, {TSVWithoutHeader, "1\n2\n3", 3}, {TSV, "", 0},
	} {
		assert.Equal(t, c.want, Count(c.format, []byte(c.body)), "%v %q", c.format, c.body)
	}
}

// Count and Decoder agree on every body that is not refused as a whole.
func FuzzCount(f *testing.F) {
	for format := JSON; format <= TSVWithoutHeader; format++ {
		for _, body := range []string{`[{"a":"1"},{"a":"2"}]`, "a\n1\n2\n", "{\"a\":\"x\"}\n{}\n", "\"a\"\n\"x\ny\"\n", "a\tb\n"} {
			f.Add(uint8(format), body)
		}
	}
	table := Compile("t", []Column{{Name: "a", Type: "String", Position: 1}, {Name: "b", Type: "String", Position: 2}}, time.UTC)
	f.Fuzz(func(t *testing.T, n uint8, body string) {
		format := InputFormat(n) % (TSVWithoutHeader + 1)
		count := Count(format, []byte(body))
		d := table.NewDecoder(format, []byte(body), DecodeOptions{})
		records := 0
		for d.Next() {
			records++
		}
		if strings.Contains(strings.ReplaceAll("\n"+body, "\r", ""), "\n\n") && format >= TSV {
			return // an empty line may be a record
		}
		if d.Err() == nil && count != records {
			t.Fatalf("%d counted, %d read of %q", count, records, body)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	body := []byte("[" + strings.Repeat(`{"event_id":"4f1c8a52d7","page":"/home","n":42},`, 10_000) + "{}]")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		Count(JSON, body)
	}
}
