package query

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// defaultBucketAlias names a time bucket that its caller did not name.
const defaultBucketAlias = "time_bucket"

// timeBucket adds the start of each row's interval to the outputs.
func (b *builder) timeBucket() *Error {
	t := b.doc.TimeBucket
	if t == nil {
		return nil
	}
	col, err := b.timeColumn("time_bucket", t.Column)
	if err != nil {
		return err
	}
	every, err := parseEvery(t.Every)
	if err != nil {
		return err
	}
	zone, err := loadZone("time_bucket.time_zone", t.TimeZone)
	if err != nil {
		return err
	}
	if isDate(col) && !every.wholeDays() {
		return invalid("time_bucket.every: the column %q holds dates, so it takes whole days such as 1d or 1w, or months", excerpt.Of(t.Column))
	}
	b.bucket = output{name: t.Alias}
	if t.Alias == "" {
		b.bucket.name = defaultBucketAlias
	}
	if len(b.bucket.name) > maxNameLen {
		return invalid("time_bucket: the alias is longer than %d bytes", maxNameLen)
	}
	if every.months == 0 && zone == time.UTC && !t.Fill && b.compared == nil {
		b.bucket.sql = bucketSQL(col, every)
	} else if err := b.calendarBucket(col, every, zone); err != nil {
		return err
	}
	b.selected = append(b.selected, b.bucket)
	return nil
}

// calendarBucket computes the bucket by what is known here of the zone.
func (b *builder) calendarBucket(col column, every every, zone *time.Location) *Error {
	from, until := b.bucketTimes(col.name)
	c := newCalendar(every, zone, from, until)
	start := b.startSQL(col, c)
	if b.compared != nil {
		var err *Error
		if start, err = b.earlierStart(col, c, start, zone); err != nil {
			return err
		}
	}
	if !b.doc.TimeBucket.Fill {
		b.bucket.sql = instantSQL(start)
		return nil
	}
	b.bucket.sql = b.indexSQL(start, c)
	if col.stored != col.plain {
		b.bucket.sql = "assumeNotNull(" + b.bucket.sql + ")"
	}
	return b.startFilling(col, c, zone)
}

// bucketTimes are the times that the rows of the answer lie between: those of
// the time range, when it is on the column of the bucket.
func (b *builder) bucketTimes(column string) (from, until int64) {
	from, until = firstTime, lastTime
	if p := b.period; p != nil && p.column.name == column {
		if !p.since.IsZero() {
			from = p.since.Unix()
		}
		if b.compared != nil {
			from = b.compared.since.Unix()
		}
		if !p.until.IsZero() {
			until = p.until.Unix() + 1
		}
	}
	return from, until
}

// bucketSQL is the start of the interval in UTC. Whole weeks begin on Monday,
// every other interval is counted from 1970. ClickHouse's own function is right
// for what a DateTime can hold; beyond it the start is computed.
func bucketSQL(col column, e every) string {
	if col.typ.Kind == coltype.DateTime && !e.weeks() {
		length, unit := e.seconds, "SECOND"
		if e.wholeDays() {
			length, unit = e.seconds/daySeconds, "DAY"
		}
		return fmt.Sprintf("toStartOfInterval(%s, INTERVAL %d %s, 'UTC')", col.sql, length, unit)
	}
	count, seconds, length, anchor := "toInt64("+col.sql+")", "", e.seconds, int64(firstMonday)
	ticks := int64(1) // a second
	switch col.typ.Kind {
	case coltype.Date, coltype.Date32:
		seconds, length, anchor = " * 86400", e.seconds/daySeconds, firstMonday/daySeconds
	case coltype.DateTime64:
		count, ticks = rawSQL(col), ticksOf(col)
	}
	since := count
	if e.weeks() {
		since += fmt.Sprintf(" - %d", anchor*ticks)
	}
	// A divisor without a sign would take that of the count away.
	start := fmt.Sprintf("%s - positiveModulo(%s, toInt64(%d))", count, since, length*ticks)
	if ticks > 1 {
		return fmt.Sprintf("toDateTime64(intDiv(%s, %d), 0, 'UTC')", start, ticks)
	}
	return instantSQL("(" + start + ")" + seconds)
}

// firstMonday is the first one after the beginning of 1970, in seconds.
const firstMonday = 4 * daySeconds

