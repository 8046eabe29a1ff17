package insert_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/record"
)

// sharded is a queue whose shards come and go, with a worker.
type sharded struct {
	t      *testing.T
	broker *mqtest.MemoryBroker
	worker *insert.Worker
	logs   *logBuffer
}

func newSharded(t *testing.T, ins insert.Inserter, configure func(*insert.WorkerOptions)) *sharded {
	s := &sharded{t: t, broker: mqtest.NewMemory(time.Minute).Open(), logs: &logBuffer{}}
	o := insert.WorkerOptions{Broker: s.broker, Pool: pool(ins), Logger: slog.New(slog.NewTextHandler(s.logs, nil))}
	quick(&o)
	if configure != nil {
		configure(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s.worker = insert.NewWorker(o)
	go func() { ended <- s.worker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		assert.NoError(t, s.broker.Close(context.Background()))
	})
	waitFor(t, "the worker to begin", func() bool { _, ours := s.worker.Progress(mq.Topic{Tenant: birch, Table: "pages"}); return ours })
	return s
}

func (s *sharded) send(from, to int) {
	s.t.Helper()
	s.sendTo("pages", from, to)
}

func (s *sharded) sendTo(table string, from, to int) {
	s.t.Helper()
	t := ingesttest.Pages()
	t.Name = table
	gate := ingest.NewGate(ingest.GateOptions{Broker: s.broker})
	result, err := gate.Ingest(s.t.Context(), ingesttest.Request(t, record.NDJSON, ingesttest.Lines(from, to)))
	require.NoError(s.t, err)
	require.Equal(s.t, result.Total, result.Succeeded)
}

// revoke takes away the shard of the table, and returns once it is let go of
// and back.
func (s *sharded) revoke() {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.broker.Revoke(s.broker.Shard(mq.Topic{Tenant: birch, Table: "pages"}))
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		s.t.Fatal("the worker does not let go of the shard")
	}
}

func (s *sharded) held(n int) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprint(n, " chunks to be held"), func() bool { return s.worker.Status().HeldChunks == n })
}

func TestShardIsLetGoOf(t *testing.T) {
	t.Parallel()
	first := func(err error) func(statement) error {
		return func(i statement) error {
			if i.n == 1 {
				return err
			}
			return nil
		}
	}
	never := func(o *insert.WorkerOptions) { o.BackoffMin, o.BackoffMax = time.Hour, time.Hour }
	for name, c := range map[string]struct {
		fail      func(statement) error
		configure func(*insert.WorkerOptions)
		// written says that the rows are once the shard is back, else they are
		// held again.
		written bool
	}{
		"while its rows wait for a batch": {configure: func(o *insert.WorkerOptions) {
			o.Settings = served(insert.Flush{MaxWait: time.Hour}, true)
		}},
		"while ClickHouse is away": {fail: first(unreachable()), configure: never},
		"while refused rows are kept": {fail: first(refusedError()), written: true, configure: func(o *insert.WorkerOptions) {
			never(o)
			o.Settings = served(insert.Flush{MaxWait: time.Millisecond}, false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ins := &sink{name: "ch", fail: c.fail}
			s := newSharded(t, ins, c.configure)
			s.send(0, 1)
			s.held(1)
			if c.fail != nil {
				waitFor(t, "a failure", func() bool { return len(ins.seen()) == 1 })
			}
			s.revoke()
			assert.Contains(t, s.logs.String(), "let go of a shard")
			if !c.written {
				s.held(1)
				return
			}
			waitFor(t, "the rows", func() bool { return len(ins.rows()) == 1 })
			s.held(0)
		})
	}
}

// An INSERT that is under way is waited for: its rows are not written again.
func TestShardIsKeptUntilItsInsertIsDone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	ins := &sink{name: "ch", fail: func(statement) error { <-release; return nil }}
	s := newSharded(t, ins, nil)
	s.send(0, 10)
	waitFor(t, "the INSERT", func() bool { return len(ins.seen()) == 1 })
	done := make(chan struct{})
	go func() { defer close(done); s.revoke() }()
	select {
	case <-done:
		t.Fatal("let go of rows that are being inserted")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-done
	s.send(10, 11)
	waitFor(t, "what came after", func() bool { return len(ins.rows()) == 11 })
	assertSameRows(t, ingesttest.Rows(0, 11), ins.rows())
}

// A delivery that waits for memory, which a table of another shard has, is
// handed back.
func TestShardIsLetGoOfByADeliveryThatWaits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var others atomic.Int32
	ins := &sink{name: "ch", fail: func(i statement) error {
		if !strings.Contains(i.sql, "pages") {
			others.Add(1)
			<-release
		}
		return nil
	}}
	s := newSharded(t, ins, func(o *insert.WorkerOptions) { o.MaxHeldPerTenant, o.MaxHeld = 2<<10, 4<<10 })
	other := ""
	for n := 0; other == "" || s.broker.Shard(mq.Topic{Tenant: birch, Table: other}) == s.broker.Shard(mq.Topic{Tenant: birch, Table: "pages"}); n++ {
		other = fmt.Sprint("t", n)
	}
	s.sendTo(other, 0, 200)
	waitFor(t, "the other table's INSERT", func() bool { return others.Load() == 1 })
	s.send(200, 400)
	s.held(2)
	s.revoke()
	assert.EqualValues(t, 1, others.Load())
	close(release)
	waitFor(t, "all rows", func() bool { return len(ins.rows()) == 400 })
	assertSameRows(t, ingesttest.Rows(0, 400), ins.rows())
}

// What is known of a table ends with its shard.
func TestProgressOfAShardThatCameBack(t *testing.T) {
	t.Parallel()
	ins := &sink{name: "ch"}
	s := newSharded(t, ins, nil)
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	s.send(0, 10)
	tail, err := s.broker.Tail(t.Context(), topic)
	require.NoError(t, err)
	waitFor(t, "the rows", func() bool { p, _ := s.worker.Progress(topic); return p.Frontier == tail && p.Quiet })
	s.revoke()
	p, ours := s.worker.Progress(topic)
	assert.True(t, ours)
	assert.True(t, p.Frontier.IsZero(), "another may have been at it meanwhile")
}

// A row that is refused while the shard is lost, and goes back with its chunk, is
// parked once.
func TestShardIsLetGoOfWithoutParkingTwice(t *testing.T) {
	t.Parallel()
	var back, begun atomic.Bool
	begin := make(chan struct{})
	ins := &sink{name: "ch"}
	ins.fail = func(i statement) error {
		bad := slices.IndexFunc(i.rows, func(row string) bool { return strings.Contains(row, `"3"`) })
		switch {
		case bad >= 0:
			return exception(clickhouse.ClassRejected, 469, fmt.Sprintf("violated at row %d", bad+1))
		case back.Load() || strings.Contains(i.rows[0], `"0"`):
			return nil
		case begun.CompareAndSwap(false, true):
			close(begin)
		}
		return unreachable() // what comes behind the bad row
	}
	s := newSharded(t, ins, nil)
	s.send(0, 10)
	<-begin
	s.revoke()
	back.Store(true)
	store, err := s.broker.DeadLetters(birch)
	require.NoError(t, err)
	parked := func() uint64 {
		counts, err := store.Counts(t.Context())
		require.NoError(t, err)
		return counts["pages"]
	}
	waitFor(t, "the row to be parked", func() bool { return parked() > 0 })
	s.held(0)
	assert.EqualValues(t, 1, parked())
	good := slices.DeleteFunc(ingesttest.Rows(0, 10), func(row string) bool { return strings.Contains(row, `"3"`) })
	assert.Subset(t, ins.rows(), good)
}
