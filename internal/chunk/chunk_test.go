package chunk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

const columns = `[{"name":"id","type":"UInt8"},{"name":"n","type":"UInt8"}]`

func rowBinary(rows int, body string) mq.Chunk {
	return mq.Chunk{
		Header: mq.Header{Version: mq.Version, Format: mq.FormatRowBinary, Columns: columns, Rows: rows},
		Body:   []byte(body),
	}
}

func lines(rows int, body string) mq.Chunk {
	c := rowBinary(rows, body)
	c.Format = mq.FormatJSONCompactEachRow
	return c
}

func TestRowsAreFoundAsTheyCame(t *testing.T) {
	o := NewOpener()
	packer, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	packed := lines(2, string(packer.EncodeAll([]byte("[1,2]\n[3,4]"), nil)))
	packed.Encoding = "zstd"
	for name, c := range map[string]struct {
		chunk         mq.Chunk
		first, second string
	}{
		"binary":     {rowBinary(2, "\x01\x02\x03\x04"), "\x01\x02", "\x03\x04"},
		"lines":      {lines(2, "[1,2]\n[3,4]\n"), "[1,2]\n", "[3,4]\n"},
		"compressed": {packed, "[1,2]\n", "[3,4]"},
	} {
		t.Run(name, func(t *testing.T) {
			opened, err := o.Open(c.chunk)
			require.NoError(t, err)
			assert.Equal(t, c.first+c.second, string(opened.Slice(0, 2)), "all of them without being split")
			require.NoError(t, opened.Split())
			assert.Equal(t, c.first, string(opened.Slice(0, 1)))
			assert.Equal(t, c.second, string(opened.Slice(1, 2)))
			require.NoError(t, opened.Decode())
			row, err := opened.Layout.AppendObject(nil, opened.Slice(1, 2), nil, record.RenderOptions{})
			require.NoError(t, err)
			assert.Equal(t, `{"id":3,"n":4}`, string(row))
		})
	}
}

func TestChunksThatCannotBeOpened(t *testing.T) {
	o := NewOpener()
	for name, c := range map[string]struct {
		spoil   func(*mq.Chunk)
		unknown bool
	}{
		"not a chunk":      {func(c *mq.Chunk) { c.Version = "" }, true},
		"unknown version":  {func(c *mq.Chunk) { c.Version = "2" }, true},
		"unknown format":   {func(c *mq.Chunk) { c.Format = "CSV" }, true},
		"unknown encoding": {func(c *mq.Chunk) { c.Encoding = "br" }, true},
		"broken zstd":      {func(c *mq.Chunk) { c.Encoding = "zstd" }, true},
		"no columns":       {func(c *mq.Chunk) { c.Columns = `[]` }, false},
		"broken columns":   {func(c *mq.Chunk) { c.Columns = `{` }, false},
		"unknown type":     {func(c *mq.Chunk) { c.Columns = `[{"name":"a","type":"NoSuchType"}]` }, false},
		"no rows":          {func(c *mq.Chunk) { c.Rows = 0 }, false},
		"negative rows":    {func(c *mq.Chunk) { c.Rows = -1 }, false},
		"too many rows":    {func(c *mq.Chunk) { c.Rows = 1 << 40 }, false},
		"no body":          {func(c *mq.Chunk) { c.Body = nil }, false},
	} {
		bad := rowBinary(1, "\x01\x02")
		c.spoil(&bad)
		_, err := o.Open(bad)
		require.Error(t, err, name)
		_, unknown := errors.AsType[*FormatError](err)
		assert.Equal(t, c.unknown, unknown, name)
	}
}

func TestBodiesThatDoNotPairWithTheirHeader(t *testing.T) {
	o := NewOpener()
	for name, c := range map[string]mq.Chunk{
		"cut":            rowBinary(2, "\x01\x02\x03"),
		"a row too many": rowBinary(1, "\x01\x02\x03\x04"),
		"a line too few": lines(2, "[1,2]\n"),
	} {
		opened, err := o.Open(c)
		require.NoError(t, err, name)
		assert.Error(t, opened.Split(), name)
		assert.Error(t, opened.Split(), "and again: "+name)
		assert.Error(t, opened.Decode(), name)
	}
	opened, err := o.Open(lines(1, "[1]\n"))
	require.NoError(t, err)
	require.NoError(t, opened.Split(), "values are not looked at")
	assert.Error(t, opened.Decode())
}

func TestThereIsOneFormOfAColumnList(t *testing.T) {
	o := NewOpener()
	a, err := o.Open(rowBinary(1, "\x01\x02"))
	require.NoError(t, err)
	b, err := o.Open(rowBinary(1, "\x03\x04"))
	require.NoError(t, err)
	assert.Same(t, a.Form, b.Form)
	c, err := o.Open(lines(1, "[1,2]"))
	require.NoError(t, err)
	assert.NotSame(t, a.Form, c.Form)
	for i := range maxForms + 10 {
		other := rowBinary(1, "\x01\x02")
		other.Columns = fmt.Sprintf(`[{"name":"c%d","type":"UInt16"}]`, i)
		_, err := o.Open(other)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, o.forms.Len(), maxForms)
}

func TestParkedRows(t *testing.T) {
	o := NewOpener()
	letter := func(c mq.Chunk) *mq.DeadLetter { return &mq.DeadLetter{Header: c.Header, Row: c.Body} }
	for _, c := range []mq.Chunk{rowBinary(1, "\x01\x02"), lines(1, "[1,2]\n")} {
		form, row, err := o.OpenLetter(letter(c))
		require.NoError(t, err)
		assert.Equal(t, "\x01\x02", string(row))
		assert.Equal(t, c.Format, form.Format)
	}
	raw := letter(rowBinary(1, "anything"))
	raw.Version = ""
	_, _, err := o.OpenLetter(raw)
	_, unknown := errors.AsType[*FormatError](err)
	assert.True(t, unknown)
	_, _, err = o.OpenLetter(letter(lines(1, "[1")))
	assert.Error(t, err)
}
