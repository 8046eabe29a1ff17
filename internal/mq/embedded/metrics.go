package embedded

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// metrics are the broker's counters, and a collector for the tenants' queues.
type metrics struct {
	*jetstream.Metrics
	dropped     *prometheus.CounterVec
	early       *prometheus.CounterVec
	lost        *prometheus.CounterVec
	lostLetters *prometheus.CounterVec
	damages     *prometheus.CounterVec
}

func newMetrics(b *Broker, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		Metrics:     jetstream.NewMetrics(),
		dropped:     jetstream.Counters("dead_letters_dropped_total", "Dead letters dropped because their budget is full.", "tenant"),
		early:       jetstream.Counters("early_purged_chunks_total", "Acknowledged chunks purged before their time to make room.", "tenant"),
		lost:        jetstream.Counters("lost_chunks_total", "Stored chunks that the disk lost before they were written.", "tenant"),
		lostLetters: jetstream.Counters("lost_dead_letters_total", "Dead letters that the disk lost, or may have lost.", "tenant"),
		damages:     jetstream.Counters("damages_total", "Times that files were found damaged, by what they are of.", "store"),
	}
	for _, store := range []string{mq.StoreQueue, mq.StoreDeadLetters, mq.StoreAcknowledgments, mq.StoreBatches} {
		m.damages.WithLabelValues(store)
	}
	return m, m.Register(reg, m.dropped, m.early, m.lost, m.lostLetters, m.damages, newDepths(b))
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