func isDate(col column) bool { return col.typ.Kind == coltype.Date || col.typ.Kind == coltype.Date32 }

// instantSQL is the time of a number of seconds, of which ClickHouse shows more
// than a DateTime holds.
func instantSQL(seconds string) string { return "toDateTime64(" + seconds + ", 0, 'UTC')" }

// rawSQL is a DateTime64 as it is stored: a number of ticks since 1970.
func rawSQL(col column) string { return "reinterpretAsInt64(" + col.sql + ")" }

// ticksOf is how many ticks of a DateTime64 make a second.
func ticksOf(col column) int64 { return int64(math.Pow10(col.typ.Precision)) }

// secondsSQL is the time of a column in whole seconds since 1970. A day is when
// it begins in the zone.
func (b *builder) secondsSQL(col column, zone clocks) string {
	count := "toInt64(" + col.sql + ")"
	switch {
	case isDate(col):
		days := zone.midnights()
		if len(days) == 1 {
			return fmt.Sprintf("(%s * 86400 - %d)", count, days[0].before)
		}
		first, before := make([]int64, len(days)), make([]int64, len(days))
		for i, d := range days {
			first[i], before[i] = d.day, d.before
		}
		return fmt.Sprintf("(%s * 86400 - %s)", count, b.lookUp(count, first, before))
	case col.typ.Kind == coltype.DateTime64 && col.typ.Precision > 0:
		raw, ticks := rawSQL(col), ticksOf(col)
		return fmt.Sprintf("intDiv(%s - positiveModulo(%s, toInt64(%d)), %d)", raw, raw, ticks, ticks)
	case col.typ.Kind == coltype.DateTime64:
		return rawSQL(col)
	}
	return count
}

// startSQL is the start of the interval that the calendar puts a column's time
// in, in seconds since 1970.
func (b *builder) startSQL(col column, c *calendar) string {
	seconds := b.secondsSQL(col, c.clocks)
	switch {
	case c.length == 0:
		return fmt.Sprintf("roundDown(%s, %s)", seconds, b.numbers(c.starts))
	case len(c.runs) == 1:
		return fmt.Sprintf("(%s - positiveModulo(%s + %d, toInt64(%d)))", seconds, seconds, c.runs[0].phase, c.length)
	}
	var froms, phases, lasts []int64
	for _, r := range c.runs {
		froms, phases, lasts = append(froms, r.from), append(phases, r.phase), append(lasts, r.last)
	}
	list := b.numbers(froms)
	from := "roundDown(" + seconds + ", " + list + ")"
	of := func(values []int64) string {
		return fmt.Sprintf("transform(%s, %s, %s, toInt64(0))", from, list, b.numbers(values))
	}
	at := seconds
	if c.length > maxInstants {
		at = "least(" + seconds + ", " + of(lasts) + ")"
	}
	start := fmt.Sprintf("greatest(%s, %s - positiveModulo(%s + %s, toInt64(%d)))", from, at, at, of(phases), c.length)
	if col.stored == col.plain {
		return start
	}
	// The greatest of NULL and a number is the number.
	return "if(" + col.sql + " IS NULL, NULL, " + start + ")"
}

// lookUp is the value that belongs to the last of the keys that is not above a
// number. A default is for NULL alone.
func (b *builder) lookUp(number string, keys, values []int64) string {
	list := b.numbers(keys)
	return fmt.Sprintf("transform(roundDown(%s, %s), %s, %s, toInt64(0))", number, list, list, b.numbers(values))
}

// numbers binds a list that is made here.
func (b *builder) numbers(list []int64) string {
	const digits = 12 // of a number, with its comma
	text := make([]byte, 0, digits*len(list)+2)
	text = append(text, '[')
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return "{" + b.values.own(string(append(text, ']'))) + ":Array(Int64)}"
}

// timeColumn checks a column that must hold dates or times.
func (b *builder) timeColumn(clause, name string) (column, *Error) {
	col, err := b.cols.lookup(clause+".column", name)
	if err != nil {
		return col, err
	}
	switch col.typ.Kind {
	case coltype.Date, coltype.Date32, coltype.DateTime, coltype.DateTime64:
		return col, nil
	}
	return col, invalidColumn(name, "%s: the column %q of type %s holds no dates or times", clause, excerpt.Of(name), col.plain)
}
