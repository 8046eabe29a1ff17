package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// TraceOptions choose where spans go.
type TraceOptions struct {
	Enabled bool
	// Endpoint is host:port, or a URL; "" is the exporter's own default.
	Endpoint string
	// Protocol is grpc or http; "" is grpc.
	Protocol string
	// Insecure sends in clear text.
	Insecure bool
	// SampleRatio is the share of new traces that is kept, 0 to 1. A caller's
	// own sampling decision wins.
	SampleRatio float64
	ServiceName string
	InstanceID  string
	Build       Build
}

// Tracing is the process's tracer and how to stop it.
type Tracing struct {
	provider trace.TracerProvider
	stop     func(context.Context) error
}

// NewTracing builds the tracer. It dials nothing: a collector that is down
// never delays a start, and its spans are dropped.
func NewTracing(ctx context.Context, o TraceOptions) (*Tracing, error) {
	if !o.Enabled {
		return &Tracing{provider: noop.NewTracerProvider(), stop: func(context.Context) error { return nil }}, nil
	}
	exporter, err := newExporter(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("otlp exporter for %q: %w", o.Endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(4096), sdktrace.WithBatchTimeout(2*time.Second)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.ServiceName),
			attribute.String("service.version", o.Build.Version),
			attribute.String("service.instance.id", o.InstanceID),
		)),
	)
	return &Tracing{provider: provider, stop: provider.Shutdown}, nil
}

func newExporter(ctx context.Context, o TraceOptions) (*otlptrace.Exporter, error) {
	switch o.Protocol {
	case "", "grpc":
		return otlptracegrpc.New(ctx, where(o, otlptracegrpc.WithEndpointURL, otlptracegrpc.WithEndpoint, otlptracegrpc.WithInsecure)...)
	case "http":
		return otlptracehttp.New(ctx, where(o, otlptracehttp.WithEndpointURL, otlptracehttp.WithEndpoint, otlptracehttp.WithInsecure)...)
	}
	return nil, errors.New("protocol must be grpc or http")
}

// where is where spans go, as options of an exporter.
func where[O any](o TraceOptions, url, endpoint func(string) O, insecure func() O) (options []O) {
	switch {
	case strings.Contains(o.Endpoint, "://"):
		options = append(options, url(o.Endpoint))
	case o.Endpoint != "":
		options = append(options, endpoint(o.Endpoint))
	}
	if o.Insecure {
		options = append(options, insecure())
	}
	return options
}

// Tracer returns a tracer named for its component.
func (t *Tracing) Tracer(name string) trace.Tracer {
	return t.provider.Tracer("github.com/wavehouse/wavehouse/" + name)
}

// Close sends what is waiting, until ctx ends.
func (t *Tracing) Close(ctx context.Context) error { return t.stop(ctx) }
