package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

var (
	lastCollection = regexp.MustCompile(`(?m)^go_memstats_last_gc_time_seconds (\S+)$`)
	processStart   = regexp.MustCompile(`(?m)^process_start_time_seconds (\S+)$`)
)

// A process at rest collects its garbage every few minutes: what its start leaves
// behind is not kept for as long.
func TestTheGarbageOfTheStartIsCollected(t *testing.T) {
	t.Parallel()
	server := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: harness.StartClickHouse(t, binaries.Dir(t))})
	server.AwaitReady(t)
	gauge := func(metrics string, name *regexp.Regexp) float64 {
		found := name.FindStringSubmatch(metrics)
		require.NotNil(t, found, name)
		value, err := strconv.ParseFloat(found[1], 64)
		require.NoError(t, err)
		return value
	}
	since := 0.0
	for range 60 {
		// Rarely: what is asked leaves garbage, too, which is collected when it is much.
		time.Sleep(time.Second)
		metrics := server.Do(t, http.MethodGet, "/metrics", "").Body
		// It is looked whether the start is over a second after it at the earliest.
		if since = gauge(metrics, lastCollection) - gauge(metrics, processStart); since >= 1 {
			return
		}
	}
	require.Fail(t, "the last collection was part of the start", "%.2f s after it", since)
}
