package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// insert posts a row and waits until it is in ClickHouse.
func insert(t *testing.T, p *harness.Server, table, row string) {
	t.Helper()
	a := p.Do(t, http.MethodPost, "/v1/ingest?wait=inserted&timeout=60s&table="+table, row, "Content-Type", "application/json")
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	require.Contains(t, a.Body, `"inserted":true`)
}

// Two processes answer, a third writes, and a client may talk to either of the two.
func TestAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := start(t, 1, map[string]string{"ingest": `{"flush":{"max_wait":"20ms"}}`})
	s.clickhouse.Must(t, "CREATE TABLE pages (n UInt64, note String DEFAULT '') ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000")
	one, other := s.process("one", "api"), s.process("other", "api,sweeper")
	s.process("writer", "ingest")
	for _, p := range []*harness.Server{one, other} {
		p.AwaitReady(t)
		// Who hears of a process for the first time may have missed what it told.
		awaitFleet(t, p, 3)
	}

	t.Run("wait=inserted is answered by a process that does not write", func(t *testing.T) {
		for n := range 5 {
			insert(t, []*harness.Server{one, other}[n%2], "pages", fmt.Sprintf(`{"n":%d}`, n))
		}
		assert.Equal(t, "5", s.clickhouse.Must(t, "SELECT count() FROM pages"))
	})

	t.Run("a write drops the answers that other processes cached", func(t *testing.T) {
		const count = `{"aggregations":[{"fn":"count","column":"*","alias":"k"}]}`
		ask := func(p *harness.Server) (string, string) {
			a := p.Query(t, "pages", count)
			require.Equal(t, http.StatusOK, a.Status, a.Body)
			return strings.Join(strings.Fields(a.Body), ""), a.Header.Get("X-Cache")
		}
		for _, p := range []*harness.Server{one, other} {
			harness.Eventually(t, patience, func() error {
				if body, from := ask(p); from != "HIT" || body != `[{"k":5}]` {
					return fmt.Errorf("%s %s", from, body)
				}
				return nil
			})
		}
		insert(t, one, "pages", `{"n":5}`)
		body, _ := ask(one)
		assert.JSONEq(t, `[{"k":6}]`, body, "who was answered that the row is there finds it")
		harness.Eventually(t, patience, func() error {
			if body, _ := ask(other); body != `[{"k":6}]` {
				return fmt.Errorf("%s", body)
			}
			return nil
		})
		a := one.Ops(t, http.MethodPost, "/v1/ops/query", `{"sql":"ALTER TABLE pages DELETE WHERE n = 5 SETTINGS mutations_sync = 1","write":true}`)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		harness.Eventually(t, patience, func() error {
			if body, _ := ask(other); body != `[{"k":5}]` {
				return fmt.Errorf("after a statement: %s", body)
			}
			return nil
		})
	})

	t.Run("a stream goes on at another process", func(t *testing.T) {
		next, last := 100, ""
		for round, p := range []*harness.Server{one, other, one, other} {
			stream := follow(t, p, "pages", last)
			if round == 0 {
				insert(t, other, "pages", fmt.Sprintf(`{"n":%d}`, next))
			}
			for range 2 {
				insert(t, one, "pages", fmt.Sprintf(`{"n":%d}`, next+1))
				assert.Equal(t, next, rowOf(t, stream))
				next++
			}
			last = stream.LastID()
			stream.Close()
		}
	})

	t.Run("a query at one process and a stream at another show each row once", func(t *testing.T) {
		var a harness.Answer
		// Nothing is being written; that is asked of the writer, which may be slow.
		harness.Eventually(t, patience, func() error {
			a = one.Do(t, http.MethodPost, "/v1/query?table=pages&position=1", `{"columns":["n"]}`)
			if a.Status != http.StatusOK || a.Header.Get("X-Stream-Join") != "exact" {
				return fmt.Errorf("%d, join %q", a.Status, a.Header.Get("X-Stream-Join"))
			}
			return nil
		})
		assert.Contains(t, a.Body, `"n":108`)
		insert(t, one, "pages", `{"n":500}`)
		stream := follow(t, other, "pages", a.Header.Get("X-Stream-Position"))
		defer stream.Close()
		assert.Equal(t, 500, rowOf(t, stream))
	})

	t.Run("dead letters are any process's", func(t *testing.T) {
		// ClickHouse refuses them, whatever the processes know of the table.
		s.clickhouse.Must(t, "ALTER TABLE pages ADD CONSTRAINT small CHECK n < 900")
		a := one.Do(t, http.MethodPost, "/v1/ingest?table=pages", `[{"n":900,"note":"a"},{"n":901,"note":"b"}]`, "Content-Type", "application/json")
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		for _, p := range []*harness.Server{one, other} {
			harness.Eventually(t, patience, func() error {
				if a := p.Ops(t, http.MethodGet, "/v1/ops/dlq/stats", ""); !strings.Contains(a.Body, `"total":2`) {
					return fmt.Errorf("%s", a.Body)
				}
				return nil
			})
		}
		var page struct{ Rows []struct{ ID string } }
		other.Ops(t, http.MethodGet, "/v1/ops/dlq/rows?table=pages", "").JSON(t, &page)
		require.Len(t, page.Rows, 2)
		s.clickhouse.Must(t, "ALTER TABLE pages DROP CONSTRAINT small")
		a = other.Ops(t, http.MethodPost, "/v1/ops/dlq/replay", fmt.Sprintf(`{"table":"pages","ids":[%q]}`, page.Rows[0].ID))
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		a = one.Ops(t, http.MethodDelete, "/v1/ops/dlq/rows", fmt.Sprintf(`{"table":"pages","ids":[%q]}`, page.Rows[1].ID))
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		harness.Eventually(t, patience, func() error {
			if rows := s.clickhouse.Must(t, "SELECT n FROM pages WHERE n >= 900 ORDER BY n FORMAT TSV"); rows != "900" {
				return fmt.Errorf("rows %q", rows)
			}
			return nil
		})
		harness.Eventually(t, patience, func() error {
			if a := one.Ops(t, http.MethodGet, "/v1/ops/dlq/stats", ""); !strings.Contains(a.Body, `"total":0`) {
				return fmt.Errorf("%s", a.Body)
			}
			return nil
		})
	})

	t.Run("the fleet is known everywhere, and who lags is named", func(t *testing.T) {
		for _, p := range []*harness.Server{one, other} {
			s.awaitShards(p, "writer")
			awaitFleet(t, p, 3)
		}
		one.WriteFile(t, "roles.json", `{"roles":["public","viewer","writer","more"]}`)
		a := one.Ops(t, http.MethodPost, "/v1/ops/settings/reload", "")
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		harness.Eventually(t, patience, func() error {
			f := fleetOf(t, other)
			var lagging []string
			for _, m := range f.Processes {
				if m.Lagging {
					lagging = append(lagging, m.Instance)
				}
			}
			if f.Agreed || strings.Join(lagging, " ") != "other writer" {
				return fmt.Errorf("%+v", f)
			}
			return nil
		})
	})
}

