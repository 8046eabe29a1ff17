package insert

import (
	"context"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// classStored is the class of an INSERT that succeeded.
const classStored = clickhouse.Class(255)

func settledVerdict(c clickhouse.Class) verdict {
	switch c {
	case clickhouse.ClassRejected:
		return verdictRefused
	case clickhouse.ClassSplittable:
		return verdictTooMuch
	}
	return verdictStored
}

// insert sends the job once.
func (f *flight) insert(j *job, ins Inserter) (clickhouse.Class, error) {
	body, err := j.body()
	if err != nil {
		// Rows that cannot be rendered for today's types stay what they were.
		return clickhouse.ClassRejected, err
	}
	ctx, cancel := context.WithTimeout(f.w.work, f.w.o.InsertTimeout)
	defer cancel()
	started := time.Now()
	err = ins.Insert(ctx, clickhouse.Request{
		SQL: j.statement(f.b.topic.Table), Body: body, BodyBytes: int64(body.left), Settings: j.settings(),
	})
	class := classStored
	if err != nil {
		class = f.classify(err)
	}
	f.w.metrics.insert(class, time.Since(started))
	return class, err
}

// classify is clickhouse.Classify, except for refusals of the settings we
// send: those say nothing about the rows.
func (f *flight) classify(err error) clickhouse.Class {
	switch exceptionCode(err) {
	case 115, 452: // UNKNOWN_SETTING, SETTING_CONSTRAINT_VIOLATION
		return clickhouse.ClassDenied
	}
	return clickhouse.Classify(err)
}

func (j job) statement(table string) string {
	return "INSERT INTO " + clickhouse.QuoteIdent(table) + " " + j.shape.into + " FORMAT " + j.format()
}

// settings pin what a user's profile could change about the meaning of an
// INSERT: that its errors reach us, that no row and no column is dropped in
// silence, and that what is left out gets its default.
func (j job) settings() map[string]string {
	settings := map[string]string{
		"async_insert":                             "0",
		"wait_end_of_query":                        "1",
		"insert_deduplication_token":               j.token(),
		"input_format_skip_unknown_fields":         "0",
		"input_format_allow_errors_num":            "0",
		"input_format_allow_errors_ratio":          "0",
		"input_format_with_names_use_header":       "1",
		"input_format_with_types_use_header":       "1",
		"input_format_null_as_default":             "0",
		"input_format_defaults_for_omitted_fields": "1",
		"input_format_parallel_parsing":            "0",
		"date_time_input_format":                   "best_effort",
		"max_insert_block_size":                    strconv.Itoa(max(j.rows(), 1_048_449)),
	}
	if j.format() == mq.FormatJSONCompactEachRow {
		// Members of a named tuple are written by their names.
		settings["input_format_json_named_tuples_as_objects"] = "1"
	}
	return settings
}
