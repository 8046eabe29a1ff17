package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// metrics are the broker's counters, and a collector for the tenants' queues.
type metrics struct {
	reg         prometheus.Registerer
	registered  []prometheus.Collector
	publishes   *prometheus.CounterVec
	seconds     prometheus.Histogram
	redelivered prometheus.Counter
	parked      *prometheus.CounterVec
	discarded   *prometheus.CounterVec
	dropped     *prometheus.CounterVec
	early       *prometheus.CounterVec
	lost        *prometheus.CounterVec
	lostLetters *prometheus.CounterVec
}

func newMetrics(b *Broker, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reg:         reg,
		publishes:   counters("publishes_total", "Chunks published, by result.", "result"),
		redelivered: counters("redeliveries_total", "Chunks delivered to the worker again.").WithLabelValues(),
		parked:      counters("dead_letters_parked_total", "Rows parked as dead letters.", "tenant"),
		discarded:   counters("dead_letters_discarded_total", "Dead letters discarded on request.", "tenant"),
		dropped:     counters("dead_letters_dropped_total", "Dead letters dropped because their budget is full.", "tenant"),
		early:       counters("early_purged_chunks_total", "Acknowledged chunks purged before their time to make room.", "tenant"),
		lost:        counters("lost_chunks_total", "Stored chunks that the disk lost before they were written.", "tenant"),
		lostLetters: counters("lost_dead_letters_total", "Dead letters that the disk lost, or may have lost.", "tenant"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_mq_publish_seconds", Help: "How long a publish took until it was durable or refused.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.publishes, m.seconds, m.redelivered, m.parked, m.discarded, m.dropped, m.early, m.lost, m.lostLetters, newDepths(b)} {
		if err := reg.Register(c); err != nil {
			m.unregister()
			return nil, fmt.Errorf("register queue metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wavehouse_mq_" + name, Help: help}, labels)
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.reg.Unregister(c)
	}
}

func (m *metrics) published(err error, took time.Duration) {
	m.publishes.WithLabelValues(result(err)).Inc()
	m.seconds.Observe(took.Seconds())
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, mq.ErrFull):
		return "full"
	case errors.Is(err, mq.ErrTooLarge):
		return "too_large"
	case errors.Is(err, mq.ErrOutcomeUnknown):
		return "unknown"
	}
	return "unavailable"
}

// collectTimeout bounds a scrape.
const collectTimeout = 2 * time.Second

// depths collects the state of every tenant's queue when it is scraped.
type depths struct {
	b                                                 *Broker
	chunks, bytes, pending, budget, parked, available *prometheus.Desc
}

func newDepths(b *Broker) *depths {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("wavehouse_mq_"+name, help, []string{"tenant"}, nil)
	}
	return &depths{
		b:         b,
		chunks:    desc("depth_chunks", "Chunks kept in the queue, history included."),
		bytes:     desc("bytes", "Bytes kept in the queue, history included."),
		pending:   desc("pending_chunks", "Chunks not yet acknowledged by the worker."),
		budget:    desc("budget_bytes", "The queue's budget."),
		parked:    desc("dead_letters", "Dead letters kept."),
		available: desc("queue_available", "1 for a queue that is open; 0 for one that cannot be opened, whose depth is unknown."),
	}
}

// Describe implements prometheus.Collector.
func (d *depths) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.chunks, d.bytes, d.pending, d.budget, d.parked, d.available} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *depths) Collect(ch chan<- prometheus.Metric) {
	if d.b.life.Enter() != nil {
		return
	}
	defer d.b.life.Leave()
	ctx, cancel := context.WithTimeout(d.b.ctx, collectTimeout)
	defer cancel()
	states := d.b.states(ctx)
	for _, q := range d.b.all() {
		st := q.status(states)
		if !st.Kept {
			continue
		}
		figures := map[*prometheus.Desc]float64{d.budget: float64(st.Budget), d.available: 0}
		if st.Err == nil {
			figures = map[*prometheus.Desc]float64{
				d.chunks: float64(st.Chunks), d.bytes: float64(st.Bytes), d.pending: float64(st.Pending),
				d.budget: float64(st.Budget), d.parked: float64(st.DeadLetters), d.available: 1,
			}
		}
		for desc, v := range figures {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, string(q.tenant))
		}
	}
}
