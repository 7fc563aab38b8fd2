package log_test

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/kapok-dev/kapok/manager/log"

	"github.com/go-logr/logr"
)

// TestNullLogSink checks that a logger with NullLogSink is enabled nowhere, differs from
// logr.Discard, and logs nothing through slog either.
func TestNullLogSink(t *testing.T) {
	l := logr.New(log.NullLogSink{}).WithName("name").WithValues("key", "value")
	if l.GetSink() == nil || l.Enabled() {
		t.Error("it is no logger, or logs")
	}
	l.Info("hello")
	l.Error(errors.New("broken"), "hello")
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(failing{t}, nil)))
	log.SetLogger(l)
	log.Log.Error(nil, "hello")
	slog.Error("hello")
}

type failing struct{ *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.Errorf("it is logged: %s", line)
	return io.Discard.Write(line)
}
