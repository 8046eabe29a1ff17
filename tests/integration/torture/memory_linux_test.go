package torture

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

const (
	// memoryBound is what docs/operations.md promises of the server's resident
	// memory while clients push more than ClickHouse takes.
	memoryBound = 512 << 20
	// bodyRows is how many rows a pushed body has.
	bodyRows = 1000
	// pushers send at once.
	pushers = 8
)

// pusher posts bodies of numbered rows to one tenant's table.
type pusher struct {
	server *harness.Server
	client *http.Client
	tenant string
	blank  []byte
	next   atomic.Int64
}

func newPusher(t *testing.T, s *harness.Server, tenant string) *pusher {
	p := &pusher{server: s, tenant: tenant, blank: eventBody(), client: &http.Client{
		Timeout: time.Minute, Transport: harness.Client.Transport,
	}}
	return p
}

// idDigits is how many digits an id of eventRows has.
const idDigits = 12

// eventBody is a body of rows of about 270 bytes whose ids are blank.
func eventBody() []byte {
	var b bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range bodyRows {
		fmt.Fprintf(&b, `{"id":"%*s","session":"%016x%016x","page":"/products/%d/details","referrer":"https://search.example.com/?q=%x","country":"NL","score":%d.25,"at":"2026-03-24T12:%02d:%02dZ","agent":"Mozilla/5.0 (X11; Linux x86_64) %x"}`+"\n",
			idDigits, "", rng.Uint64(), rng.Uint64(), rng.IntN(1e6), rng.Uint64(), i, i/60%60, i%60, rng.Uint64())
	}
	return b.Bytes()
}

// number writes ids from first into a copy of the body.
func number(blank []byte, first int64) []byte {
	body := bytes.Clone(blank)
	at := body
	for i := range int64(bodyRows) {
		at = at[bytes.Index(at, []byte(`{"id":"`))+len(`{"id":"`):]
		copy(at, fmt.Sprintf("%0*d", idDigits, first+i))
	}
	return body
}

const eventTable = " (id String, session String, page String, referrer String, country LowCardinality(String), score Float64," +
	" at DateTime, agent String) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000"

// fresh is a body of rows that were not sent before.
func (p *pusher) fresh() []byte { return number(p.blank, p.next.Add(bodyRows)-bodyRows) }

// post sends a body and returns the answer.
func (p *pusher) post(body []byte) (harness.Answer, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.server.URL+"/v1/ingest?table=events", bytes.NewReader(body))
	if err != nil {
		return harness.Answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("X-Tenant-ID", p.tenant)
	response, err := p.client.Do(request)
	if err != nil {
		return harness.Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return harness.Answer{Status: response.StatusCode, Header: response.Header, Body: string(text)}, err
}

// push sends bodies from several clients at full speed, until so many bytes
// were accepted or a client was refused, and returns the rows accepted.
func (p *pusher) push(t *testing.T, limit int64) (rows int64, refused bool) {
	t.Helper()
	var accepted, sent atomic.Int64
	var full atomic.Bool
	var group sync.WaitGroup
	for range pushers {
		group.Go(func() {
			for sent.Load() < limit && !full.Load() {
				body := p.fresh()
				a, err := p.post(body)
				switch {
				case !assert.NoError(t, err):
					return
				case a.Status == http.StatusOK:
					accepted.Add(bodyRows)
					sent.Add(int64(len(body)))
				case assertFull(t, a):
					full.Store(true)
				default:
					return
				}
			}
		})
	}
	group.Wait()
	return accepted.Load(), full.Load()
}

// assertFull checks an answer to be that of a full queue.
func assertFull(t *testing.T, a harness.Answer) bool {
	t.Helper()
	return assert.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body) &&
		assert.Contains(t, a.Body, `"queue.full"`) && assert.NotEmpty(t, a.Header.Get("Retry-After"))
}

// peak is the most memory that the process had resident, in bytes.
func peak(t *testing.T, p *harness.Process) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	require.FailNow(t, "no VmHWM")
	return 0
}

