package zap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// loggerKey is the attribute that logr makes of the names of a logger.
const loggerKey = "logger"

// A handler writes records in the form of zap: level, ts, logger, msg, and then the attributes,
// which a slog.JSONHandler encodes.
type handler struct {
	options *Options
	config  *EncoderConfig
	out     *output
	attrs   slog.Handler // writes into out.attrs
	groups  int
}

// An output is shared by all handlers of a logger.
type output struct {
	mu          sync.Mutex
	attrs, line bytes.Buffer
}

func newHandler(o Options) *handler {
	config := o.config()
	h := &handler{options: &o, config: &config, out: &output{}}
	h.attrs = slog.NewJSONHandler(&h.out.attrs, &slog.HandlerOptions{Level: slog.Level(-128), ReplaceAttr: replace})
	return h
}

// none is the message of records for the inner handler, so that it is not taken for an attribute
// called "msg".
const none = "\x00"

// replace omits placeholders, which are not attributes, and shortens objects.
func replace(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch {
		case a.Key == slog.MessageKey && a.Value.Kind() == slog.KindString && a.Value.String() == none:
			return slog.Attr{}
		case a.Key == slog.LevelKey && a.Value.Kind() == slog.KindAny:
			if _, ok := a.Value.Any().(slog.Level); ok {
				return slog.Attr{}
			}
		}
	}
	switch v := a.Value.Any().(type) {
	case types.NamespacedName:
		a.Value = slog.GroupValue(reference(v.Namespace, v.Name)...)
	case k8sruntime.Object:
		if attrs, ok := identity(v); ok {
			a.Value = slog.GroupValue(attrs...)
		}
	}
	return a
}

// identity returns the attributes that identify an object. Lists and nil pointers have none.
func identity(obj k8sruntime.Object) (attrs []slog.Attr, ok bool) {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, false
	}
	if kind := obj.GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		attrs = append(attrs, slog.String("apiVersion", kind.GroupVersion().String()), slog.String("kind", kind.Kind))
	}
	return append(attrs, reference(object.GetNamespace(), object.GetName())...), true
}

func reference(namespace, name string) []slog.Attr {
	if namespace == "" {
		return []slog.Attr{slog.String("name", name)}
	}
	return []slog.Attr{slog.String("name", name), slog.String("namespace", namespace)}
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.options.Level.Level()
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = h.attrs.WithAttrs(attrs)
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.attrs = h.attrs.WithGroup(name)
	with.groups++
	return &with
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) { // logr does not ask for errors
		return nil
	}
	inner := slog.NewRecord(time.Time{}, r.Level, none, 0)
	logger := ""
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case h.groups == 0 && a.Key == loggerKey && a.Value.Kind() == slog.KindString:
			logger = a.Value.String()
			return true
		case a.Key == "err": // of logr.Logger.Error
			a.Key = "error"
		}
		inner.AddAttrs(a)
		return true
	})
	var stack string
	if r.Level >= h.options.StacktraceLevel.Level() {
		stack = stackFrom(r.PC)
	}

	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.attrs.Reset()
	if err := h.attrs.Handle(ctx, inner); err != nil {
		return err
	}
	attrs := bytes.TrimSpace(h.out.attrs.Bytes()) // {...}
	h.out.line.Reset()
	if h.options.NewEncoder == consoleEncoding {
		h.console(&h.out.line, r, logger, attrs, stack)
	} else {
		h.json(&h.out.line, r, logger, attrs, stack)
	}
	_, err := h.options.DestWriter.Write(h.out.line.Bytes())
	return err
}

func (h *handler) json(line *bytes.Buffer, r slog.Record, logger string, attrs []byte, stack string) {
	c := h.config
	field := func(key string, value any) {
		if key == "" {
			return
		}
		name, _ := json.Marshal(key)
		encoded, err := json.Marshal(value)
		if err != nil {
			encoded, _ = json.Marshal(err.Error())
		}
		fmt.Fprintf(line, "%s:%s,", name, encoded)
	}
	line.WriteByte('{')
	if c.EncodeLevel != nil {
		field(c.LevelKey, c.EncodeLevel(r.Level))
	}
	if c.EncodeTime != nil {
		field(c.TimeKey, c.EncodeTime(r.Time))
	}
	if logger != "" {
		field(c.NameKey, logger)
	}
	field(c.MessageKey, r.Message)
	if inside := attrs[1 : len(attrs)-1]; len(inside) > 0 {
		line.Write(inside)
		line.WriteByte(',')
	}
	if stack != "" {
		field(c.StacktraceKey, stack)
	}
	if n := line.Len(); n > 1 {
		line.Truncate(n - 1) // the last comma
	}
	line.WriteString("}" + c.LineEnding)
}

func (h *handler) console(line *bytes.Buffer, r slog.Record, logger string, attrs []byte, stack string) {
	c := h.config
	part := func(key string, value any) {
		if key == "" {
			return
		}
		if line.Len() > 0 {
			line.WriteString(c.ConsoleSeparator)
		}
		fmt.Fprint(line, value)
	}
	if c.EncodeTime != nil {
		part(c.TimeKey, c.EncodeTime(r.Time))
	}
	if c.EncodeLevel != nil {
		part(c.LevelKey, c.EncodeLevel(r.Level))
	}
	if logger != "" {
		part(c.NameKey, logger)
	}
	part(c.MessageKey, r.Message)
	if len(attrs) > len("{}") {
		if line.Len() > 0 {
			line.WriteString(c.ConsoleSeparator)
		}
		line.Write(attrs)
	}
	if stack != "" && c.StacktraceKey != "" {
		fmt.Fprintf(line, "\n%s", stack)
	}
	line.WriteString(c.LineEnding)
}

func levelName(level slog.Level) string {
	switch {
	case level >= ErrorLevel:
		return "error"
	case level >= WarnLevel:
		return "warn"
	case level >= InfoLevel:
		return "info"
	case level == DebugLevel:
		return "debug"
	}
	return fmt.Sprintf("Level(%d)", int(level))
}

// stackFrom returns the stack of the caller, from a pc on, or all of it if the pc is not known.
func stackFrom(pc uintptr) string {
	pcs := make([]uintptr, 64)
	pcs = pcs[:runtime.Callers(2, pcs)]
	if i := slices.Index(pcs, pc); i > 0 {
		pcs = pcs[i:]
	}
	var stack strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		frame, more := frames.Next()
		if frame.Function != "" {
			fmt.Fprintf(&stack, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return strings.TrimSuffix(stack.String(), "\n")
		}
	}
}
