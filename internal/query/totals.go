package query

// totalsFormat has each row, and the totals, on a line of their own: {"row":{…}},
// {"totals":{…}}, and others that say nothing of the answer.
const totalsFormat = "JSONEachRowWithProgress"

// checkTotals refuses totals where there are none, or no place for them.
func (b *builder) checkTotals() *Error {
	d := b.doc
	switch {
	case !d.Totals:
		return nil
	case len(d.Aggregations) == 0:
		return invalid("totals: they are those of aggregations, and this query has none")
	case len(d.GroupBy) == 0 && d.TimeBucket == nil:
		return invalid("totals: without groups the answer is one row, which is its own total; leave totals out or name group_by")
	case b.opts.Format != FormatJSON:
		return invalid("totals: only a JSON answer has a place for them; ask with Accept: application/json, or leave totals out")
	}
	return nil
}

// format is the name of the answer's format.
func (b *builder) format() string {
	if b.doc.Totals {
		return totalsFormat
	}
	return b.opts.Format.Name()
}

// addTotals has ClickHouse count what having lets through, and nothing else.
func addTotals(settings map[string]string) {
	settings["totals_mode"] = "after_having_exclusive"
	delete(settings, "output_format_json_array_of_rows")
}

// groupKey is what is grouped by for a column. Totals have no group: the key is
// null there, for which it must be of a type that has NULL.
func (b *builder) groupKey(sql string, nullable bool) string {
	if !b.doc.Totals || !nullable {
		return sql
	}
	key := "toNullable(" + sql + ")"
	for i := range b.selected {
		if out := &b.selected[i]; out.of == nil && out.sql == sql {
			out.sql = key
		}
	}
	if b.keys == nil {
		b.keys = map[string]string{}
	}
	b.keys[sql] = key
	return key
}

// asGrouped is a column as it is grouped by, when it is.
func (b *builder) asGrouped(sql string) string {
	if key, ok := b.keys[sql]; ok {
		return key
	}
	return sql
}
