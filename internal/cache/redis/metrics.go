package redis

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	seconds       *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	large, unread prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, c *Cache) *metrics {
	auto := promauto.With(registerer)
	dropped := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "wavehouse_cache_redis_values_dropped_total",
		Help: "Answers that could not be kept in Redis or read from there: too_large, or of another version.",
	}, []string{"reason"})
	m := &metrics{
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wavehouse_cache_redis_operation_seconds",
			Help:    "How long operations on Redis took.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1},
		}, []string{"operation"}),
		failures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_cache_redis_failures_total",
			Help: "Operations on Redis that failed or took too long.",
		}, []string{"operation"}),
		large: dropped.WithLabelValues("too_large"), unread: dropped.WithLabelValues("version"),
	}
	gauge := func(name, help string, value func() float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	gauge("wavehouse_cache_redis_up", "Whether Redis is used: 0 while the breaker is open.", func() float64 {
		return one(!c.breaker.open.Load())
	})
	gauge("wavehouse_cache_redis_trusted", "Whether cached answers are given out: every process that shares them is in touch.", func() float64 {
		t := c.fleet.trusted.Load()
		return one(t != nil && time.Now().Before(t.until))
	})
	gauge("wavehouse_cache_redis_undelivered_tables", "Tables whose writes Redis could not be told of; they bypass the cache.", func() float64 {
		return float64(c.pending.count())
	})
	gauge("wavehouse_cache_redis_other_processes", "Other processes that share the cache.", func() float64 {
		_, _, others := c.fleet.missing()
		return float64(others)
	})
	gauge("wavehouse_cache_redis_absent_processes", "Processes that share the cache and fell silent.", func() float64 {
		absent, _, _ := c.fleet.missing()
		return float64(len(absent))
	})
	return m
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) observe(operation string, took time.Duration, err error) {
	m.seconds.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(operation).Inc()
	}
}
