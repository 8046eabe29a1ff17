package api

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/letters"
	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestParkedRowsAreShownWhateverTheirFormat(t *testing.T) {
	const columns = `[{"name":"n","type":"UInt8"},{"name":"extra","type":"JSON"}]`
	letter := func(version, format, row string) mq.DeadLetter {
		return mq.DeadLetter{Header: mq.Header{Version: version, Format: format, Columns: columns, Rows: 1}, Row: []byte(row)}
	}
	s := &Server{Options: Options{Letters: letters.NewKeeper(letters.Options{})}}
	shown := s.answerLetter(letter(mq.Version, mq.FormatJSONCompactEachRow, "[7,{\"a\":[1]}]\n"))
	assert.Equal(t, `{"n":7,"extra":{"a":[1]}}`, string(shown.Row))
	assert.Nil(t, shown.Raw)
	binary := letter(mq.Version, mq.FormatRowBinary, "\x07")
	binary.Columns = `[{"name":"n","type":"UInt8"}]`
	assert.Equal(t, `{"n":7}`, string(s.answerLetter(binary).Row))
	for _, l := range []mq.DeadLetter{
		letter(mq.Version, mq.FormatJSONCompactEachRow, "[7"), letter(mq.Version, mq.FormatRowBinary, "\x07"), letter(mq.Version, "Parquet", "PAR1"), letter("", "", "anything"),
	} {
		assert.Equal(t, l.Row, s.answerLetter(l).Raw, "what does not read is shown as it is")
	}
}
