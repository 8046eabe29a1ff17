package query

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// Source is a table as one caller sees it, for a statement that is written
// elsewhere.
type Source struct {
	// SQL is a SELECT.
	SQL string
	// Params are the typed parameters by name, escaped for the HTTP interface.
	Params   map[string]string
	External []clickhouse.ExternalTable
}

// Visible compiles the table as the grant shows it: of the columns that the
// caller may read, and the rows that the row rule admits. The names of what
// travels with it begin with prefix. Only the rows that are admitted are there
// when anything else of the statement is computed, whatever it is: so much holds
// for tables of the MergeTree family alone, and for others the SELECT fails. The
// error is an *Error.
func Visible(database string, table *schema.Table, grant *policy.BoundSelect, prefix string) (*Source, error) {
	b := newBuilder(&Document{}, table, grant, Options{})
	b.values.prefix, b.values.param = prefix+"_in", prefix+"_p"
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := b.rowRule(); err != nil {
		return nil, err
	}
	columns := b.cols.spelled()
	if len(columns) == 0 {
		return nil, &Error{Code: CodeColumnNotAllowed, Message: "this role may read no column of the table as a whole"}
	}
	rule := "1"
	if len(b.where) > 0 {
		rule = strings.Join(texts(b.where), " AND ")
	}
	return &Source{
		SQL: "SELECT " + strings.Join(columns, ", ") + " FROM " + clickhouse.QuoteIdent(database) + "." + clickhouse.QuoteIdent(table.Name) +
			" AS " + b.cols.qualifier + " PREWHERE " + rule,
		Params: b.values.params, External: b.values.external,
	}, nil
}

// spelled are the columns that the caller may read as a whole, each under its own
// name.
func (c *columns) spelled() []string {
	names := c.readable()
	for i, name := range names {
		names[i] = c.qualifier + "." + clickhouse.QuoteIdent(name) + " AS " + clickhouse.QuoteIdent(name)
	}
	return names
}
