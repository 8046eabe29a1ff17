package insert

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type workerMetrics struct {
	inserts  *prometheus.CounterVec
	seconds  prometheus.Histogram
	rows     *prometheus.CounterVec
	parkedBy *prometheus.CounterVec
	drops    *prometheus.CounterVec
	repeats  *prometheus.CounterVec
}

func newWorkerMetrics(reg prometheus.Registerer, w *Worker) *workerMetrics {
	auto := promauto.With(reg)
	stateMetrics(auto, w)
	return &workerMetrics{
		inserts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_worker_inserts_total", Help: "INSERTs sent, by how they ended: stored, or the class of the failure.",
		}, []string{"class"}),
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_worker_insert_seconds", Help: "Time from an INSERT's start to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}),
		rows: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_worker_rows_inserted_total", Help: "Rows written to ClickHouse.",
		}, []string{"tenant", "table"}),
		parkedBy: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_worker_rows_parked_total", Help: "Rows parked as dead letters, by code.",
		}, []string{"tenant", "table", "code"}),
		drops: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_worker_messages_dropped_total", Help: "Messages that cannot be read, dropped because nothing may be parked.",
		}, []string{"tenant", "table"}),
		repeats: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_late_duplicates_total", Help: "Rows that were accepted while the store of seen ids was away, and were not written because their ids were another record's.",
		}, []string{"tenant", "table"}),
	}
}

// stateMetrics read the worker's state when they are asked for.
func stateMetrics(auto promauto.Factory, w *Worker) {
	gauge := func(name, help string, read func(Status) float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(w.Status()) })
	}
	gauge("wavehouse_worker_held_bytes", "Bytes of rows in hand.", func(s Status) float64 { return float64(s.HeldBytes) })
	gauge("wavehouse_worker_backoffs", "Pools and tables that are being waited for.", func(s Status) float64 { return float64(s.PoolsWaiting + s.TablesWaiting) })
	gauge("wavehouse_worker_oldest_unwritten_seconds", "Age of the oldest row in hand.", func(s Status) float64 {
		if s.OldestUnwritten.IsZero() {
			return 0
		}
		return w.o.Now().Sub(s.OldestUnwritten).Seconds()
	})
}

func (m *workerMetrics) insert(how string, took time.Duration) {
	m.inserts.WithLabelValues(how).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *workerMetrics) inserted(t mq.Topic, rows int) {
	m.rows.WithLabelValues(string(t.Tenant), t.Table).Add(float64(rows))
}

func (m *workerMetrics) parked(t mq.Topic, code string) {
	m.parkedBy.WithLabelValues(string(t.Tenant), t.Table, code).Inc()
}

func (m *workerMetrics) dropped(t mq.Topic) {
	m.drops.WithLabelValues(string(t.Tenant), t.Table).Inc()
}

func (m *workerMetrics) repeated(t mq.Topic, rows int) {
	if rows > 0 {
		m.repeats.WithLabelValues(string(t.Tenant), t.Table).Add(float64(rows))
	}
}

// Forget drops the metrics of a tenant that is gone for good; the rows that were
// parked stay counted, as they stay parked.
func (w *Worker) Forget(id tenant.ID) {
	for _, counter := range []*prometheus.CounterVec{w.metrics.rows, w.metrics.drops, w.metrics.repeats} {
		counter.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
	}
}
