package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

const (
	dlqStats  = "/v1/ops/dlq/stats"
	dlqRows   = "/v1/ops/dlq/rows"
	dlqReplay = "/v1/ops/dlq/replay"
)

func newDLQ(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List, show, replay and discard dead letters of a running server",
		Long: `Dead letters are rows that were accepted and that ClickHouse refused. They are
kept with ClickHouse's reason until they are replayed or discarded.

The operator key comes from a file or from the environment, never from the
command line. Exit code 0 is success, 1 a failure (for replay also when a row
did not go back), 2 wrong usage.`,
		Example: `  wavehouse dlq list                                # how many, by table
  wavehouse dlq list --table clicks
  wavehouse dlq show 1pzq8f2k-17
  wavehouse dlq replay --table clicks --all --dry-run
  wavehouse dlq replay --table clicks --all
  wavehouse dlq discard --table clicks 1pzq8f2k-17`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := addOpsFlags(cmd, t.env)
	cmd.AddCommand(newDLQList(t, flags), newDLQShow(t, flags), newDLQReplay(t, flags), newDLQDiscard(t, flags))
	return cmd
}

// parkedRow is a dead letter as the server shows it.
type parkedRow struct {
	ID       string          `json:"id"`
	Table    string          `json:"table"`
	Code     string          `json:"code"`
	Error    string          `json:"error"`
	At       time.Time       `json:"at"`
	Received time.Time       `json:"received_at"`
	Row      json.RawMessage `json:"row,omitempty"`
	Raw      []byte          `json:"raw,omitempty"`
	Source   json.RawMessage `json:"source"`
}

// parkedPage is a page of them.
type parkedPage struct {
	Rows   []parkedRow `json:"rows"`
	Cursor string      `json:"cursor"`
}

func newDLQList(t *terminal, flags opsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [--table <table>]",
		Short: "Count dead letters by table, or list those of one",
		Example: `  wavehouse dlq list
  wavehouse dlq list --table clicks --limit 20
  wavehouse dlq list --table clicks --format json`,
		Args: cobra.NoArgs,
	}
	asJSON := formatFlag(cmd)
	table := cmd.Flags().String("table", "", "the table whose dead letters are listed, oldest first")
	limit := cmd.Flags().Int("limit", 100, "how many to list, up to 1000")
	cursor := cmd.Flags().String("cursor", "", "where to go on, as the list before says")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := flags.client(t.env)
		if err != nil {
			return err
		}
		if *table == "" {
			return listTables(cmd.Context(), t, client, *asJSON)
		}
		var page parkedPage
		query := url.Values{"table": {*table}, "limit": {strconv.Itoa(*limit)}, "cursor": {*cursor}}
		if err := client.ask(cmd.Context(), http.MethodGet, dlqRows, query, nil, &page); err != nil {
			return err
		}
		return printPage(t, page, *asJSON)
	}
	return cmd
}

func listTables(ctx context.Context, t *terminal, client *opsClient, asJSON bool) error {
	var stats struct {
		Tables map[string]uint64 `json:"tables"`
		Total  uint64            `json:"total"`
	}
	if err := client.ask(ctx, http.MethodGet, dlqStats, nil, nil, &stats); err != nil {
		return err
	}
	if asJSON {
		return t.json(stats)
	}
	rows := [][]string{{"TABLE", "DEAD LETTERS"}}
	for _, table := range slices.Sorted(maps.Keys(stats.Tables)) {
		rows = append(rows, []string{printable(table), strconv.FormatUint(stats.Tables[table], 10)})
	}
	t.table(append(rows, []string{"(all)", strconv.FormatUint(stats.Total, 10)}))
	return nil
}

func printPage(t *terminal, page parkedPage, asJSON bool) error {
	if asJSON {
		return t.json(page)
	}
	rows := [][]string{{"ID", "PARKED", "CODE", "ERROR", "ROW"}}
	for _, row := range page.Rows {
		rows = append(rows, []string{
			row.ID, row.At.UTC().Format(time.RFC3339), printable(row.Code), excerpt.Cut(printable(row.Error), 60), excerpt.Cut(printable(row.text()), 80),
		})
	}
	t.table(rows)
	if page.Cursor != "" {
		t.sayf("there are more: --cursor %s", page.Cursor)
	}
	return nil
}

// text is the row as JSON, or what there is of a message that is no row.
func (r *parkedRow) text() string {
	if r.Row != nil {
		return string(r.Row)
	}
	return "not a row, in base64: " + base64.StdEncoding.EncodeToString(r.Raw)
}

// printable makes text safe for a terminal, on one line: rows hold what clients
// sent.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

func newDLQShow(t *terminal, flags opsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show <id>",
		Short:   "Show one dead letter whole",
		Example: `  wavehouse dlq show 1pzq8f2k-17`,
		Args:    cobra.ExactArgs(1),
	}
	asJSON := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := flags.client(t.env)
		if err != nil {
			return err
		}
		var page parkedPage
		if err := client.ask(cmd.Context(), http.MethodGet, dlqRows, url.Values{"id": {args[0]}}, nil, &page); err != nil {
			return err
		}
		if len(page.Rows) == 0 {
			return errors.New("the server showed no row")
		}
		return printRow(t, page.Rows[0], *asJSON)
	}
	return cmd
}

func printRow(t *terminal, row parkedRow, asJSON bool) error {
	if asJSON {
		return t.json(row)
	}
	t.table([][]string{
		{"id", printable(row.ID)}, {"table", printable(row.Table)}, {"code", printable(row.Code)}, {"error", printable(row.Error)},
		{"received", row.Received.UTC().Format(time.RFC3339Nano)}, {"parked", row.At.UTC().Format(time.RFC3339Nano)},
		{"source", printable(string(row.Source))}, {"row", printable(row.text())},
	})
	return nil
}
