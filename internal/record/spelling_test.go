package record_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/record"
)

// spelled are ways to write times: dates, what stands before the clock, clocks
// and zones, in all combinations.
func spelled() []string {
	var all []string
	for _, day := range []string{
		"2026-11-29", "2026/11/29", "2026/02/30", "2026.11.29", "2026-11-9", "2026/1/2", "29/11/2026", "02/03/2026", "2026 11 29", "20261129",
		"29 Nov 2026", "Sun, 29 Nov 2026", "Mon, 29 Nov 2026", "Sunday, 29-Nov-26", "29-Nov-2026", "Nov 29 2026", "Nov 29, 2026", "9 nov 2026", "Wed, 01 Jan 1969", "2026-W48-7", "2026-333",
	} {
		all = append(all, day)
		for _, between := range []string{" ", "T", "  ", ", "} {
			for _, clock := range []string{"10:05:06", "10:05", "10:05:06.789", "100506", "10:05:06 PM", "10", "24:00:00", "10:05:60"} {
				for _, zone := range []string{"", "Z", " Z", " UTC", "UTC", " GMT", " +02:00", "+0200", " -03", " EST", " CET", " (UTC)", " +0530"} {
					all = append(all, day+between+clock+zone)
				}
			}
		}
	}
	return all
}

// refusedSpellings says why spellings are not taken that ClickHouse reads.
var refusedSpellings = []struct {
	why   string
	holds func(string) bool
}{
	{"the order of day and month is a guess", func(s string) bool { return strings.HasPrefix(s, "29/11") || strings.HasPrefix(s, "02/03") }},
	{"a weekday or a day that is not there", func(s string) bool { return strings.HasPrefix(s, "Mon") || strings.HasPrefix(s, "2026/02/30") }},
	{"two digits of a year", func(s string) bool { return strings.HasPrefix(s, "Sunday") }},
	{"a clock of twelve hours", func(s string) bool { return strings.Contains(s, "PM") }},
	{"a clock that never shows it", func(s string) bool { return strings.Contains(s, "24:00") || strings.Contains(s, ":60") }},
	{"a zone that has several meanings, or is a remark", func(s string) bool {
		return strings.Contains(s, "EST") || strings.Contains(s, "CET") || strings.Contains(s, "(")
	}},
	{"digits whose meaning is told by how many they are", func(s string) bool {
		return strings.HasPrefix(s, "20261129") || strings.Contains(s, "100506") || strings.HasSuffix(s, " 10") || strings.Contains(s, " 10 ") || strings.Contains(s, "T10") && !strings.Contains(s, "10:") || strings.Contains(s, " 10") && !strings.Contains(s, "10:")
	}},
	{"one digit of a month or day in a date of digits", func(s string) bool { return strings.HasPrefix(s, "2026-11-9") || strings.HasPrefix(s, "2026/1/2") }},
	{"other separators", func(s string) bool {
		return strings.HasPrefix(s, "2026.") || strings.HasPrefix(s, "2026 ") || strings.HasPrefix(s, "29-Nov") || strings.HasPrefix(s, "Nov") || strings.Contains(s, "  ") || strings.Contains(s, "6, ") || strings.Contains(s, "9, ")
	}},
	{"a date of the year's weeks or days", func(s string) bool { return strings.HasPrefix(s, "2026-W") || strings.HasPrefix(s, "2026-333") }},
	{"no clock behind a named month", func(s string) bool { return !strings.Contains(s, ":") }},
}

func TestEverySpellingOfATimeThatIsTakenMeansWhatClickHouseReads(t *testing.T) {
	e := newEngine(t)
	for _, zone := range []string{"UTC", "America/New_York"} {
		codec, err := record.NewCodec("DateTime64(3, '"+zone+"')", time.UTC)
		require.NoError(t, err)
		all := spelled()
		taken := 0
		for i, read := range reads(t, e, all, zone) {
			encoded, err := codec.AppendText(nil, []byte(all[i]))
			if err != nil {
				known := false
				for _, r := range refusedSpellings {
					known = known || r.holds(all[i])
				}
				assert.True(t, known || read == "-", "%q is refused (%v), and ClickHouse reads %s", all[i], err, read)
				continue
			}
			taken++
			var ms int64
			for k := range 8 {
				ms |= int64(encoded[k]) << (8 * k)
			}
			assert.Equal(t, read, fmt.Sprint(ms), "%q in %s", all[i], zone)
		}
		assert.Greater(t, taken, 150)
	}
}

func TestTheSpellingsOfTheManualAreTaken(t *testing.T) {
	codec, err := record.NewCodec("DateTime64(3, 'UTC')", time.UTC)
	require.NoError(t, err)
	want, err := codec.AppendText(nil, []byte("2026-11-29T10:00:00Z"))
	require.NoError(t, err)
	for _, spelling := range []string{
		"2026/11/29 10:00:00", "2026/11/29T10:00", "2026/11/29 12:00:00+02:00", "2026-11-29 10:00:00 UTC", "2026-11-29 10:00:00 GMT", "2026-11-29 10:00:00 Z",
		"2026-11-29 12:00:00 +0200", "2026-11-29T10:00:00.000 UTC", "Sun, 29 Nov 2026 10:00:00 GMT", "Sun, 29 Nov 2026 12:00:00 +0200", "29 Nov 2026 10:00:00", "29 nov 2026 10:00 UTC",
		"20261129T100000Z", "20261129T100000", "20261129T120000+0200", "20261129T100000.000Z",
	} {
		encoded, err := codec.AppendJSON(nil, record.AppendJSONString(nil, spelling))
		if assert.NoError(t, err, spelling) {
			assert.Equal(t, want, encoded, spelling)
		}
	}
	for _, other := range []string{"29/11/2026 10:00:00", "02/03/2026", "Mon, 29 Nov 2026 10:00:00 GMT", "Sunday, 29-Nov-26 10:00:00 GMT", "2026-11-29 10:00:00 CET", "2026-11-29 10:00:00 PM", "2026/02/30 10:00:00", "2026-W48-7", "20261129100000", "2026/11/29 "} {
		_, err := codec.AppendJSON(nil, record.AppendJSONString(nil, other))
		assert.Error(t, err, other)
	}
}

// reads is what ClickHouse makes of the texts, in milliseconds, "-" for nothing.
func reads(t *testing.T, e *engine, texts []string, zone string) []string {
	t.Helper()
	e.run("CREATE OR REPLACE TABLE spellings (n UInt32, s String) ENGINE = Memory", nil, "")
	var rows strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&rows, "%d\t%s\n", i, text)
	}
	e.run("INSERT INTO spellings FORMAT TSV", []byte(rows.String()), "")
	answer := e.run("SELECT ifNull(toString(toUnixTimestamp64Milli(parseDateTime64BestEffortOrNull(s, 3, '"+zone+"'))), '-') FROM spellings ORDER BY n FORMAT TSV", nil, "")
	lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
	require.Len(t, lines, len(texts))
	return lines
}
