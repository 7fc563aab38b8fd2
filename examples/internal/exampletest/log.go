package exampletest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A Log collects log lines. As a slog.Handler it writes level, message and attributes of a record,
// without the attributes of the logger, which are controller and object. It is safe for concurrent
// use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Enabled implements slog.Handler.
func (l *Log) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprintf("%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(l, line)
	return err
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything since the last Clear.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Clear empties the log.
func (l *Log) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Count returns how often a text is in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// Logged asserts that the log has these texts, in this order.
func (w *World) Logged(texts ...string) {
	w.Helper()
	rest := w.Log.String()
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			w.Errorf("the log has no %q where it is expected:\n%s", text, w.Log)
			return
		}
		rest = after
	}
}
