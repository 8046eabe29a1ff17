package stream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Reasons for which rows are withheld.
const (
	withheldFormat = "format" // not a format or version this reader renders
	withheldLayout = "layout" // the bytes are not the rows the header promises
	withheldTable  = "table"  // the table is not in the catalogue
	withheldGrant  = "grant"  // the caller may no longer read the table
	withheldFilter = "filter" // the row predicate could not be evaluated
	withheldValue  = "value"  // a value of the row could not be rendered
)

type metrics struct {
	subscribers *prometheus.GaugeVec
	rows        *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	gaps        *prometheus.CounterVec
	withheld    *prometheus.CounterVec
	ended       *prometheus.CounterVec
	overflows   *prometheus.CounterVec
	replaying   prometheus.Gauge
	waiting     prometheus.Gauge
	latency     prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	auto := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: "wavehouse_stream_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: "wavehouse_stream_" + name, Help: help})
	}
	return &metrics{
		subscribers: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wavehouse_stream_subscribers", Help: "Open streams.",
		}, []string{"tenant"}),
		rows:      counter("rows_sent_total", "Rows written to subscribers.", "tenant"),
		bytes:     counter("bytes_sent_total", "Bytes written to subscribers.", "tenant"),
		gaps:      counter("gaps_total", "Gap events sent.", "tenant", "reason"),
		withheld:  counter("rows_withheld_total", "Rows that were not streamed, counted once per projection.", "tenant", "table", "reason"),
		ended:     counter("ended_total", "Streams ended, by reason; client is the client's own leaving.", "tenant", "reason"),
		overflows: counter("overflows_total", "Times a subscriber fell behind the live backlog and went back to history.", "tenant"),
		replaying: gauge("replays_in_flight", "History reads running now."),
		waiting:   gauge("replays_waiting", "Subscribers waiting to read history."),
		latency: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "wavehouse_stream_delivery_seconds",
			Help:    "From a row's receipt to its write to a live subscriber, the oldest row of each write.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
}

// tenantCounts are one tenant's metrics, looked up once.
type tenantCounts struct {
	subscribers            prometheus.Gauge
	rows, bytes, overflows prometheus.Counter
}

func (m *metrics) forTenant(id string) tenantCounts {
	return tenantCounts{
		subscribers: m.subscribers.WithLabelValues(id),
		rows:        m.rows.WithLabelValues(id),
		bytes:       m.bytes.WithLabelValues(id),
		overflows:   m.overflows.WithLabelValues(id),
	}
}

// Forget drops the metrics of a tenant that is gone for good. Its streams have
// ended, or count for nobody from now on.
func (h *Hub) Forget(id tenant.ID) {
	of := prometheus.Labels{"tenant": id.String()}
	h.metrics.subscribers.DeletePartialMatch(of)
	for _, counter := range []*prometheus.CounterVec{
		h.metrics.rows, h.metrics.bytes, h.metrics.gaps, h.metrics.withheld, h.metrics.ended, h.metrics.overflows,
	} {
		counter.DeletePartialMatch(of)
	}
}
