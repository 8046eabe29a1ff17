package api

import (
	"fmt"
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
		Source: map[string]any{"position": letter.Source.String(), "row": letter.SourceRow},
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
	if letter.Version != mq.Version {
		return nil, false
	}
	layout, encoded, err := readLetter(letter)
	if err != nil {
		return nil, false
	}
	row, err := layout.AppendObject(nil, encoded, nil, record.RenderOptions{})
	return row, err == nil
}

// readLetter returns a parked row as its layout reads it.
func readLetter(letter mq.DeadLetter) (*record.Layout, []byte, error) {
	switch letter.Format {
	case mq.FormatRowBinary:
		layout, err := record.ParseLayout(letter.Columns, time.UTC)
		return layout, letter.Row, err
	case mq.FormatJSONCompactEachRow:
	default:
		return nil, nil, fmt.Errorf("rows of format %q cannot be read", letter.Format)
	}
	lines, err := record.ParseLines(letter.Columns, time.UTC)
	if err != nil {
		return nil, nil, err
	}
	row, err := lines.AppendRows(nil, letter.Row, 1)
	return lines.Layout(), row, err
}
