package schema

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	refreshes *prometheus.CounterVec
	seconds   prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_schema_refreshes_total", Help: "Schema discoveries, by result.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_schema_refresh_seconds", Help: "How long schema discoveries took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, result := range []string{"ok", "failed"} {
		m.refreshes.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.refreshes, m.seconds)
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
