package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the Go runtime's, the process's and the
// build's metrics in it. Components register their own.
func NewRegistry(b Build) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "wavehouse_build_info",
		Help: "The running build; the value is always 1.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "git_commit": b.GitCommit, "go_version": b.GoVersion,
		},
	})
	info.Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return registry
}

// MetricsHandler serves the registry in the Prometheus exposition format.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, MaxRequestsInFlight: 8})
}
