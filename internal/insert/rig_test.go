package insert_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	birch = ingesttest.Birch
	cedar = ingesttest.Cedar
)

// rig is a real queue with a gate in front and a worker behind it.
type rig struct {
	t      *testing.T
	dir    string
	ackFor time.Duration
	broker *embedded.Broker
	gate   *ingest.Gate
	worker *insert.Worker
	// watches hear what the worker tells.
	watches *ingest.Watches
	cancel  context.CancelFunc
	ended   chan error
	logs    *logBuffer
	acks    *ackRecorder
}

// quick are flush and backoff times for tests.
func quick(o *insert.WorkerOptions) {
	o.BackoffMin, o.BackoffMax = 20*time.Millisecond, 100*time.Millisecond
	o.Settings = served(insert.Flush{MaxWait: 20 * time.Millisecond}, true)
	o.DrainTimeout = 20 * time.Second
	o.NoPoolGrace = time.Hour
}

func served(f insert.Flush, park bool) func(tenant.ID, string) insert.TableSettings {
	return func(tenant.ID, string) insert.TableSettings {
		return insert.TableSettings{Served: true, Flush: f, Park: park}
	}
}

func pool(ins insert.Inserter) func(tenant.ID) (insert.Inserter, error) {
	return func(tenant.ID) (insert.Inserter, error) { return ins, nil }
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, dir: t.TempDir(), logs: &logBuffer{},
		acks: &ackRecorder{mu: &sync.Mutex{}, acked: map[mq.Position]bool{}, handedBack: map[string]int{}, came: map[string]int{}},
	}
	t.Cleanup(r.close)
	return r
}

// open opens the queue, without a worker.
func (r *rig) open() *rig {
	r.t.Helper()
	b, err := embedded.New(embedded.Options{Dir: r.dir, Logger: slog.New(slog.DiscardHandler), AckWait: r.ackFor})
	require.NoError(r.t, err)
	r.broker = b
	r.gate = ingest.NewGate(ingest.GateOptions{Broker: b})
	return r
}

// start runs a worker over the queue.
func (r *rig) start(configure ...func(*insert.WorkerOptions)) *rig {
	r.t.Helper()
	if r.broker == nil {
		r.open()
	}
	r.acks.Source = r.broker
	bus := local.New()
	r.watches = ingest.NewWatches(nil)
	bus.Listen(r.watches.Told)
	o := insert.WorkerOptions{Broker: r.acks, Logger: slog.New(slog.NewTextHandler(r.logs, nil)), Tell: bus.Tell, Batches: r.broker}
	quick(&o)
	for _, c := range configure {
		c(&o)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	r.worker, r.cancel, r.ended = insert.NewWorker(o), cancel, make(chan error, 1)
	worker, ended := r.worker, r.ended
	go func() { _ = bus.Run(r.t.Context()) }()
	go func() { ended <- worker.Run(ctx) }()
	return r
}

// progress asks the worker how far it is.
func (r *rig) progress(t mq.Topic) notice.Progress {
	var p notice.Progress
	require.Eventually(r.t, func() (ours bool) { p, ours = r.worker.Progress(t); return ours }, time.Minute, time.Millisecond)
	return p
}

// stop ends the worker as a stop of the process does.
func (r *rig) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	select {
	case err := <-r.ended:
		require.NoError(r.t, err)
	case <-time.After(60 * time.Second):
		r.t.Fatal("the worker does not stop")
	}
}

func (r *rig) close() {
	r.stop()
	if r.broker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(r.t, r.broker.Close(ctx))
		r.broker = nil
	}
}

// send posts a body and expects all of it to be accepted.
func (r *rig) send(req ingest.Request) {
	r.t.Helper()
	result, err := r.gate.Ingest(r.t.Context(), req)
	require.NoError(r.t, err)
	require.Equal(r.t, result.Total, result.Succeeded, "%+v", result.Results)
}

// publish puts a message of the test's own making on the queue.
func (r *rig) publish(c mq.Chunk) {
	r.t.Helper()
	_, err := r.broker.Publish(r.t.Context(), c)
	require.NoError(r.t, err)
}

