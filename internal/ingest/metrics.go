package ingest

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// repeated is by what records are counted that failed in the request that is being
// repeated.
const repeated = "repeated"

// gateMetrics counts what goes through the gate. Tables are those a schema
// knows and codes are constants, so the label sets are bounded by what exists.
type gateMetrics struct {
	deferred *prometheus.CounterVec
	rows     *prometheus.CounterVec
	noID     *prometheus.CounterVec
	unknown  *prometheus.CounterVec
	chunks   *prometheus.CounterVec
	size     prometheus.Histogram
}

func newGateMetrics(reg prometheus.Registerer, waiting *fairshare.Bytes) *gateMetrics {
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_ingest_waiting_bytes", Help: "Bytes of rows that wait for the queue.",
	}, func() float64 { return float64(waiting.Used()) })
	return &gateMetrics{
		unknown: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_ingest_unknown_fields_total", Help: "Fields of records that their table has no column for, whatever became of them; at most 256 of a record.",
		}, []string{"tenant", "table"}),
		rows: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_ingest_rows_total", Help: "Records received, by what became of them: accepted, failed or duplicate, and by the code of what failed.",
		}, []string{"tenant", "table", "result", "code"}),
		noID: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_records_without_id_total", Help: "Records that sent no id to a table whose ids are remembered.",
		}, []string{"tenant", "table"}),
		deferred: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_deferred_records_total", Help: "Records that were accepted while the store of seen ids was away; their ids are claimed before they are written.",
		}, []string{"tenant", "table"}),
		chunks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_ingest_chunks_total", Help: "Chunks sent to the queue, by outcome.",
		}, []string{"outcome"}),
		size: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_ingest_chunk_rows", Help: "Rows per stored chunk.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}),
	}
}

func (m *gateMetrics) chunk(rows int, err error) {
	m.chunks.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.size.Observe(float64(rows))
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "stored"
	case errors.Is(err, mq.ErrFull):
		return "full"
	case errors.Is(err, mq.ErrUnavailable), errors.Is(err, mq.ErrClosed):
		return "unavailable"
	case errors.Is(err, mq.ErrTooLarge):
		return "too_large"
	}
	return "unknown"
}

func (m *gateMetrics) request(r *Request, res *Result) {
	id, table := string(r.Tenant), r.Table.Name
	if res.Succeeded > 0 {
		m.rows.WithLabelValues(id, table, "accepted", "").Add(float64(res.Succeeded))
	}
	if res.Duplicates > 0 {
		m.rows.WithLabelValues(id, table, "duplicate", "").Add(float64(res.Duplicates))
	}
	for code, n := range res.failedBy {
		if n == 0 {
			continue
		}
		m.rows.WithLabelValues(id, table, "failed", code).Add(float64(n))
	}
	if res.withoutID > 0 {
		m.noID.WithLabelValues(id, table).Add(float64(res.withoutID))
	}
	if res.deferred > 0 {
		m.deferred.WithLabelValues(id, table).Add(float64(res.deferred))
	}
}

// Forget drops the metrics and the unknown fields of a tenant that is gone for
// good.
func (g *Gate) Forget(id tenant.ID) {
	g.metrics.rows.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
	g.metrics.deferred.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
	g.metrics.noID.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
	g.metrics.unknown.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
	g.drift.forget(id)
}
