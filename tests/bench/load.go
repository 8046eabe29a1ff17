package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// result is one round of one contender.
type result struct {
	rows          int64 // accepted
	rowsPerSecond float64
	p50, p99      time.Duration
	// cpu is the CPU time by process, over the round.
	cpu map[string]time.Duration
}

// plan is what a round sends.
type plan struct {
	clients, rowsPerBody int
	during               time.Duration
}

// post sends bodies from all clients for the planned time and returns how many
// rows were accepted and how long each request took. The requests are rendered
// before: the load costs less than what it measures.
func post(t testing.TB, p plan, target, contentType string, bodies [][]string) (rows int64, took []time.Duration) {
	t.Helper()
	parsed, err := url.Parse(target)
	require.NoError(t, err)
	requests := make([][][]byte, p.clients)
	for c := range requests {
		for _, body := range bodies[c] {
			requests[c] = append(requests[c], rawRequest(parsed.RequestURI(), body, "Content-Type", contentType))
		}
	}
	b := hammer(t, parsed.Host, p.clients, p.during, 0, func(c, i int) []byte { return requests[c][i%len(requests[c])] })
	return int64(b.requests) * int64(p.rowsPerBody), b.took
}

func postOne(client *http.Client, url, contentType, body string) error {
	response, err := client.Post(url, contentType, strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}

// makeBodies renders the bodies of every client before the clock runs.
func makeBodies(p plan, each int) [][]string {
	bodies := make([][]string, p.clients)
	for c := range bodies {
		source := newRowSource(uint64(c))
		for range each {
			bodies[c] = append(bodies[c], source.body(p.rowsPerBody))
		}
	}
	return bodies
}

func percentile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(float64(len(took))*q))]
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// cpuOf reads the CPU time a process has used.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// residentOf reads the memory of a process, in bytes.
func residentOf(t testing.TB, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}
