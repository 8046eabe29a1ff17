package clickhouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

func TestWhatATablesMemoryIsWorth(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	const window = " SETTINGS non_replicated_deduplication_window = 100"
	for name, c := range map[string]struct {
		engine   string
		doubtful bool
	}{
		"with a window":         {"MergeTree ORDER BY n" + window, true},
		"that replaces":         {"ReplacingMergeTree ORDER BY n" + window, true},
		"that adds up":          {"SummingMergeTree ORDER BY n" + window, false},
		"without a window":      {"MergeTree ORDER BY n", false},
		"with a window of 0":    {"MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 0", false},
		"of another kind":       {"Memory", false},
		"that there is none of": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			s.Exec(t, "DROP TABLE IF EXISTS `it's` SYNC")
			if c.engine != "" {
				s.Exec(t, "CREATE TABLE `it's` (n UInt64, m UInt64 MATERIALIZED n, a UInt64 ALIAS n, e UInt64 EPHEMERAL) ENGINE = "+c.engine)
			}
			memory, err := pool.Memory(t.Context(), "it's", 24*time.Hour)
			require.NoError(t, err)
			require.Equal(t, c.doubtful, memory.Doubtful)
			if c.doubtful {
				require.Equal(t, map[string]bool{"n": true, "m": true}, memory.Stored)
				require.Equal(t, strings.HasPrefix(c.engine, "Replacing"), memory.Replaces)
			}
			memory, err = pool.Memory(t.Context(), "it's", -time.Second)
			require.NoError(t, err)
			require.False(t, memory.Doubtful, "the server has been there all the time")
		})
	}
}

func TestAbsentRowsAreNamedByTheirNumbers(t *testing.T) {
	s := clickhousetest.Start(t)
	pool := poolOf(t, configOf(s))
	const rows = 200_000 // more than a block
	s.Exec(t, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n",
		fmt.Sprintf("INSERT INTO t SELECT number, toString(number) FROM numbers(%d) WHERE number %% 50021 != 7", rows))
	var data strings.Builder
	for n := range rows {
		fmt.Fprintf(&data, "%d\t%d\n", n, n)
	}
	sought := clickhouse.Sought{
		Table: "t", Names: []string{"n", "s"}, Types: []string{"UInt64", "String"}, Format: "TSV", Data: strings.NewReader(data.String()),
		Rows: rows, Compared: []string{"n", "s"}, Printed: "RowBinary", Within: time.Hour,
	}
	absent, err := pool.Absent(t.Context(), sought)
	require.NoError(t, err)
	require.Equal(t, []int{7, 50028, 100049, 150070}, absent)

	time.Sleep(3 * time.Second) // a part's time is a second's
	s.Exec(t, "INSERT INTO t VALUES (0, '0'), (1000000, 'x')")
	sought.Data, sought.Rows, sought.Within = strings.NewReader("0\t0\n1\t1\n1000000\tx\n1000000\tX\n"), 4, -time.Second
	absent, err = pool.Absent(t.Context(), sought)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, absent, "what is older is not looked at")

	s.Exec(t, "OPTIMIZE TABLE t FINAL")
	sought.Data = strings.NewReader("0\t0\n1\t1\n1000000\tx\n1000000\tX\n")
	absent, err = pool.Absent(t.Context(), sought)
	require.NoError(t, err)
	require.False(t, slices.Contains(absent, 0) || slices.Contains(absent, 2), "merged meanwhile: %v", absent)

	sought.Data, sought.Table = strings.NewReader("0\t0\n"), "nosuch"
	_, err = pool.Absent(t.Context(), sought)
	require.Equal(t, 60, asError(t, err).Code)
}
