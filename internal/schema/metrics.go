package schema

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	refreshes *prometheus.CounterVec
	seconds   prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	auto := promauto.With(registerer)
	m := &metrics{
		refreshes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_schema_refreshes_total", Help: "Schema discoveries, by result.",
		}, []string{"result"}),
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_schema_refresh_seconds", Help: "How long schema discoveries took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, result := range []string{"ok", "failed"} {
		m.refreshes.WithLabelValues(result)
	}
	return m
}

func (m *metrics) refreshed(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.refreshes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
