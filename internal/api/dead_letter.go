package api

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// rawJSON is JSON that is encoded already.
type rawJSON []byte

// MarshalJSON returns the bytes as they are.
func (r rawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// answerLetter renders a parked row as JSON. What cannot be read as a row is
// shown as the bytes it is.
func answerLetter(letter mq.DeadLetter) deadLetterAnswer {
	answer := deadLetterAnswer{
		ID: letter.ID, Table: letter.Table, Error: letter.Error, Code: letter.Code, At: letter.At, Received: letter.Received,
		Source: map[string]any{"epoch": letter.Source.Epoch, "seq": letter.Source.Seq, "row": letter.SourceRow},
	}
	row, ok := renderLetter(letter)
	if !ok {
		answer.Raw = letter.Row
		return answer
	}
	answer.Row = row
	return answer
}

func renderLetter(letter mq.DeadLetter) ([]byte, bool) {
	if letter.Version != mq.Version || letter.Format != mq.FormatRowBinary {
		return nil, false
	}
	layout, err := record.ParseLayout(letter.Columns, time.UTC)
	if err != nil {
		return nil, false
	}
	row, err := layout.AppendObject(nil, letter.Row, nil, record.RenderOptions{})
	return row, err == nil
}
