package cluster

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// from names the folder of another version's wavehouse, which the service is upgraded
// from and rolled back to: go test ./tests/cluster -run Upgrade -args -from=…
var from = flag.String("from", "", "folder of the wavehouse to upgrade from; default this one")

// Processes are replaced one by one by another version's, under load, and back: no row
// is lost, none is in the table twice, and streams go on from what the other version
// sent.
func TestARollingUpgradeAndBack(t *testing.T) {
	t.Parallel()
	s := start(t, 3, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	s.clickhouse.Must(t, "CREATE TABLE load (id String, note String DEFAULT '') ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	s.clickhouse.Must(t, "CREATE TABLE pages (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000")
	names := []string{"api-0", "api-1", "writer-0", "writer-1"}
	roles := []string{"api", "api,sweeper", "ingest", "ingest"}
	now := s.bin
	if *from != "" {
		var err error
		s.bin, err = filepath.Abs(*from)
		require.NoError(t, err)
	}
	all := make([]*harness.Server, len(names))
	for i := range all {
		all[i] = s.process(names[i], roles[i])
	}
	var urls [2]atomic.Pointer[string]
	for i := range urls {
		all[i].AwaitReady(t)
		urls[i].Store(&all[i].URL)
	}
	var turn atomic.Int64
	load := harness.StartLoad(func() string { return *urls[turn.Add(1)%2].Load() }, "load", 2)
	stop := sync.OnceFunc(load.Stop)
	defer stop()
	under(t, load, "the start")
	s.awaitShards(all[0], "writer-0", "writer-1")

	row, last := 0, ""
	send := func() {
		row++
		a := all[row%2].Ingest(t, "pages", fmt.Sprintf(`{"n":%d}`, row))
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	stream := follow(t, all[0], "pages", "")
	send()
	require.Equal(t, 1, rowOf(t, stream))
	for _, version := range []string{now, s.bin} {
		for i := range all {
			last = stream.LastID()
			stream.Close()
			all[i].Signal(syscall.SIGTERM)
			require.Zero(t, all[i].Wait(t, patience), all[i].Output())
			all[i].Use(version)
			all[i].Start(t)
			if i < len(urls) {
				all[i].AwaitReady(t)
				urls[i].Store(&all[i].URL)
			}
			send()
			stream = follow(t, all[(row+1)%2], "pages", last)
			require.Equal(t, row, rowOf(t, stream), "after %s", names[i])
			under(t, load, "a new "+names[i])
		}
	}
	s.awaitShards(all[0], "writer-0", "writer-1")
	stop()
	assert.Zero(t, load.Account(t, s.clickhouse, 2*patience), "no row twice in a table with a deduplication window")
	harness.Eventually(t, patience, func() error {
		if stored := s.clickhouse.Must(t, "SELECT count() FROM pages"); stored != fmt.Sprint(row) {
			return fmt.Errorf("%s of %d rows are stored", stored, row)
		}
		return nil
	})
	t.Logf("%d rows, answers %v", load.Answered(), load.Statuses())
}
