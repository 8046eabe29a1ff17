package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Publisher is the part of the broker that the gate needs.
type Publisher interface {
	Publish(ctx context.Context, c mq.Chunk) (mq.Position, error)
}

// GateOptions are what a Gate is made with.
type GateOptions struct {
	Broker Publisher
	// MaxChunkBytes is the broker's; 0 is mq.MaxChunkBytes.
	MaxChunkBytes int
	Metrics       prometheus.Registerer
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// PublishTimeout bounds one publish, whose outcome is then unknown; 0 is
	// 10 seconds.
	PublishTimeout time.Duration
	// MaxWaitingPerTenant and MaxWaiting bound the bytes of rows that wait for
	// the queue; 0 is 16 MiB and 256 MiB. Over them a request is queue.full.
	MaxWaitingPerTenant, MaxWaiting int64
	// Dedupe remembers ids. It may be nil where no request has any, nor a key.
	Dedupe dedupe.Reserver
	// Lease is how long a reservation of Dedupe lasts.
	Lease time.Duration
	// InFlightWait is how long a request waits for another that has one of its
	// ids; 0 is 2 seconds.
	InFlightWait time.Duration
}

// Request is the body of one request and what its sender may do.
type Request struct {
	Tenant tenant.ID
	Table  *schema.Table
	// Grant is what the sender may insert; nil refuses every column.
	Grant *policy.InsertGrant
	// Claims are the sender's, for the grant's checks.
	Claims map[string]any
	Format record.InputFormat
	// Body is decoded (not compressed). It is not changed and not kept.
	Body          []byte
	MissingAsZero bool
	// UnknownFields, CollectInto, EventData and CutTimes are as in
	// record.DecodeOptions.
	UnknownFields          record.UnknownFields
	CollectInto, EventData string
	CutTimes               bool
	// IDs drops records that were seen before; nil drops none.
	IDs *IDs
	// Key names the request among those of Caller: one with a key that was seen
	// before is answered as a duplicate, whatever IDs says. "" is none.
	Key string
	// Caller is who sends the request, any text: each has keys of its own.
	Caller string
	// TraceParent is the request's W3C traceparent, "" for none.
	TraceParent string
	// AllResults asks for an entry per accepted record too.
	AllResults bool
	// Places asks where in the queue the accepted records are.
	Places bool
	// Refresh is asked once, when a record names a column that Table lacks: it
	// returns the table as it is now, or nil when that is no other. nil asks
	// nobody.
	Refresh func(ctx context.Context) *schema.Table
}

// Gate turns request bodies into durable rows. It owns no goroutine: its work
// is done by its callers.
type Gate struct {
	o       GateOptions
	waiting *fairshare.Bytes
	metrics *gateMetrics
	drift   drift
	free    sync.Pool // pieces
	// chunkBytes bounds the rows of a chunk.
	chunkBytes int

	life *lifetime.Life

	mu    sync.Mutex
	lanes map[laneKey]*lane
}

// DefaultPublishTimeout bounds a publish that nothing else bounds.
const DefaultPublishTimeout = 10 * time.Second

const (
	defaultWaitingPerTenant = 16 << 20
	defaultWaiting          = 256 << 20
	defaultInFlightWait     = 2 * time.Second
)

// NewGate builds a Gate.
func NewGate(o GateOptions) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.PublishTimeout = cmp.Or(o.PublishTimeout, DefaultPublishTimeout)
	o.MaxWaitingPerTenant = cmp.Or(o.MaxWaitingPerTenant, defaultWaitingPerTenant)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, defaultWaiting)
	o.InFlightWait = cmp.Or(o.InFlightWait, defaultInFlightWait)
	g := &Gate{
		o: o, waiting: fairshare.New(o.MaxWaitingPerTenant, o.MaxWaiting),
		lanes: make(map[laneKey]*lane), life: lifetime.New(mq.ErrClosed),
		chunkBytes: chunk.MaxBytes(cmp.Or(o.MaxChunkBytes, mq.MaxChunkBytes)),
	}
	g.metrics = newGateMetrics(o.Metrics, g.waiting)
	return g
}

// Ingest judges the records of a request and returns when the accepted ones
// are durable. The error is nil, a *record.BodyError (nothing was stored) or an
// *Error; the Result says what was stored in either case. When ctx ends, rows
// that were not sent on yet are given up; those that were are waited for.
func (g *Gate) Ingest(ctx context.Context, r Request) (Result, error) {
	if err := g.life.Enter(); err != nil {
		return Result{}, PublishError(err)
	}
	defer g.life.Leave()
	s := &session{
		g: g, r: &r, received: g.o.Now(),
		topic: mq.Topic{Tenant: r.Tenant, Table: r.Table.Name},
		d:     g.decoder(&r, r.Table),
	}
	if r.IDs != nil || r.Key != "" {
		s.ids = &reservations{owner: dedupe.NewOwner(), scope: dedupe.Scope{Tenant: r.Tenant, Table: r.Table.Name}}
	}
	err := s.run(ctx)
	g.metrics.request(&r, &s.result)
	if s.unknown != nil {
		g.drift.add(r.Tenant, r.Table.Name, s.unknown, s.received)
		g.metrics.unknown.WithLabelValues(string(r.Tenant), r.Table.Name).Add(float64(s.unknownFields))
	}
	return s.result, err
}

func (g *Gate) decoder(r *Request, table *schema.Table) *record.Decoder {
	o := record.DecodeOptions{
		Allow: allow(r.Grant, table.Columns), MissingAsZero: r.MissingAsZero,
		UnknownFields: r.UnknownFields, CollectInto: r.CollectInto, EventData: r.EventData, CutTimes: r.CutTimes,
	}
	if r.IDs != nil {
		o.IDField, o.RequireID = r.IDs.Field, r.IDs.Required
	}
	if r.Grant != nil {
		bound := r.Grant.Bind(r.Claims, table.Record)
		o.Checks, o.Refuse = bound.Checks, bound.Refuse
	}
	return table.Record.NewDecoder(r.Format, r.Body, o)
}

// allow judges the columns once per request; nil when all are allowed.
func allow(grant *policy.InsertGrant, columns []record.Column) func(int) bool {
	allowed := func(c record.Column) bool { return grant != nil && grant.Allows(c.Name) }
	if !slices.ContainsFunc(columns, func(c record.Column) bool { return !allowed(c) }) {
		return nil
	}
	some := make([]bool, len(columns))
	for i, c := range columns {
		some[i] = allowed(c)
	}
	return func(column int) bool { return some[column] }
}

// Close refuses new requests and waits for those inside, or for ctx.
func (g *Gate) Close(ctx context.Context) error {
	_ = g.life.Close() // a second time it waits, too
	if err := g.life.End(ctx); err != nil {
		return fmt.Errorf("waiting for requests inside the gate: %w", err)
	}
	return nil
}
