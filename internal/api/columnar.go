package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/query"
)

// portable prepares a statement that is answered in Arrow or Parquet: it is asked
// which columns it has, and those whose types others do not read are converted.
// Statements in other formats, and those that are no SELECT, are returned as they
// are.
func (s *Server) portable(ctx context.Context, pool *clickhouse.Pool, at *room, statement clickhouse.Request, f query.Format) (clickhouse.Request, error) {
	if !f.Columnar() {
		return statement, nil
	}
	own, named := strings.CutSuffix(statement.SQL, " FORMAT "+f.Name())
	sql, ok := pipes.Subquery(own)
	if !ok {
		return statement, nil
	}
	outputs, err := s.outputsOf(ctx, pool, at, statement, sql)
	if err != nil {
		return statement, err
	}
	statement.SQL = query.Portable(sql, outputs)
	if named {
		statement.SQL += " FORMAT " + f.Name()
	}
	return statement, nil
}

// outputsOf asks ClickHouse which columns a SELECT answers.
func (s *Server) outputsOf(ctx context.Context, pool *clickhouse.Pool, at *room, statement clickhouse.Request, sql string) ([]query.Output, error) {
	statement.SQL = "DESCRIBE TABLE (\n" + sql + "\n) FORMAT JSONCompactEachRow"
	statement.Settings = maps.Clone(statement.Settings)
	statement.Settings["describe_compact_output"] = "1"
	described, err := s.ask(ctx, pool, at, statement)
	if err != nil {
		return nil, err
	}
	defer at.letGo()
	defer described.close()
	if described.rest != nil {
		return nil, answersBusy(ctx)
	}
	var outputs []query.Output
	for rows := json.NewDecoder(bytes.NewReader(described.head)); ; {
		var row [2]string
		switch err := rows.Decode(&row); {
		case errors.Is(err, io.EOF):
			return outputs, nil
		case err != nil:
			return nil, fmt.Errorf("read the columns of a statement: %w", err)
		}
		outputs = append(outputs, query.Output{Name: row[0], Type: row[1]})
	}
}