// onDisk is the size of a directory's files.
func onDisk(t *testing.T, dir string) (size int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	}))
	return size
}

// While ClickHouse is down and clients push at full speed, the backlog is on
// disk and memory stays within its bound; a full queue refuses, and costs no
// memory either. Afterwards everything that was accepted arrives.
func TestMemoryIsBoundedWhileClickHouseIsDown(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	server := harness.NewNested(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse})
	for tenant, budget := range map[string]string{"large": "4GB", "small": "20MB"} {
		clickhouse.Must(t, "CREATE DATABASE db_"+tenant)
		clickhouse.Must(t, "CREATE TABLE db_"+tenant+".events"+eventTable)
		server.WriteTenant(t, tenant, map[string]string{
			"clickhouse": fmt.Sprintf(`{"addr":"127.0.0.1","http_port":%d,"database":"db_%s"}`, clickhouse.HTTPPort, tenant),
			"mq":         fmt.Sprintf(`{"max_bytes_gb":%q}`, budget),
		})
	}
	server.Start(t)
	large, small := newPusher(t, server, "large"), newPusher(t, server, "small")
	for _, p := range []*pusher{large, small} {
		harness.Eventually(t, 60*time.Second, func() error {
			if a, err := p.post(nil); err != nil || a.Status == http.StatusServiceUnavailable {
				return fmt.Errorf("%v %w", a, err)
			}
			return nil
		})
	}
	clickhouse.Kill()

	begin := time.Now()
	rows, refused := large.push(t, memoryBound+memoryBound/16)
	require.False(t, refused)
	require.False(t, t.Failed())
	disk := onDisk(t, server.DataDir)
	t.Logf("%d rows accepted in %s, %d MiB on disk, peak %d MiB", rows, time.Since(begin), disk>>20, peak(t, server.Process)>>20)
	assert.LessOrEqual(t, peak(t, server.Process), int64(memoryBound))

	few, refused := small.push(t, memoryBound)
	require.True(t, refused, "a budget of 20 MB is full")
	atFull := peak(t, server.Process)
	again := number(small.blank, 0)
	harness.Eventually(t, time.Minute, func() error {
		a, err := small.post(again)
		if err == nil && a.Status == http.StatusOK {
			few += bodyRows
		}
		if err != nil || a.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("%v %w", a.Status, err)
		}
		return nil
	})
	var group sync.WaitGroup
	for range pushers {
		group.Go(func() {
			for range 50 {
				if a, err := small.post(again); !assert.NoError(t, err) || !assertFull(t, a) {
					return
				}
			}
		})
	}
	group.Wait()
	a, err := large.post(large.fresh())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Status, "another tenant has room: %s", a.Body)
	rows += bodyRows
	t.Logf("%d rows filled the small queue; peak %d MiB, after %d refusals %d MiB", few, atFull>>20, pushers*50, peak(t, server.Process)>>20)
	assert.LessOrEqual(t, peak(t, server.Process), int64(memoryBound))

	clickhouse.Start(t)
	for tenant, want := range map[string]int64{"large": rows, "small": few} {
		harness.Eventually(t, 6*time.Minute, func() error {
			if got := clickhouse.Must(t, "SELECT count() FROM db_"+tenant+".events"); got != fmt.Sprint(want) {
				return fmt.Errorf("%s: %s rows, want %d", tenant, got, want)
			}
			return nil
		})
	}
	harness.Eventually(t, time.Minute, func() error { // rows are stored before their place in the queue is free
		a, err := small.post(again)
		if err == nil && a.Status != http.StatusOK {
			return fmt.Errorf("there is no room again: %d %s", a.Status, a.Body)
		}
		return err
	})
	t.Logf("peak after everything was written %d MiB", peak(t, server.Process)>>20)
	assert.LessOrEqual(t, peak(t, server.Process), int64(memoryBound))
}
