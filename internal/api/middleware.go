package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// statusClientGone is what logs and metrics show for a caller that left
// before its answer: not a fault of the server, and not a success.
const statusClientGone = 499

// handler is a route: it returns what went wrong and never writes an error
// itself.
type handler func(w http.ResponseWriter, r *http.Request) error

const (
	// stallTimeout is how long a client may take to read sendBytes of its answer,
	// about: one that is slower is cut off.
	stallTimeout = 10 * time.Second
	sendBytes    = 64 << 10
	// buffered is what of an answer is certainly not sent before its end.
	buffered = 2 << 10
)

// recorder notes what was answered, and sees to it that it is read.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	http1  bool
	// unpaced leaves deadlines to who writes.
	unpaced bool
	// received says that nothing of the request is still to come.
	received bool
	until    time.Time // of the last deadline
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 && status >= http.StatusOK {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	if rec.unpaced || rec.bytes+int64(len(p)) <= buffered {
		n, err := rec.ResponseWriter.Write(p)
		rec.bytes += int64(n)
		return n, err
	}
	return rec.pace(p)
}

// pace writes a piece after the other, each within its time.
func (rec *recorder) pace(p []byte) (n int, err error) {
	control := http.NewResponseController(rec.ResponseWriter)
	for len(p) > 0 && err == nil {
		if now := time.Now(); rec.until.Sub(now) < stallTimeout*2/3 {
			rec.until = now.Add(stallTimeout)
			_ = control.SetWriteDeadline(rec.until)
		}
		var m int
		m, err = rec.ResponseWriter.Write(p[:min(len(p), sendBytes)])
		rec.bytes += int64(m)
		n, p = n+m, p[m:]
	}
	if !rec.http1 {
		// A deadline that passes resets the stream, whether or not it is written to.
		_ = control.SetWriteDeadline(time.Time{})
		rec.until = time.Time{}
	}
	return n, err
}

// last bounds what the server sends by itself once the handler is done, and reads of
// a body that the handler did not. The next answer on the connection sets another
// deadline before it is sent.
func (rec *recorder) last(r *http.Request) {
	control, deadline := http.NewResponseController(rec.ResponseWriter), time.Now().Add(stallTimeout)
	_ = control.SetWriteDeadline(deadline)
	if rec.http1 && r.ContentLength != 0 && !rec.received {
		_ = control.SetReadDeadline(deadline)
	}
}

// unpaced leaves the deadlines of an answer to who writes it.
func unpaced(w http.ResponseWriter) {
	if rec := recorderOf(w); rec != nil {
		rec.unpaced = true
	}
}

// received says that the body was read whole.
func received(w http.ResponseWriter) {
	if rec := recorderOf(w); rec != nil {
		rec.received = true
	}
}

// recorderOf finds the recorder below the wrappers around it.
func recorderOf(w http.ResponseWriter) *recorder {
	for {
		switch at := w.(type) {
		case *recorder:
			return at
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// edge is the outermost middleware: request id, trace, recovery, log, metrics.
type edge struct {
	logger   *slog.Logger
	tracer   trace.Tracer
	now      func() time.Time
	kind     trace.SpanStartOption
	untraced bool // the tracer keeps nothing
	access   bool // every request is logged
	requests *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
	errors   *prometheus.CounterVec
}

func newEdge(logger *slog.Logger, tracer trace.Tracer, registerer prometheus.Registerer, now func() time.Time, access bool) *edge {
	_, untraced := tracer.(noop.Tracer)
	auto := promauto.With(registerer)
	return &edge{
		logger: logger, tracer: tracer, now: now, kind: trace.WithSpanKind(trace.SpanKindServer), untraced: untraced, access: access,
		requests: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wavehouse_http_request_duration_seconds",
			Help:    "Time from the request's headers to the end of its answer, by route template, method and status.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method", "status"}),
		inFlight: auto.NewGauge(prometheus.GaugeOpts{
			Name: "wavehouse_http_requests_in_flight", Help: "Requests being served, streams included.",
		}),
		panics: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_http_panics_total", Help: "Requests that met a bug of the server.",
		}),
		errors: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_http_errors_total", Help: "Answers that are errors, or end with one, by route template and code.",
		}, []string{"route", "code"}),
	}
}

func (e *edge) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := e.now()
		e.inFlight.Inc()
		defer e.inFlight.Dec()

		id := requestID(r.Header.Get(requestIDHeader))
		setHeaders(w.Header(), requestIDHeader, id, "X-Content-Type-Options", "nosniff")
		rec := &recorder{ResponseWriter: w, http1: r.ProtoMajor == 1}
		if rec.http1 && r.Header["Expect"] != nil {
			// What is sent before the body has no deadline of the answer before.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}
		ctx := telemetry.Scope(r.Context(), slog.String("request_id", id))
		ctx, span := e.begin(ctx, r)
		r = r.WithContext(ctx)

		defer func() {
			if fault := recover(); fault != nil {
				e.recovered(rec, r, fault)
			}
			e.finish(rec, r, span, start)
			rec.last(r)
		}()
		next.ServeHTTP(rec, r)
	})
}

// begin opens the request's span. Without tracing there is one only to carry a
// caller's trace on.
func (e *edge) begin(ctx context.Context, r *http.Request) (context.Context, trace.Span) {
	if r.Header.Get("Traceparent") != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	} else if e.untraced {
		return ctx, trace.SpanFromContext(ctx)
	}
	return e.tracer.Start(ctx, "http "+r.Method, e.kind)
}

func (e *edge) recovered(rec *recorder, r *http.Request, fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // the sentinel is panicked as it is
		panic(fault)
	}
	e.panics.Inc()
	e.logger.ErrorContext(r.Context(), "request met a bug", "panic", fault, "stack", string(debug.Stack()))
	if rec.status == 0 {
		problem(http.StatusInternalServerError, "internal", "the server met a bug while serving this request").write(rec, r)
	}
}

func (e *edge) finish(rec *recorder, r *http.Request, span trace.Span, start time.Time) {
	route := routeOf(r)
	status := rec.status
	if errors.Is(r.Context().Err(), context.Canceled) && (status == 0 || status >= http.StatusInternalServerError) {
		status = statusClientGone
	}
	if status == 0 {
		status = http.StatusOK
	}
	took := e.now().Sub(start)
	e.requests.WithLabelValues(route, methodLabel(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
	if span.IsRecording() {
		span.SetName(r.Method + " " + route)
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
			attribute.Int("http.response.status_code", status))
	}
	span.End()
	level := slog.LevelDebug
	if e.access {
		level = slog.LevelInfo
	}
	if status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if !e.logger.Enabled(r.Context(), level) {
		return
	}
	e.logger.Log(r.Context(), level, "request", "method", r.Method, "route", route, "status", status,
		"bytes", rec.bytes, "seconds", took.Seconds())
}

// routeOf is the template of the route, for metrics and logs.
func routeOf(r *http.Request) string {
	if pattern := chi.RouteContext(r.Context()); pattern != nil && pattern.RoutePattern() != "" {
		return pattern.RoutePattern()
	}
	return "unmatched"
}

// methodLabel keeps the label set bounded: a method is the caller's text.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return method
	}
	return "other"
}
