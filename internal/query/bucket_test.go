package query_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

var bucketSeed = flag.Uint64("bucket.seed", 20181104, "the seed of the times that are put into buckets")

// zones are those whose clocks were set in unusual ways.
var zones = []string{
	"Europe/Berlin",       // by an hour, at night; its own time until 1893
	"Africa/Monrovia",     // 44 minutes and 30 seconds behind until 1972
	"America/Sao_Paulo",   // over midnight, until 2018
	"America/St_Johns",    // by half hours, at a minute past midnight
	"America/New_York",    // behind of UTC
	"Asia/Beirut",         // over midnight, still
	"Africa/Cairo",        // over midnight, again
	"Asia/Kolkata",        // by half an hour from UTC
	"Asia/Kathmandu",      // by a quarter
	"Australia/Lord_Howe", // by half an hour
	"Antarctica/Troll",    // by two hours
	"Pacific/Apia",        // over a whole day
	"Asia/Manila",         // over the date line
	"UTC",
}

// lengths has what buckets may last: months, or seconds.
var lengths = map[string]struct{ months, seconds int64 }{
	"1mo": {months: 1}, "5mo": {months: 5}, "1q": {months: 3}, "1y": {months: 12}, "1y6mo": {months: 18},
	"1d": {seconds: 86400}, "3d": {seconds: 3 * 86400}, "1w": {seconds: 7 * 86400}, "2w": {seconds: 14 * 86400},
	"7s": {seconds: 7}, "15m": {seconds: 900}, "40m": {seconds: 2400}, "1h": {seconds: 3600},
	"90m": {seconds: 5400}, "2h": {seconds: 7200}, "5h": {seconds: 18000}, "6h": {seconds: 21600}, "12h": {seconds: 43200},
}

// localTime is what clocks show, in seconds as if it were UTC.
func localTime(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return at + int64(offset)
}

// firstShown is when clocks first show a local time, or pass it.
func firstShown(zone *time.Location, local int64) int64 {
	const around = 2 * 86400
	first, found := int64(0), false
	for at := local - around; at <= local+around; at += 1800 {
		candidate := local - (localTime(zone, at) - at)
		if localTime(zone, candidate) == local && (!found || candidate < first) {
			first, found = candidate, true
		}
	}
	if found {
		return first
	}
	return shifted(zone, local-around, local+around, func(at int64) bool { return localTime(zone, at) >= local })
}

