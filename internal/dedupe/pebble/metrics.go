package pebble

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	lapsed, swept, forgotten prometheus.Counter
	sweep                    prometheus.Histogram
	size                     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, open func() bool) *metrics {
	m := &metrics{
		lapsed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_lapsed_claims_total", Help: "Reservations of ids that lapsed, the fate of their record unknown, and were reserved anew.",
		}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_swept_ids_total", Help: "Ids and reservations removed because their time was over.",
		}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_forgotten_ids_total", Help: "Ids that were forgotten early, because their tenant's filled its budget.",
		}),
		sweep: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_dedupe_sweep_seconds", Help: "Time that a sweep of the store of seen ids took.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		size: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_dedupe_store_bytes", Help: "Size of the files of the store of seen ids, measured every minute.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.lapsed, m.swept, m.forgotten, m.sweep, m.size, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "wavehouse_dedupe_store_open", Help: "1 while the store of seen ids is open.",
		}, func() float64 {
			if open() {
				return 1
			}
			return 0
		}))
	}
	return m
}
