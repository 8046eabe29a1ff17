package settings

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tells how reloads went and which generation is served.
type metrics struct {
	successful prometheus.Gauge
	timestamp  prometheus.Gauge
	reloads    *prometheus.CounterVec
	generation *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_settings_last_reload_successful",
			Help: "Whether the last reading of the settings directory was adopted.",
		}),
		timestamp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_settings_last_reload_success_timestamp_seconds",
			Help: "When settings were last adopted, or found to be adopted already.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_settings_reloads_total",
			Help: "Readings of the settings directory by their result: adopted, unchanged, refused.",
		}, []string{"result"}),
		generation: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wavehouse_settings_generation_info",
			Help: "The hash of the settings that a tenant is served by; the value is always 1.",
		}, []string{"tenant", "hash"}),
	}
	for _, result := range []string{"adopted", "unchanged", "refused"} {
		m.reloads.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.successful, m.timestamp, m.reloads, m.generation)
	}
	return m
}

func (m *metrics) adopted(now time.Time, s *Snapshot) {
	m.succeeded(now, "adopted")
	m.generation.DeletePartialMatch(prometheus.Labels{"tenant": s.Tenant.String()})
	m.generation.WithLabelValues(s.Tenant.String(), s.Hash).Set(1)
}

func (m *metrics) unchanged(now time.Time) { m.succeeded(now, "unchanged") }

func (m *metrics) succeeded(now time.Time, result string) {
	m.reloads.WithLabelValues(result).Inc()
	m.successful.Set(1)
	m.timestamp.Set(float64(now.UnixMilli()) / 1000)
}

func (m *metrics) refused() {
	m.reloads.WithLabelValues("refused").Inc()
	m.successful.Set(0)
}
