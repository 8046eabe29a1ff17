// Package query turns a structured query document into one ClickHouse
// statement. Columns are checked against the table and the caller's grant in
// one place, names are quoted, and values travel as typed parameters, so that
// nothing a caller writes becomes SQL.
package query
