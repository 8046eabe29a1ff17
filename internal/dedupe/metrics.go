package dedupe

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metered counts what a store is asked and answers.
type Metered struct {
	Reserver
	ids    *prometheus.CounterVec
	errors *prometheus.CounterVec
	lost   prometheus.Counter
}

// NewMetered wraps a store; reg may be nil.
func NewMetered(c Reserver, reg prometheus.Registerer) *Metered {
	auto := promauto.With(reg)
	return &Metered{
		Reserver: c,
		ids: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_ids_total", Help: "Ids asked for, by what they were: claimed, duplicate or in_flight.",
		}, []string{"state"}),
		errors: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_errors_total", Help: "Calls of the store of seen ids that failed, by operation.",
		}, []string{"operation"}),
		lost: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_lost_claims_total", Help: "Reservations that had lapsed and were taken by another before their record was stored.",
		}),
	}
}

// MeterOpen registers whether a store is open; reg may be nil.
func MeterOpen(reg prometheus.Registerer, open func() bool) {
	flag(reg, "wavehouse_dedupe_store_open", "1 while the store of seen ids is open.", open)
}

func flag(reg prometheus.Registerer, name, help string, is func() bool) {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
}

// Reserve implements Reserver.
func (m *Metered) Reserve(ctx context.Context, s Scope, o Owner, ids []string) ([]Reservation, error) {
	reservations, err := m.Reserver.Reserve(ctx, s, o, ids)
	m.failed("reserve", err)
	var n [3]int
	for _, c := range reservations {
		n[c.State]++
	}
	for state, name := range [...]string{New: "claimed", Duplicate: "duplicate", InFlight: "in_flight"} {
		if n[state] > 0 {
			m.ids.WithLabelValues(name).Add(float64(n[state]))
		}
	}
	return reservations, err
}

// Commit implements Reserver.
func (m *Metered) Commit(ctx context.Context, s Scope, o Owner, entries []Entry, retention time.Duration) (int, error) {
	lost, err := m.Reserver.Commit(ctx, s, o, entries, retention)
	m.failed("commit", err)
	m.lost.Add(float64(lost))
	return lost, err
}

// Release implements Reserver.
func (m *Metered) Release(ctx context.Context, s Scope, o Owner, ids []string) error {
	err := m.Reserver.Release(ctx, s, o, ids)
	m.failed("release", err)
	return err
}

func (m *Metered) failed(operation string, err error) {
	if err != nil {
		m.errors.WithLabelValues(operation).Inc()
	}
}
