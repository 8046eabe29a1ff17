package settings

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// metrics tells how reloads went.
type metrics struct {
	successful prometheus.Gauge
	timestamp  prometheus.Gauge
	reloads    *prometheus.CounterVec
	tenants    *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, served func() map[tenant.ID]*Snapshot) *metrics {
	auto := promauto.With(registerer)
	m := &metrics{
		successful: auto.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_settings_last_reload_successful",
			Help: "Whether everything in the settings directory is served as it was last read.",
		}),
		timestamp: auto.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_settings_last_reload_success_timestamp_seconds",
			Help: "When settings were last adopted, or found to be adopted already.",
		}),
		reloads: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_settings_reloads_total",
			Help: "Readings of the settings directory by their result: adopted, unchanged, partial, refused.",
		}, []string{"result"}),
		tenants: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wavehouse_settings_tenants",
			Help: "Tenants that the settings directory holds, by whether they are served or rejected.",
		}, []string{"state"}),
	}
	for _, result := range []string{resultAdopted, resultUnchanged, resultPartial, resultRefused} {
		m.reloads.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(newGenerations(served))
	}
	return m
}

// generations tells which generation each tenant is served by. A gauge that is kept
// for each would take more than all else of a tenant that does nothing.
type generations struct {
	desc   *prometheus.Desc
	served func() map[tenant.ID]*Snapshot
}

func newGenerations(served func() map[tenant.ID]*Snapshot) generations {
	return generations{prometheus.NewDesc("wavehouse_settings_generation_info",
		"The hash of the settings that a tenant is served by; the value is always 1.", []string{"tenant", "hash"}, nil), served}
}

// Describe implements prometheus.Collector.
func (g generations) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g generations) Collect(to chan<- prometheus.Metric) {
	for id, s := range g.served() {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, 1, id.String(), s.Hash)
	}
}

// follow counts the tenants.
func (m *metrics) follow(now map[tenant.ID]state) {
	served := servedOf(now)
	m.tenants.WithLabelValues("served").Set(float64(served))
	m.tenants.WithLabelValues("rejected").Set(float64(len(now) - served))
}

// Results of a reading of the directory.
const (
	resultAdopted   = "adopted"
	resultUnchanged = "unchanged"
	resultPartial   = "partial"
	resultRefused   = "refused"
)

// resultOf is the result of a reading whose content is served as far as its
// findings let it.
func resultOf(findings []Finding) string {
	if HasErrors(findings) {
		return resultPartial
	}
	return resultAdopted
}

// count records a reading. complete: everything in the directory is served.
func (m *metrics) count(now time.Time, result string, complete bool) {
	m.reloads.WithLabelValues(result).Inc()
	if !complete {
		m.successful.Set(0)
		return
	}
	m.successful.Set(1)
	m.timestamp.Set(float64(now.UnixMilli()) / 1000)
}
