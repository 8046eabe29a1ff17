package natskv

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	s.bucket.Meter(reg, "everything about the bucket of seen ids is as it should be")
	return &metrics{
		requests: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_nats_requests_total", Help: "Requests to the bucket of seen ids, by operation and how they ended: ok, conflict (the key was at another revision), timeout or error.",
		}, []string{"operation", "outcome"}),
	}
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
