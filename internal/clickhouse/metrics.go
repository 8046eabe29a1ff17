package clickhouse

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts the requests of all pools.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	// served are the usual observations, without the search for their labels.
	served map[string]served
}

// served are the requests of a kind that succeeded.
type served struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func newMetrics(r prometheus.Registerer, inUse func() float64) *metrics {
	auto := promauto.With(r)
	m := &metrics{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_clickhouse_requests_total",
			Help: "Requests to ClickHouse over HTTP, by kind and by what came of them.",
		}, []string{"kind", "result"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wavehouse_clickhouse_request_duration_seconds",
			Help:    "Time from asking for a connection to the start of ClickHouse's answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"kind"}),
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_clickhouse_requests_in_flight",
		Help: "Requests to ClickHouse over HTTP that hold a connection.",
	}, inUse)
	m.served = make(map[string]served, 3)
	for _, kind := range []string{"query", "insert", "question"} {
		m.served[kind] = served{m.requests.WithLabelValues(kind, "ok"), m.seconds.WithLabelValues(kind)}
	}
	return m
}

func (m *metrics) observe(kind string, took time.Duration, err error) {
	of := m.served[kind]
	of.seconds.Observe(took.Seconds())
	if err != nil {
		class := ClassifyRead(err) // as the answer says it
		if kind == "insert" {
			class = Classify(err)
		}
		m.requests.WithLabelValues(kind, class.String()).Inc()
		return
	}
	of.requests.Inc()
}
