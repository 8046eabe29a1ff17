package record

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Codes of a record that was refused.
const (
	CodeMalformed        = "record.malformed"
	CodeUnknownColumn    = "record.unknown_column"
	CodeColumnNotAllowed = "record.column_not_allowed"
	CodeColumnComputed   = "record.column_computed"
	CodeDuplicateColumn  = "record.duplicate_column"
	CodeMissingColumn    = "record.missing_column"
	CodeNullNotAllowed   = "record.null_not_allowed"
	CodeTypeMismatch     = "record.type_mismatch"
	CodeOutOfRange       = "record.out_of_range"
	CodeTooLarge         = "record.too_large"
	CodeCheckFailed      = "record.check_failed"
	CodeMissingID        = "record.missing_id"
)

// Codes of a body that was refused as a whole.
const (
	CodeBodyEmpty     = "body.empty"
	CodeBodyMalformed = "body.malformed"
)

// Error says why a record, or one value of it, was refused.
type Error struct {
	// Code is stable, for example "record.type_mismatch".
	Code string
	// Column is the column at fault, "" when the record as a whole is.
	Column string
	// Message is a sentence for a person, which names the column. It never holds
	// more than a short piece of the value.
	Message string
	// Hint says what can be done about it, "" where that is not known.
	Hint string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// subject returns how a sentence speaks of a column.
func subject(name string) string {
	plain := func(c rune) bool {
		return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return "column " + quoted(name)
	}
	return "column " + excerpt.Of(name)
}

// ofColumn is a codec's error, or another, as that of a column.
func ofColumn(err error, table *Table, name string) *Error {
	fault, ok := errors.AsType[*Error](err)
	if !ok {
		fault = &Error{Code: CodeTypeMismatch, Message: err.Error()}
	}
	fault.Column = name
	fault.Message = subject(name) + ": " + fault.Message
	fault.Hint = strings.ReplaceAll(fault.Hint, thisTable, table.name)
	return fault
}

// thisTable stands in hints for the table, whose name codecs do not know.
const thisTable = "<table>"

// missingColumn is the fault of a record that leaves out what it may not.
func missingColumn(table *Table, name string) *Error {
	return &Error{
		Code: CodeMissingColumn, Column: name, Message: subject(name) + " is missing, and has no default",
		Hint: "send it, give it a DEFAULT in ClickHouse, or set ingest.tables." + table.name + ".missing_as_zero to store its type's zero",
	}
}

// NotAllowed is the fault of a column that the sender may not send. Where it may
// not send every column, one that the table lacks has the same fault.
func NotAllowed(column string) *Error {
	return &Error{Code: CodeColumnNotAllowed, Column: column, Message: subject(column) + " may not be sent by this role"}
}

// HeaderNotAllowed is NotAllowed of a header line.
func HeaderNotAllowed(column string) *BodyError {
	return &BodyError{Code: CodeColumnNotAllowed, Column: column, Message: "the header line names " + quoted(column) + ", which may not be sent by this role"}
}

// BodyError says why a body was refused as a whole: no record of it counts.
type BodyError struct {
	// Code is CodeBodyEmpty or CodeBodyMalformed, or for the header line of CSV
	// and TSV CodeUnknownColumn, CodeColumnNotAllowed or CodeDuplicateColumn.
	Code string
	// Column is the column that a header line is at fault with, else "".
	Column  string
	Message string
	// Hint says what can be done about it, "" where that is not known.
	Hint string
}

// Error returns the message.
func (e *BodyError) Error() string { return e.Message }

func malformed(format string, args ...any) *Error {
	return &Error{Code: CodeMalformed, Message: fmt.Sprintf(format, args...)}
}

func mismatch(typeName string, value []byte) *Error {
	if len(value) == 0 {
		return mismatchf("an empty text is not a value of type %s", typeName)
	}
	return &Error{Code: CodeTypeMismatch, Message: excerpt.Of(value) + " is not a value of type " + typeName}
}

func mismatchf(format string, args ...any) *Error {
	return &Error{Code: CodeTypeMismatch, Message: fmt.Sprintf(format, args...)}
}

func outOfRange(typeName string, value []byte) *Error {
	return &Error{Code: CodeOutOfRange, Message: excerpt.Of(value) + " is out of the range of " + typeName}
}

func outOfRangef(format string, args ...any) *Error {
	return &Error{Code: CodeOutOfRange, Message: fmt.Sprintf(format, args...)}
}

func nullNotAllowed(typeName string) *Error {
	return &Error{
		Code: CodeNullNotAllowed, Message: "null is not allowed in type " + typeName,
		Hint: "send a value, or make the type Nullable in ClickHouse; a column with a DEFAULT takes null as left out",
	}
}

// quoted returns a name in double quotes, cut to a length fit for a message.
func quoted(name string) string { return `"` + excerpt.Of(name) + `"` }
