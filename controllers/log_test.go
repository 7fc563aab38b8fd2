package controllers

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestQuiet(t *testing.T) {
	conflict := fmt.Errorf("sync: %w", apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("the object has been modified")))
	for _, tc := range []struct {
		err   error
		level slog.Level
		want  string
	}{
		{conflict, slog.LevelInfo, ""},
		{conflict, slog.LevelDebug, "level=DEBUG+3 source=log_test.go msg=failed of=web a=b err=\"sync: Operation cannot be fulfilled"},
		{errors.New("alas"), slog.LevelInfo, "level=ERROR source=log_test.go msg=failed of=web err=alas a=b\n"},
	} {
		var b bytes.Buffer
		text := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: tc.level, AddSource: true, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.Attr{}
			case slog.SourceKey:
				file := a.Value.Any().(*slog.Source).File
				return slog.String(a.Key, file[strings.LastIndex(file, "/")+1:])
			}
			return a
		}})
		log := quiet(logr.FromSlogHandler(text)).WithValues("of", "web")
		log.Error(tc.err, "failed", "a", "b")
		if got := b.String(); !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%v at %v: %q, want %q", tc.err, tc.level, got, tc.want)
		}
	}
	quiet(logr.Logger{}).Error(conflict, "without a sink")
}
