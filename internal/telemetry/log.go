// Package telemetry builds the process's logger, metrics registry and tracer.
// Nothing in it is global: the composition root hands each component its own.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// LogOptions choose how the process logs.
type LogOptions struct {
	// Level is debug, info, warn or error; "" is info.
	Level string
	// Format is json or text; "" is text when Terminal is true, else json.
	Format string
	// Terminal says that the output is a terminal.
	Terminal bool
}

// NewLogger returns a logger that writes to w and adds the attributes that
// travel in a context (see Scope).
func NewLogger(w io.Writer, o LogOptions) (*slog.Logger, error) {
	var level slog.Level // info
	if o.Level != "" && level.UnmarshalText([]byte(o.Level)) != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", o.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch {
	case o.Format == "json", o.Format == "" && !o.Terminal:
		handler = slog.NewJSONHandler(w, options)
	case o.Format == "text", o.Format == "":
		handler = slog.NewTextHandler(w, options)
	default:
		return nil, fmt.Errorf("log format %q: want json or text", o.Format)
	}
	return slog.New(contextHandler{handler}), nil
}

type scopeKey struct{}

// scope holds the attributes of one unit of work, a request for example.
type scope struct {
	mu    sync.Mutex
	attrs []slog.Attr
}

// Scope returns a context whose log records carry attrs, and what Add adds to
// them later.
func Scope(ctx context.Context, attrs ...slog.Attr) context.Context {
	const usual = 4 // attributes of a request, with those that Add brings
	return context.WithValue(ctx, scopeKey{}, &scope{attrs: append(make([]slog.Attr, 0, usual), attrs...)})
}

// Add puts attrs on every further record of the scope that ctx is in, those of
// callers included: what a handler finds out, the access log shows. Without a
// scope it does nothing.
func Add(ctx context.Context, attrs ...slog.Attr) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attrs = append(s.attrs, attrs...)
}

type contextHandler struct{ slog.Handler }

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		s.mu.Lock()
		r.AddAttrs(s.attrs...)
		s.mu.Unlock()
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}