// shifted finds the first time for which something holds that does ever after.
func shifted(_ *time.Location, low, high int64, holds func(int64) bool) int64 {
	for low+1 < high {
		if middle := (low + high) / 2; holds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

func floorTo(n, m int64) int64 { return n - ((n%m)+m)%m }

// bucketOf is the start of a bucket, found without what the package knows of
// zones and calendars.
func bucketOf(zone *time.Location, every string, at int64) int64 {
	length := lengths[every]
	local := localTime(zone, at)
	if length.months > 0 {
		t := time.Unix(local, 0).UTC()
		month := floorTo(int64(t.Year()-1970)*12+int64(t.Month())-1, length.months)
		for ; ; month -= length.months {
			start := firstShown(zone, time.Date(1970, time.Month(month+length.months+1), 1, 0, 0, 0, 0, time.UTC).Unix())
			if start <= at {
				return start
			}
			if start = firstShown(zone, time.Date(1970, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC).Unix()); start <= at {
				return start
			}
		}
	}
	anchor := int64(0)
	if length.seconds%(7*86400) == 0 {
		anchor = 4 * 86400
	}
	start := floorTo(local-anchor, length.seconds) + anchor
	if length.seconds > 3600 {
		for next := start + 2*length.seconds; ; next -= length.seconds {
			if first := firstShown(zone, next); first <= at {
				return first
			}
		}
	}
	offset := local - at
	start -= offset
	if localTime(zone, start)-start == offset {
		return start
	}
	return shifted(zone, start, at, func(t int64) bool { return localTime(zone, t)-t == offset })
}

// clockTimes are times near those at which the clocks of a zone are set, and
// others.
func clockTimes(r *rand.Rand, zone *time.Location, n int) []int64 {
	first, last := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2299, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	times := []int64{first, last, -1, 0, 1<<32 - 1, 1 << 32}
	for len(times) < n {
		at := first + r.Int64N(last-first)
		_, end := time.Unix(at, 0).In(zone).ZoneBounds()
		if r.IntN(4) > 0 && !end.IsZero() {
			near := []int64{-7200, -3601, -1800, -60, -1, 0, 1, 60, 1800, 3599, 3600, 7200, 10800, 86399}
			at = end.Unix() + near[r.IntN(len(near))] + r.Int64N(2)
		}
		times = append(times, min(max(at, first), last))
	}
	return times
}

// bucketTable makes a table with a row of each time, in columns of every type.
func (e *engine) bucketTable(t *testing.T, times []int64) *schema.Table {
	t.Helper()
	e.Exec(t, "CREATE TABLE clocked (k UInt32, s DateTime64(0), ms DateTime64(3, 'Asia/Kolkata'), ns Nullable(DateTime64(9, 'UTC')), dt DateTime, lc LowCardinality(Nullable(DateTime)),"+
		" d32 Date32, d Date, ld LowCardinality(Nullable(Date))) ENGINE = MergeTree ORDER BY k SETTINGS allow_nullable_key = 1, allow_suspicious_low_cardinality_types = 1")
	rows := make([]string, len(times))
	for i, at := range times {
		ns, dt, day := "NULL", "NULL", "NULL"
		date := floorTo(at, 86400) / 86400
		if at > -9_000_000_000 && at < 9_000_000_000 {
			ns = fmt.Sprintf("fromUnixTimestamp64Nano(toInt64(%d), 'UTC')", at*1_000_000_000+999_999_999)
		}
		if at >= 0 && at < 1<<32 {
			dt = fmt.Sprintf("toDateTime(%d)", at)
		}
		if date >= 0 && date < 1<<16 {
			day = fmt.Sprintf("toDate('%s')", time.Unix(at, 0).UTC().Format(time.DateOnly))
		}
		rows[i] = fmt.Sprintf("(%d, toDateTime64(toInt64(%d), 0), fromUnixTimestamp64Milli(toInt64(%d)), %s, ifNull(%s, 0), %s, toDate32(toInt32(%d)), ifNull(%s, 0), %s)",
			i, at, at*1000+999, ns, dt, dt, date, day, day)
	}
	e.Exec(t, "INSERT INTO clocked VALUES "+strings.Join(rows, ", "))
	return e.describe(t, "clocked")
}

// Buckets in a zone begin when a second implementation says, for every type, in
// zones whose clocks were set in any way, for all times that a column can hold.
func TestBucketsInZones(t *testing.T) {
	e := startEngine(t)
	for i, name := range zones {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(*bucketSeed, uint64(i)))
		times := clockTimes(r, zone, 40)
		table := e.bucketTable(t, times)
		for _, every := range slices.Sorted(maps.Keys(lengths)) {
			length := lengths[every]
			columns := []string{"s", "ms", "ns", "dt", "lc"}
			if length.months > 0 || length.seconds%86400 == 0 {
				columns = append(columns, "d32", "d", "ld")
			}
			column := columns[r.IntN(len(columns))]
			rows := e.rows(t, table, policy.OperatorSelect(), fmt.Sprintf(
				`{"columns":["k"],"time_bucket":{"column":%q,"every":%q,"time_zone":%q,"alias":"t"},"order_by":[{"column":"k"}]}`, column, every, name))
			require.Len(t, rows, len(times))
			for _, row := range rows {
				checkBucket(t, zone, every, column, times, row)
			}
		}
		e.Exec(t, "DROP TABLE clocked")
	}
}

func checkBucket(t *testing.T, zone *time.Location, every, column string, times []int64, row string) {
	t.Helper()
	var got struct {
		K int
		T *time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(row), &got), row)
	at, date := times[got.K], floorTo(times[got.K], 86400)
	isNull := false
	switch column {
	case "ns":
		isNull = at <= -9_000_000_000 || at >= 9_000_000_000
	case "dt", "lc":
		if at < 0 || at >= 1<<32 {
			at, isNull = 0, column == "lc"
		}
	case "d", "ld":
		if date < 0 || date >= 86400<<16 {
			date, isNull = 0, column == "ld"
		}
	}
	if strings.Contains(column, "d") && column != "dt" {
		at = firstShown(zone, date)
	}
	if isNull {
		require.Nil(t, got.T, "%s by %s in %s: %s", column, every, zone, row)
		return
	}
	want := time.Unix(bucketOf(zone, every, at), 0).UTC()
	require.NotNil(t, got.T)
	require.Equal(t, want, got.T.UTC(), "%s %s (%s) by %s in %s", column, time.Unix(at, 0).UTC(), time.Unix(at, 0).In(zone), every, zone)
}

