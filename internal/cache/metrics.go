package cache

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	lookups [len(outcomeNames)]prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	lookups := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "wavehouse_cache_reads_total",
		Help: "Reads that may be cached, by where the answer came from: hit, shared (a query another caller had begun), miss.",
	}, []string{"outcome"})
	m := &metrics{}
	for outcome, name := range outcomeNames {
		m.lookups[outcome] = lookups.WithLabelValues(name)
	}
	return m
}

func (m *metrics) count(o Outcome) { m.lookups[o].Inc() }
