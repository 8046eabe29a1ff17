package clickhouse

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Memory is what a table's memory of INSERTs is worth.
type Memory struct {
	// Doubtful says that an INSERT which the table takes for a repeat need not be
	// stored.
	Doubtful bool
	// Stored are the columns whose values can be read back.
	Stored map[string]bool
	// Replaces says that a row may be gone because another has its key. Rows are
	// then written again in the order that they had, all of them.
	Replaces bool
}

// Memory asks what a table's memory of an INSERT is worth that was begun so long
// ago. A MergeTree notes an INSERT's token in a log of its own a moment before it
// stores the rows. When ClickHouse is killed between the two it takes the repeat
// for one that is stored, and answers with all of its rows. So the memory of a
// server that has started since is in doubt. Replicated tables note both at once,
// and tables without a window have no memory; engines that add rows up or take
// them away are believed, since their rows cannot be found again. The error is an
// *Error.
func (p *Pool) Memory(ctx context.Context, table string, ago time.Duration) (Memory, error) {
	restarted := true
	err := p.EachRow(ctx, "SELECT toString(uptime())", 1, func(row []string) error {
		up, err := strconv.ParseInt(row[0], 10, 64)
		restarted = err != nil || up <= int64(ago/time.Second)
		return nil
	})
	if err != nil || !restarted {
		return Memory{}, err
	}
	where := " WHERE database = " + QuoteString(p.config.Database) + " AND table = " + QuoteString(table)
	memory := Memory{Stored: map[string]bool{}}
	// A table's own setting stands in its definition; the server's is the default.
	err = p.EachRow(ctx, "SELECT engine, if(definition = '', ifNull((SELECT any(value) FROM system.merge_tree_settings WHERE name = 'non_replicated_deduplication_window'), ''), definition)"+
		" FROM (SELECT engine, extract(engine_full, 'non_replicated_deduplication_window = (\\\\d+)') AS definition FROM system.tables"+
		strings.Replace(where, "table =", "name =", 1)+")", 2, func(row []string) error {
		memory.Replaces = row[0] == "ReplacingMergeTree"
		memory.Doubtful = (memory.Replaces || row[0] == "MergeTree") && row[1] != "0"
		return nil
	})
	if err != nil || !memory.Doubtful {
		return memory, err
	}
	return memory, p.EachRow(ctx, "SELECT name FROM system.columns"+where+" AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')", 1, func(row []string) error {
		memory.Stored[row[0]] = true
		return nil
	})
}

// Sought are rows that a table may have.
type Sought struct {
	Table        string
	Names, Types []string  // the columns of Data
	Format       string    // of Data, an input format of ClickHouse's
	Data         io.Reader // Rows rows, read once
	Rows         int
	// Compared names the columns by which rows are told apart, by how Printed, an
	// output format, has their values.
	Compared []string
	Printed  string
	// Within is how long ago the rows may have been stored at most.
	Within time.Duration
	// Settings are those that Data is read with.
	Settings map[string]string
}

// soughtTable is the rows' name in the statement.
const soughtTable = "wh_sought"

// Absent returns which of the rows, from 0 and ascending, a table does not have
// among what was written of late: parts that are older are not looked at. The
// error is an *Error.
func (p *Pool) Absent(ctx context.Context, s Sought) ([]int, error) {
	// Comparing what is printed compares every type's values, NULL among them, which
	// a hash of some of the values does not.
	key := "sipHash128(formatRow(" + QuoteString(s.Printed) + ", " + QuoteIdents(s.Compared) + "))"
	// Parts are left out by their names and not taken by them: one that is merged
	// meanwhile has another, and is as young.
	older := fmt.Sprintf("SELECT name FROM system.parts WHERE database = %s AND table = %s AND modification_time < now() - toIntervalSecond(%d)",
		QuoteString(p.config.Database), QuoteString(s.Table), int64(s.Within/time.Second)+2)
	structure := make([]string, len(s.Names))
	for i, name := range s.Names {
		structure[i] = QuoteIdent(name) + " " + s.Types[i]
	}
	settings := withDefaults(s.Settings, map[string]string{
		"default_format": rowFormat,
		"max_threads":    "1", // rows keep their order
		// What a table has already, the structure may have.
		"allow_suspicious_low_cardinality_types": "1", "allow_suspicious_variant_types": "1", "allow_suspicious_fixed_string_types": "1",
	})
	resp, err := p.Query(ctx, Request{
		SQL: "SELECT toString(groupArray(" + key + " IN (SELECT " + key + " FROM " + QuoteIdent(p.config.Database) + "." + QuoteIdent(s.Table) + " WHERE _part NOT IN (" + older + ")))) FROM " + soughtTable,
		External: []ExternalTable{{
			Name: soughtTable, Structure: strings.Join(structure, ", "), Format: s.Format, From: s.Data,
		}},
		Settings: settings, ReadOnly: true,
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var found string
	if err := p.readRows(ctx, resp.Body, make([]string, 1), func(row []string) error { found = row[0]; return nil }); err != nil {
		return nil, err
	}
	var absent []int
	there := strings.Split(strings.Trim(found, "[]"), ",")
	if len(there) != s.Rows {
		return nil, p.notClickHouse("answered for %d rows where %d were asked for", len(there), s.Rows)
	}
	for n, is := range there {
		if is == "0" {
			absent = append(absent, n)
		}
	}
	return absent, nil
}