// What the manual says of days on which clocks are set.
func TestBucketsOnDaysWithoutTwentyFourHours(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE hours (ts DateTime) ENGINE = MergeTree ORDER BY ts")
	table := e.describe(t, "hours")
	for _, c := range []struct{ name, zone, every, from, until, want string }{
		{"a day of 23 hours", "Europe/Berlin", "1d", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-28T23:00:00Z 23h"},
		{"a day of 25 hours", "Europe/Berlin", "1d", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "2026-10-24T22:00:00Z 25h"},
		{"the hour that is shown twice is two", "Europe/Berlin", "1h", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T00:00:00Z 1h, 2026-10-25T01:00:00Z 1h"},
		{"in half-hour zones, hours begin at the half", "Asia/Kolkata", "1h", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z 1h"},
		{"two hours of which one is shown twice are three", "Europe/Berlin", "2h", "2026-10-24T22:00:00Z", "2026-10-25T03:00:00Z", "2026-10-24T22:00:00Z 2h, 2026-10-25T00:00:00Z 3h"},
		{"two hours of which one is skipped are one", "Europe/Berlin", "2h", "2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z", "2026-03-28T23:00:00Z 2h, 2026-03-29T01:00:00Z 1h"},
		{"half a day of eleven hours", "Europe/Berlin", "12h", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-28T23:00:00Z 11h, 2026-03-29T10:00:00Z 12h"},
		{"a day without a midnight", "America/Sao_Paulo", "1d", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", "2018-11-04T03:00:00Z 23h"},
		{"a day whose last hour is shown twice", "America/Sao_Paulo", "1d", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", "2018-02-17T02:00:00Z 25h"},
		{"a half hour that clocks are set by", "Australia/Lord_Howe", "1h", "2026-04-04T14:00:00Z", "2026-04-04T16:30:00Z", "2026-04-04T14:00:00Z 1h, 2026-04-04T15:00:00Z 30m, 2026-04-04T15:30:00Z 1h"},
		{"a month of 31 days and an hour", "Europe/Berlin", "1mo", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z", "2026-09-30T22:00:00Z 745h"},
		{"a week with a day that was skipped", "Pacific/Apia", "1w", "2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z", "2011-12-26T10:00:00Z 144h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := time.Parse(time.RFC3339, c.from)
			require.NoError(t, err)
			until, err := time.Parse(time.RFC3339, c.until)
			require.NoError(t, err)
			e.Exec(t, "TRUNCATE TABLE hours", fmt.Sprintf("INSERT INTO hours SELECT toDateTime(%d + number * 60) FROM numbers(%d)", from.Unix(), int(until.Sub(from).Minutes())))
			var got []string
			for _, row := range e.rows(t, table, policy.OperatorSelect(), fmt.Sprintf(`{"aggregations":[{"fn":"count"}],
				"time_bucket":{"column":"ts","every":%q,"time_zone":%q,"alias":"t"},"order_by":[{"column":"t"}]}`, c.every, c.zone)) {
				var bucket struct {
					T     string
					Count int
				}
				require.NoError(t, json.Unmarshal([]byte(row), &bucket))
				length := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace((time.Duration(bucket.Count) * time.Minute).String())
				got = append(got, bucket.T+" "+length)
			}
			assert.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

func TestBucketsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ bucket, message string }{
		{`"every":"1mo1d"`, "mixes months"}, {`"every":"1q2h"`, "mixes months"}, {`"every":"0mo"`, "neither a duration"}, {`"every":"1.5mo"`, "neither a duration"},
		{`"every":"1M"`, "neither a duration"}, {`"every":"-1mo"`, "neither a duration"}, {`"every":"mo"`, "neither a duration"}, {`"every":"1 mo"`, "neither a duration"},
		{`"every":"401y"`, "400 years"}, {`"every":"99999999999999999999y"`, "neither a duration"},
		{`"every":"1d","time_zone":"Europe/Brelin"`, "not a time zone"}, {`"every":"1d","time_zone":"Local"`, "not a time zone"},
		{`"every":"1d","time_zone":"../../etc/passwd"`, "not a time zone"}, {`"every":"1d","time_zone":"/etc/localtime"`, "not a time zone"},
		{`"every":"1d","time_zone":"right/Europe/Berlin"`, "not a time zone"}, {`"every":"1d","time_zone":"+02:00"`, "not a time zone"},
		{`"every":"1d","time_zone":"` + strings.Repeat("Europe/", 20) + `Berlin"`, "not a time zone"},
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"time_bucket":{"column":"ts",`+c.bucket+`}}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, c.bucket)
		assert.Contains(t, e.Message, c.message, c.bucket)
	}
	_, err := build(types(), policy.OperatorSelect(), `{"columns":["i8"],"time_bucket":{"column":"d","every":"6h","time_zone":"Europe/Berlin"}}`)
	assert.ErrorContains(t, err, "whole days")
	_, err = build(types(), policy.OperatorSelect(), `{"columns":["i8"],"time_bucket":{"column":"d","every":"1mo"}}`)
	assert.NoError(t, err)
}