func (r *rig) pending(id tenant.ID) uint64 {
	status, err := r.broker.TenantStatus(r.t.Context(), id)
	require.NoError(r.t, err)
	return status.Pending
}

// settled waits until nothing of the tenant is left in the queue.
func (r *rig) settled(id tenant.ID) {
	r.t.Helper()
	waitFor(r.t, "the queue to empty", func() bool { return r.pending(id) == 0 })
}

func (r *rig) letters(id tenant.ID, table string) []mq.DeadLetter {
	r.t.Helper()
	store, err := r.broker.DeadLetters(id)
	require.NoError(r.t, err)
	var all []mq.DeadLetter
	cursor := ""
	for {
		page, err := store.List(r.t.Context(), table, 1000, cursor)
		require.NoError(r.t, err)
		all = append(all, page.Letters...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// letterRow renders a parked row as JSON.
func letterRow(t *testing.T, l mq.DeadLetter) string {
	t.Helper()
	return ingesttest.ChunkRows(t, mq.Chunk{Header: l.Header, Body: l.Row})[0]
}

// logBuffer collects the log of a worker.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sink stands in for ClickHouse where its failures have to be made to order:
// it reads the INSERT's rows and stores them unless told otherwise.
type sink struct {
	trusted
	name string
	// fail decides about an INSERT before it is stored, lost after.
	fail func(i statement) error
	lost func(i statement) error

	mu      sync.Mutex
	inserts []statement
	stored  []string
}

// statement is an INSERT as the sink saw it.
type statement struct {
	n        int
	sql      string
	settings map[string]string
	rows     []string
	repeat   bool
	ctx      context.Context
}

func (s *sink) Name() string { return s.name }

// trusted is a table whose memory is in no doubt.
type trusted struct{}

func (trusted) Memory(context.Context, string, time.Duration) (clickhouse.Memory, error) {
	return clickhouse.Memory{}, nil
}

func (trusted) Absent(context.Context, clickhouse.Sought) ([]int, error) {
	return nil, errors.New("nobody asks for what is absent from a table that is trusted")
}

func (s *sink) Insert(ctx context.Context, r clickhouse.Request) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	i := statement{sql: r.SQL, settings: r.Settings, rows: insertedRows(r.SQL, data), repeat: r.Repeat, ctx: ctx}
	s.mu.Lock()
	i.n = len(s.inserts) + 1
	s.inserts = append(s.inserts, i)
	s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(i); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.stored = append(s.stored, i.rows...)
	s.mu.Unlock()
	if s.lost != nil {
		return s.lost(i)
	}
	return nil
}

func (s *sink) rows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stored)
}

func (s *sink) seen() []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inserts)
}

// insertedRows reads the data of an INSERT.
func insertedRows(sql string, data []byte) []string {
	if strings.HasSuffix(sql, " JSONCompactEachRowWithNamesAndTypes") {
		return strings.Split(strings.TrimSpace(string(data)), "\n")[2:]
	}
	texts := make([]string, 0, 16)
	count := int(data[0])
	at := 1
	for range 2 * count {
		n := int(data[at])
		texts = append(texts, string(data[at+1:at+1+n]))
		at += 1 + n
	}
	type column struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	var columns []column
	for i := range count {
		columns = append(columns, column{texts[i], texts[count+i]})
	}
	header, err := json.Marshal(columns)
	if err != nil {
		panic(err)
	}
	layout, err := record.ParseLayout(string(header), time.UTC)
	if err != nil {
		panic(err)
	}
	var rows []string
	for at < len(data) {
		n, err := layout.RowLen(data[at:])
		if err != nil {
			panic(err)
		}
		row, err := layout.AppendObject(nil, data[at:at+n], nil, record.RenderOptions{})
		if err != nil {
			panic(err)
		}
		rows = append(rows, string(row))
		at += n
	}
	return rows
}

// Failures as the pools report them.
func exception(class clickhouse.Class, code int, message string) error {
	return &clickhouse.Error{Class: class, Code: code, Message: message, Status: 500}
}

func refusedError() error { return exception(clickhouse.ClassRejected, 469, "Constraint is violated") }

func unreachable() error {
	return &clickhouse.Error{Class: clickhouse.ClassUnavailable, Message: "connection refused"}
}

