package manager

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
)

// Log is the logger of a program, for what is not in a controller. It writes to slog's default, as that is when something is
// logged: so it may be had before SetLogger is called.
var Log = logr.FromSlogHandler(defaultHandler{})

// SetLogger makes a logger slog's default, and thereby that of Log and of every manager to come that has none of its own. Who uses slog
// calls slog.SetDefault instead. It must not be given Log, or what comes from it.
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
