package controllers

import (
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// quiet returns a logger that logs conflicts at debug level, as kube-controller-manager does for
// most controllers. A conflict means that the object has changed since it was read: the controller
// tries again with the new one.
func quiet(l logr.Logger) logr.Logger {
	if l.GetSink() == nil {
		return l
	}
	return l.WithSink(quietSink{l.GetSink()})
}

type quietSink struct{ logr.LogSink }

func (s quietSink) Error(err error, message string, keysAndValues ...any) {
	next := deeper(s.LogSink, 1)
	if !apierrors.IsConflict(err) {
		next.Error(err, message, keysAndValues...)
		return
	}
	const debug = 1
	if next.Enabled(debug) {
		next.Info(debug, message, append(keysAndValues[:len(keysAndValues):len(keysAndValues)], "err", err)...)
	}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s quietSink) WithCallDepth(depth int) logr.LogSink { return quietSink{deeper(s.LogSink, depth)} }

func deeper(s logr.LogSink, depth int) logr.LogSink {
	if s, ok := s.(logr.CallDepthLogSink); ok {
		return s.WithCallDepth(depth)
	}
	return s
}

func (s quietSink) WithValues(keysAndValues ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name)}
}