func assertSameRows(t *testing.T, want, got []string) {
	t.Helper()
	want, got = slices.Clone(want), slices.Clone(got)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		assert.Failf(t, "rows differ", "%d wanted, %d found, %d distinct", len(want), len(got), len(slices.Compact(got)))
	}
}

// nativeException is a failure that ClickHouse itself reports.
func nativeException(code int32, message string) error {
	return &ch.Exception{Code: code, Name: "TEST", Message: message}
}

// script is a reproducible sequence of choices, for many goroutines.
type script struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func newScript(seed uint64) *script { return &script{rand: rand.New(rand.NewPCG(seed, seed))} }

func (s *script) next(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// ackRecorder notes what was acknowledged and what was handed back.
type ackRecorder struct {
	insert.Source
	// wait is what the worker is told to be the ack wait; 0 for the truth.
	wait       time.Duration
	beforeAck  func() // may be nil
	mu         *sync.Mutex
	acked      map[mq.Position]bool
	handedBack map[string]int // deliveries, by table
	came       map[string]int // deliveries that the worker has taken, by table
}

// recordedDelivery is a delivery whose handing back is noted.
type recordedDelivery struct {
	mq.Delivery
	to *ackRecorder
}

func (d recordedDelivery) Nak(delay time.Duration) error {
	d.to.mu.Lock()
	d.to.handedBack[d.Chunk().Table]++
	d.to.mu.Unlock()
	return d.Delivery.Nak(delay)
}

func (a *ackRecorder) backOf(table string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handedBack[table]
}

func (a *ackRecorder) cameOf(table string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.came[table]
}

type recordedConsumption struct {
	mq.Consumption
	to *ackRecorder
}

func (a *ackRecorder) AckWait() time.Duration { return cmp.Or(a.wait, a.Source.AckWait()) }

func (a *ackRecorder) Consume(ctx context.Context, work mq.Work) (mq.Consumption, error) {
	deliver := work.Deliver
	work.Deliver = func(d mq.Delivery) {
		deliver(recordedDelivery{d, a})
		a.mu.Lock()
		defer a.mu.Unlock()
		a.came[d.Chunk().Table]++
	}
	c, err := a.Source.Consume(ctx, work)
	return recordedConsumption{c, a}, err
}

func (c recordedConsumption) Ack(ds ...mq.Delivery) error {
	bare := make([]mq.Delivery, len(ds))
	for i, d := range ds {
		bare[i] = d.(recordedDelivery).Delivery
	}
	if c.to.beforeAck != nil {
		c.to.beforeAck()
	}
	err := c.Consumption.Ack(bare...)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	for _, d := range ds {
		if err == nil {
			c.to.acked[d.Position()] = true
		}
	}
	return err
}

// cutShort returns the rows of chunks that a stop left in the queue although
// some of their rows are written: they come again as a whole. That may happen
// when the stop fell into the narrowing down of a chunk, or when the outcome
// of an INSERT of its rows is not known, as unsure says when it is given.
func (r *rig) cutShort(written []string, unsure map[string]bool) []string {
	r.t.Helper()
	done := map[string]bool{}
	for _, row := range written {
		done[row] = true
	}
	for _, l := range r.letters(birch, "pages") {
		done[letterRow(r.t, l)] = true
	}
	tail, err := r.broker.Tail(r.t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(r.t, err)
	var cut []string
	err = r.broker.Replay(r.t.Context(), mq.Topic{Tenant: birch, Table: "pages"}, mq.Position{}, tail, func(c mq.Chunk, p mq.Position) error {
		if r.acks.acked[p] {
			return nil
		}
		rows, settled, lost := ingesttest.ChunkRows(r.t, c), 0, unsure == nil
		for _, row := range rows {
			lost = lost || unsure[row]
			if done[row] {
				settled++
			}
		}
		assert.True(r.t, lost || settled < len(rows), "a stop left a chunk in the queue that was written whole")
		if settled > 0 {
			cut = append(cut, rows...)
		}
		return nil
	})
	require.NoError(r.t, err)
	return cut
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 90*time.Second, 2*time.Millisecond, what)
}
