package query

import (
	"maps"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// DefaultMaxResultBytes caps an answer as ClickHouse holds it in memory. It is
// above the largest answer that is passed on, because rows of small numbers
// take more room in memory than as text.
const DefaultMaxResultBytes = 256 << 20

// Name returns ClickHouse's name of the format.
func (f Format) Name() string {
	switch f {
	case FormatCSV:
		return "CSVWithNames"
	case FormatTSV:
		return "TabSeparatedWithNames"
	case FormatArrow:
		return "ArrowStream"
	case FormatParquet:
		return "Parquet"
	}
	return "JSONEachRow"
}

// Records reports whether the format has a record of text for each row, so that a
// row can be left out of an answer.
func (f Format) Records() bool { return f != FormatArrow && f != FormatParquet }

// lines reports whether each row is a JSON object on a line of its own.
func (f Format) lines() bool { return f == FormatJSON || f == FormatNDJSON }

// usualSettings is room for the settings of a statement.
const usualSettings = 20

// settings pins how the statement runs and how its answer is rendered: every
// path of the product that shows a value shows it the same way.
func settings(doc *Document, grant *policy.BoundSelect, o Options) map[string]string {
	s := make(map[string]string, usualSettings)
	maps.Copy(s, grant.Settings())
	pin(s, doc.Int64 == "string", o)
	return s
}

func pin(s map[string]string, quoteInt64 bool, o Options) {
	s["readonly"] = "2"
	s["cancel_http_readonly_queries_on_client_close"] = "1"
	s["max_result_bytes"] = strconv.FormatInt(maxResultBytes(o), 10)
	s["result_overflow_mode"] = "throw"
	render(s, o.Format, quoteInt64)
	if o.Format == FormatJSON {
		s["output_format_json_array_of_rows"] = "1"
	}
}

// render pins how values are written.
func render(s map[string]string, f Format, quoteInt64 bool) {
	s["date_time_output_format"] = "iso"
	s["output_format_json_escape_forward_slashes"] = "0"
	s["output_format_json_quote_denormals"] = "0"
	// What is not UTF-8 would be no JSON.
	s["output_format_json_validate_utf8"] = "1"
	switch f {
	case FormatCSV:
		// A field for each column, which is read back as one.
		s["output_format_csv_serialize_tuple_into_separate_columns"] = "0"
	case FormatArrow:
		// Not every reader knows compressed batches.
		s["output_format_arrow_compression_method"] = "none"
	case FormatParquet:
		// Every reader has Snappy; not every one has Zstandard, or reads shapes.
		s["output_format_parquet_compression_method"] = "snappy"
		s["output_format_parquet_geometadata"] = "0"
	}
	quote := "0"
	if quoteInt64 {
		quote = "1"
	}
	s["output_format_json_quote_64bit_integers"] = quote
	s["output_format_json_quote_decimals"] = quote
}

func maxResultBytes(o Options) int64 {
	if o.MaxResultBytes > 0 {
		return o.MaxResultBytes
	}
	return DefaultMaxResultBytes
}

// ReadSettings are the settings of a statement that is written elsewhere: it
// only reads, and its answer is rendered as those of structured queries are.
func ReadSettings(f Format, quoteInt64 bool) map[string]string {
	s := make(map[string]string, usualSettings)
	s["default_format"] = f.Name()
	pin(s, quoteInt64, Options{Format: f})
	return s
}

// RenderSettings pin how values are written, and nothing of what a statement may
// do. JSON has a row on a line each.
func RenderSettings(f Format) map[string]string {
	s := make(map[string]string, usualSettings)
	s["default_format"] = f.Name()
	render(s, f, false)
	return s
}
