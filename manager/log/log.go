// Package log has the logger of a program, and those of contexts.
package log

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
)

// Log is the logger of a program outside of controllers. It writes to slog's default logger at the
// time of the call, so it can be copied before SetLogger is called.
var Log = logr.FromSlogHandler(defaultHandler{})

// SetLogger makes a logger slog's default, and thereby that of Log and of every manager made later
// that has none of its own. Programs that use slog call slog.SetDefault instead. The logger must
// not be Log, nor derived from Log.
func SetLogger(l logr.Logger) { slog.SetDefault(slog.New(logr.ToSlogHandler(l))) }

// A defaultHandler is slog's default handler at the time of each record.
type defaultHandler struct {
	with func(slog.Handler) slog.Handler // nil: as it is
}

func (h defaultHandler) handler() slog.Handler {
	now := slog.Default().Handler()
	if h.with != nil {
		return h.with(now)
	}
	return now
}

func (h defaultHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return slog.Default().Enabled(ctx, level)
}

func (h defaultHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.handler().Handle(ctx, r)
}

func (h defaultHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h defaultHandler) WithGroup(name string) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h defaultHandler) and(next func(slog.Handler) slog.Handler) defaultHandler {
	with := h.with
	return defaultHandler{func(to slog.Handler) slog.Handler {
		if with != nil {
			to = with(to)
		}
		return next(to)
	}}
}

// FromContext returns the logger of a context with values added to it: in Reconcile, one that names
// the controller, the object, and this call (reconcileID). Without a logger in the context, it is
// Log. For slog there is logr.FromContextAsSlogLogger.
func FromContext(ctx context.Context, values ...any) logr.Logger {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = Log
	}
	return log.WithValues(values...)
}

// IntoContext returns a context with a logger.
func IntoContext(ctx context.Context, log logr.Logger) context.Context {
	return logr.NewContext(ctx, log)
}

// NullLogSink discards all logs. Use logr.New(NullLogSink{}) as the logger of Options:
// logr.Discard() cannot be distinguished from an unset logger.
type NullLogSink struct{}

// Init implements logr.LogSink, as do the methods below.
func (NullLogSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (NullLogSink) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (NullLogSink) Info(int, string, ...any) {}

// Error implements error.
func (NullLogSink) Error(error, string, ...any) {}

// WithValues implements logr.LogSink.
func (s NullLogSink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s NullLogSink) WithName(string) logr.LogSink { return s }
