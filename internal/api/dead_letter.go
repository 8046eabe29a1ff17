package api

import (
	"github.com/wavehouse/wavehouse/internal/mq"
)

// answerLetter renders a parked row as JSON. What cannot be read as a row is
// shown as the bytes it is.
func (s *Server) answerLetter(letter mq.DeadLetter) deadLetterAnswer {
	answer := deadLetterAnswer{
		ID: letter.ID, Table: letter.Table, Error: letter.Error, Code: letter.Code, At: letter.At, Received: letter.Received,
		Source: map[string]any{"position": letter.Source.String(), "row": letter.SourceRow},
	}
	row, ok := s.Letters.Render(&letter)
	if !ok {
		answer.Raw = letter.Row
		return answer
	}
	answer.Row = row
	return answer
}
