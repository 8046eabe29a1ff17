package record

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// columns builds columns from "name Type", or "name Type DEFAULT expression"
// and the like.
func columns(texts ...string) []Column {
	var all []Column
	for i, text := range texts {
		name, rest, _ := strings.Cut(text, " ")
		c := Column{Name: name, Type: rest, Position: i + 1}
		for _, kind := range []DefaultKind{DefaultExpression, DefaultMaterialized, DefaultAlias, DefaultEphemeral} {
			if typeText, expression, ok := strings.Cut(rest, " "+string(kind)); ok {
				c.Type, c.DefaultKind, c.DefaultExpression = typeText, kind, strings.TrimSpace(expression)
			}
		}
		all = append(all, c)
	}
	return all
}

// pages is the table of most cases.
func pages() *Table {
	return Compile("pages", columns(
		"event_id String", "page String", "org String DEFAULT ''", "secret String DEFAULT ''",
		"n Int64 DEFAULT 0", "ts DateTime64(3, 'UTC') DEFAULT now64(3)",
	), time.UTC)
}

// decoded is a copy of a Record and of the row as JSON.
type decoded struct {
	Record
	JSON string
}

// decodeAll reads a whole body that is not at fault itself.
func decodeAll(t *testing.T, table *Table, f InputFormat, body string, o DecodeOptions) []decoded {
	t.Helper()
	d := table.NewDecoder(f, []byte(body), o)
	var all []decoded
	for d.Next() {
		r := decoded{Record: d.Record()}
		if r.Err == nil {
			r.Row = append([]byte(nil), r.Row...)
			r.JSON = renderRow(t, r.Record)
		}
		all = append(all, r)
	}
	require.NoError(t, d.Err())
	return all
}

func renderRow(t *testing.T, r Record) string {
	t.Helper()
	layout, row := readRow(t, r)
	out, err := layout.AppendObject(nil, row, nil, RenderOptions{})
	require.NoError(t, err)
	return string(out)
}

// readRow returns a row and its layout as whoever reads a chunk does.
func readRow(t require.TestingT, r Record) (*Layout, []byte) {
	if r.Set.Format() == formatRowBinary {
		layout, err := ParseLayout(r.Set.Header(), time.UTC)
		require.NoError(t, err)
		return layout, r.Row
	}
	lines, err := ParseLines(r.Set.Header(), time.UTC)
	require.NoError(t, err)
	row, err := lines.AppendRows(nil, r.Row, 1)
	require.NoError(t, err)
	return lines.Layout(), row
}

// codes lists the records' error codes, "" for a row.
func codes(all []decoded) []string {
	list := []string{}
	for _, r := range all {
		code := ""
		if r.Err != nil {
			code = r.Err.Code
		}
		list = append(list, code)
	}
	return list
}

// bodyCode decodes a body that is at fault and returns its code.
func bodyCode(t *testing.T, f InputFormat, body string) string {
	t.Helper()
	d := pages().NewDecoder(f, []byte(body), DecodeOptions{})
	require.False(t, d.Next(), "no record of a refused body may be read")
	var fault *BodyError
	require.ErrorAs(t, d.Err(), &fault)
	return fault.Code
}

// bodyFault decodes a body that is at fault and returns why.
func bodyFault(t *testing.T, f InputFormat, body string) *BodyError {
	t.Helper()
	d := pages().NewDecoder(f, []byte(body), DecodeOptions{})
	require.False(t, d.Next(), "no record of a refused body may be read: %s", body)
	var fault *BodyError
	require.ErrorAs(t, d.Err(), &fault)
	return fault
}
