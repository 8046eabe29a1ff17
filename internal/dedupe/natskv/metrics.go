package natskv

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_nats_requests_total", Help: "Requests to the bucket of seen ids, by operation and how they ended: ok, conflict (the key was at another revision), timeout or error.",
		}, []string{"operation", "outcome"}),
	}
	if reg == nil {
		return m
	}
	flag := func(name, help string, is func() bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if is() {
				return 1
			}
			return 0
		})
	}
	reg.MustRegister(m.requests,
		flag("wavehouse_dedupe_store_open", "1 while the store of seen ids is open.", s.bucket.Usable),
		flag("wavehouse_dedupe_table_ok", "1 while everything about the bucket of seen ids is as it should be.", s.bucket.Right))
	return m
}

func (m *metrics) request(operation string, err error) {
	m.requests.WithLabelValues(operation, outcome(err)).Inc()
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errRevision):
		return "conflict"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "timeout"
	}
	return "error"
}
