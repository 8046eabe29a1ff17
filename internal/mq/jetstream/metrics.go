package jetstream

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Metrics are the counters of every broker.
type Metrics struct {
	Redelivered prometheus.Counter
	// Parked and Discarded are by tenant.
	Parked, Discarded *prometheus.CounterVec

	publishes  *prometheus.CounterVec
	seconds    prometheus.Histogram
	reg        prometheus.Registerer
	registered []prometheus.Collector
}

// NewMetrics makes them; Register makes them known.
func NewMetrics() *Metrics {
	return &Metrics{
		publishes:   Counters("publishes_total", "Chunks published, by result.", "result"),
		Redelivered: Counters("redeliveries_total", "Chunks delivered to the worker again.").WithLabelValues(),
		Parked:      Counters("dead_letters_parked_total", "Rows parked as dead letters.", "tenant"),
		Discarded:   Counters("dead_letters_discarded_total", "Dead letters discarded on request.", "tenant"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_mq_publish_seconds", Help: "How long a publish took until it was durable or refused.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}),
	}
}

// Counters are further ones of a broker.
func Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wavehouse_mq_" + name, Help: help}, labels)
}

// Register makes the counters known to reg, and a broker's own beside them, or
// none; reg may be nil.
func (m *Metrics) Register(reg prometheus.Registerer, own ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	m.reg = reg
	for _, c := range append([]prometheus.Collector{m.publishes, m.seconds, m.Redelivered, m.Parked, m.Discarded}, own...) {
		if err := reg.Register(c); err != nil {
			m.Unregister()
			return fmt.Errorf("register queue metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

// Unregister takes back what Register did.
func (m *Metrics) Unregister() {
	for _, c := range m.registered {
		m.reg.Unregister(c)
	}
	m.registered = nil
}

// Published counts a publish and its outcome.
func (m *Metrics) Published(err error, took time.Duration) {
	m.publishes.WithLabelValues(result(err)).Inc()
	m.seconds.Observe(took.Seconds())
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, mq.ErrFull):
		return "full"
	case errors.Is(err, mq.ErrTooLarge):
		return "too_large"
	case errors.Is(err, mq.ErrOutcomeUnknown):
		return "unknown"
	}
	return "unavailable"
}
