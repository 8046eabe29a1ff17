package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// selectFlags say which of a table's dead letters are meant.
type selectFlags struct {
	table    *string
	all, yes *bool
}

func addSelectFlags(cmd *cobra.Command) selectFlags {
	return selectFlags{
		table: cmd.Flags().String("table", "", "the table"),
		all:   cmd.Flags().Bool("all", false, "all dead letters of the table"),
		yes:   cmd.Flags().Bool("yes", false, "do not ask before --all"),
	}
}

// selected is the selector as the server takes it.
type selected struct {
	Table  string   `json:"table"`
	IDs    []string `json:"ids,omitempty"`
	All    bool     `json:"all,omitempty"`
	Cursor string   `json:"cursor,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
}

func (f selectFlags) selector(ids []string) (selected, error) {
	switch {
	case *f.table == "":
		return selected{}, &usageError{errors.New("name a table with --table")}
	case *f.all && len(ids) > 0:
		return selected{}, &usageError{errors.New("--all and ids exclude each other")}
	case !*f.all && len(ids) == 0:
		return selected{}, &usageError{errors.New("name the ids, or --all")}
	}
	return selected{Table: *f.table, IDs: ids, All: *f.all}, nil
}

// confirm asks on a terminal; it is false when the answer is no.
func (t *terminal) confirm(question string) bool {
	_, _ = fmt.Fprintf(t.err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(t.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

var errNotConfirmed = errors.New("nothing was done")

// replaySum is what the calls of a replay did together.
type replaySum struct {
	Replayed  int             `json:"replayed"`
	Failed    int             `json:"failed"`
	Remaining uint64          `json:"remaining"`
	DryRun    bool            `json:"dry_run,omitempty"`
	Failures  []replayFailure `json:"failures"`
	Truncated bool            `json:"failures_truncated,omitempty"`
}

type replayFailure struct {
	ID     string `json:"id"`
	Code   string `json:"code"`
	Column string `json:"column,omitempty"`
	Error  string `json:"error"`
}

// maxShownFailures bounds the failures kept of a replay in many calls.
const maxShownFailures = 1000

func (s *replaySum) add(call replaySum) {
	s.Replayed += call.Replayed
	s.Failed += call.Failed
	s.Remaining = call.Remaining
	room := max(0, maxShownFailures-len(s.Failures))
	s.Truncated = s.Truncated || call.Truncated || len(call.Failures) > room
	s.Failures = append(s.Failures, call.Failures[:min(room, len(call.Failures))]...)
}

func newDLQReplay(t *terminal, flags opsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay --table <table> (--all | <id>…)",
		Short: "Put dead letters back into the queue",
		Long: `Puts dead letters back into the queue. Each row is checked against the table as
it is now; what does not fit stays, and is named with its reason. A row that
ClickHouse refuses again becomes a dead letter again.`,
		Example: `  wavehouse dlq replay --table clicks --all --dry-run
  wavehouse dlq replay --table clicks --all --yes
  wavehouse dlq replay --table clicks 1pzq8f2k-17 1pzq8f2k-18`,
		Args: cobra.ArbitraryArgs,
	}
	asJSON := formatFlag(cmd)
	which := addSelectFlags(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "check the rows and change nothing")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		s, err := which.selector(ids)
		if err != nil {
			return err
		}
		client, err := flags.client(t.env)
		if err != nil {
			return err
		}
		s.DryRun = *dry
		if s.All && !*which.yes && !s.DryRun && t.interactive && !t.confirm("Replay all dead letters of "+printable(s.Table)+"?") {
			return errNotConfirmed
		}
		return replay(cmd.Context(), t, client, s, *asJSON)
	}
	return cmd
}

// replay calls until the server has looked at every letter that is meant.
func replay(ctx context.Context, t *terminal, client *opsClient, s selected, asJSON bool) error {
	sum := replaySum{DryRun: s.DryRun, Failures: []replayFailure{}}
	for {
		var call struct {
			replaySum
			Cursor string `json:"cursor"`
		}
		err := client.ask(ctx, http.MethodPost, dlqReplay, nil, s, &call)
		if failure := (*opsError)(nil); errors.As(err, &failure) {
			_ = json.Unmarshal(failure.body, &call)
		}
		sum.add(call.replaySum)
		if err != nil {
			return fmt.Errorf("replayed %d rows, %d did not fit, and then: %w", sum.Replayed, sum.Failed, err)
		}
		if s.Cursor = call.Cursor; s.Cursor == "" {
			break
		}
		if t.interactive {
			t.sayf("replayed %d, failed %d …", sum.Replayed, sum.Failed)
		}
	}
	return printReplay(t, sum, asJSON)
}

func printReplay(t *terminal, sum replaySum, asJSON bool) error {
	if asJSON {
		if err := t.json(sum); err != nil {
			return err
		}
	} else {
		for _, f := range sum.Failures {
			t.printf("%s  %s  %s\n", f.ID, f.Code, printable(f.Error))
		}
		if sum.Truncated {
			t.printf("… and more\n")
		}
		verb := "replayed"
		if sum.DryRun {
			verb = "would replay"
		}
		t.printf("%s %d, failed %d, remaining %d\n", verb, sum.Replayed, sum.Failed, sum.Remaining)
	}
	if sum.Failed > 0 {
		return &silentError{fmt.Errorf("%d rows did not go back", sum.Failed)}
	}
	return nil
}

func newDLQDiscard(t *terminal, flags opsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard --table <table> (--all | <id>…)",
		Short: "Remove dead letters for good",
		Long: `Removes dead letters for good. --all asks first on a terminal; elsewhere it
needs --yes.`,
		Example: `  wavehouse dlq discard --table clicks 1pzq8f2k-17
  wavehouse dlq discard --table clicks --all --yes`,
		Args: cobra.ArbitraryArgs,
	}
	asJSON := formatFlag(cmd)
	which := addSelectFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		s, err := which.selector(ids)
		if err != nil {
			return err
		}
		client, err := flags.client(t.env)
		if err != nil {
			return err
		}
		switch {
		case !s.All || *which.yes:
		case !t.interactive:
			return &usageError{errors.New("discard --all needs --yes where there is no terminal to ask on")}
		case !t.confirm("Discard all dead letters of " + printable(s.Table) + " for good?"):
			return errNotConfirmed
		}
		return discard(cmd.Context(), t, client, s, *asJSON)
	}
	return cmd
}

// discard calls until nothing of what is meant is left.
func discard(ctx context.Context, t *terminal, client *opsClient, s selected, asJSON bool) error {
	type discarded struct {
		Discarded int    `json:"discarded"`
		Remaining uint64 `json:"remaining"`
	}
	var sum discarded
	for {
		var call discarded
		if err := client.ask(ctx, http.MethodDelete, dlqRows, nil, s, &call); err != nil {
			return fmt.Errorf("discarded %d rows, and then: %w", sum.Discarded, err)
		}
		sum = discarded{sum.Discarded + call.Discarded, call.Remaining}
		if !s.All || call.Remaining == 0 || call.Discarded == 0 {
			break
		}
	}
	if asJSON {
		if err := t.json(sum); err != nil {
			return err
		}
	} else {
		t.printf("discarded %d, remaining %d\n", sum.Discarded, sum.Remaining)
	}
	if missing := len(s.IDs) - sum.Discarded; missing > 0 {
		return fmt.Errorf("table %q of tenant %s has no dead letter of %d of the ids, or no longer: 'wavehouse dlq list --table %s' shows those that it has",
			s.Table, client.tenant, missing, s.Table)
	}
	return nil
}
