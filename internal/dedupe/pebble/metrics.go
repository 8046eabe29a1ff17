package pebble

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

type metrics struct {
	lapsed, swept, forgotten prometheus.Counter
	sweep                    prometheus.Histogram
	size                     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, open func() bool) *metrics {
	auto := promauto.With(reg)
	dedupe.MeterOpen(reg, open)
	return &metrics{
		lapsed: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_lapsed_claims_total", Help: "Reservations of ids that lapsed, the fate of their record unknown, and were reserved anew.",
		}),
		swept: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_swept_ids_total", Help: "Ids and reservations removed because their time was over.",
		}),
		forgotten: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_forgotten_ids_total", Help: "Ids that were forgotten early, because their tenant's filled its budget.",
		}),
		sweep: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_dedupe_sweep_seconds", Help: "Time that a sweep of the store of seen ids took.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		size: auto.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_dedupe_store_bytes", Help: "Size of the files of the store of seen ids, measured every minute.",
		}),
	}
}
