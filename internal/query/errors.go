package query

import "fmt"

// Codes of a refused query document.
const (
	CodeInvalid               = "query.invalid"
	CodeColumnNotAllowed      = "query.column_not_allowed"
	CodeAggregationNotAllowed = "query.aggregation_not_allowed"
)

// Error says why a query document was refused.
type Error struct {
	// Code is one of the codes above.
	Code string
	// Column is the column at fault, "" when there is none.
	Column string
	// Message is a sentence for a person; it names the part of the document.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func invalidColumn(column, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Column: column, Message: fmt.Sprintf(format, args...)}
}