// reader follows a table's stream, and comes back with its last id where the history
// could not be read just then, as clients do.
type reader struct {
	*streamtest.Stream
	of          *harness.Server
	table, last string
}

// follow opens a stream of a table behind an id, "" for what comes.
func follow(t *testing.T, p *harness.Server, table, last string) *reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/v1/stream?table="+table, nil)
	require.NoError(t, err)
	stream, err := streamtest.Open(harness.Client, request, last)
	require.NoError(t, err)
	return &reader{stream, p, table, last}
}

// LastID is that of the last block, on whichever connection it came.
func (r *reader) LastID() string { return cmp.Or(r.Stream.LastID(), r.last) }

// next reads the next event.
func (r *reader) next(t *testing.T) streamtest.Frame {
	t.Helper()
	for {
		frame, err := r.NextEvent()
		require.NoError(t, err)
		if frame.EndReason() != stream.EndUnavailable {
			return frame
		}
		r.Close()
		*r = *follow(t, r.of, r.table, r.LastID())
	}
}

// rowOf reads the next row's n; a gap fails the test.
func rowOf(t *testing.T, stream *reader) int {
	t.Helper()
	for {
		frame := stream.next(t)
		require.Empty(t, frame.Event, frame.Data)
		var row struct{ Row struct{ N int } }
		if frame.Data != "" && json.Unmarshal([]byte(frame.Data), &row) == nil {
			return row.Row.N
		}
	}
}
