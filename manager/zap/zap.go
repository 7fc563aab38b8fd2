// Package zap makes loggers with the options, the flags and the output of controller-runtime's
// package of the same name. The loggers are those of log/slog: go.uber.org/zap is not needed, and
// its types are not options here.
//
//	opts := zap.Options{Development: true}
//	opts.BindFlags(flag.CommandLine)
//	flag.Parse()
//	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))
package zap

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
)

// Options are the settings of a logger. The zero value is for production: JSON, from level info on,
// to stderr.
type Options struct {
	// Development changes the defaults below to those for a developer.
	Development bool
	// NewEncoder is the form of the output. Default: JSON; in development, lines of text.
	NewEncoder Encoding
	// EncoderConfigOptions change the keys, and the form of times and levels, after the defaults of
	// the encoding and TimeEncoder.
	EncoderConfigOptions []EncoderConfigOption
	// DestWriter gets the output, a Write for each record. Default: os.Stderr.
	DestWriter io.Writer
	// Level is the lowest level that is logged. logr.Logger.V(n) has level -n. Default: info; in
	// development debug, which is V(1).
	Level slog.Leveler
	// StacktraceLevel is the lowest level whose records have the stack of the caller. Default:
	// error; in development warning.
	StacktraceLevel slog.Leveler
	// TimeEncoder is the form of times. Default: RFC3339.
	TimeEncoder TimeEncoder
}

// An Opts changes Options.
type Opts func(*Options)

// Encoding is the form of the output. The zero value is the default.
type Encoding string

const (
	jsonEncoding    Encoding = "json"
	consoleEncoding Encoding = "console"
)

// New makes a logger. Objects and names of objects are logged as namespace, name and kind.
func New(opts ...Opts) logr.Logger {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	o.complete()
	return logr.FromSlogHandler(newHandler(o))
}

func (o *Options) complete() {
	encoding, level, stack := jsonEncoding, InfoLevel, ErrorLevel
	if o.Development {
		encoding, level, stack = consoleEncoding, DebugLevel, WarnLevel
	}
	if o.NewEncoder == "" {
		o.NewEncoder = encoding
	}
	if o.Level == nil {
		o.Level = level
	}
	if o.StacktraceLevel == nil {
		o.StacktraceLevel = stack
	}
	if o.DestWriter == nil {
		o.DestWriter = os.Stderr
	}
	if o.TimeEncoder == nil {
		o.TimeEncoder = RFC3339TimeEncoder
	}
}

// UseDevMode sets Options.Development.
func UseDevMode(enabled bool) Opts { return func(o *Options) { o.Development = enabled } }

// WriteTo sets Options.DestWriter.
func WriteTo(out io.Writer) Opts { return func(o *Options) { o.DestWriter = out } }

// JSONEncoder has records written as JSON, one a line. It adds to Options.EncoderConfigOptions.
func JSONEncoder(opts ...EncoderConfigOption) Opts { return encoder(jsonEncoding, opts) }

// ConsoleEncoder has records written as lines of text, whose values are JSON. It adds to
// Options.EncoderConfigOptions.
func ConsoleEncoder(opts ...EncoderConfigOption) Opts { return encoder(consoleEncoding, opts) }

func encoder(e Encoding, opts []EncoderConfigOption) Opts {
	return func(o *Options) {
		o.NewEncoder = e
		o.EncoderConfigOptions = append(slices.Clip(o.EncoderConfigOptions), opts...)
	}
}

// Level sets Options.Level.
func Level(level slog.Leveler) Opts { return func(o *Options) { o.Level = level } }

// StacktraceLevel sets Options.StacktraceLevel.
func StacktraceLevel(level slog.Leveler) Opts { return func(o *Options) { o.StacktraceLevel = level } }

// UseFlagOptions replaces all options by in, as it is when New is called.
func UseFlagOptions(in *Options) Opts { return func(o *Options) { *o = *in } }

// BindFlags adds flags that set the options: --zap-devel, --zap-encoder, --zap-log-level,
// --zap-stacktrace-level, --zap-time-encoding.
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.BoolVar(&o.Development, "zap-devel", o.Development,
		"Defaults for development (encoder console, log level debug, stacktrace level warn) rather than production (json, info, error)")
	fs.Func("zap-encoder", "Encoding of the log: 'json' or 'console'", func(text string) error {
		switch encoding := Encoding(strings.ToLower(text)); encoding {
		case jsonEncoding, consoleEncoding:
			o.NewEncoder = encoding
			return nil
		}
		return fmt.Errorf("invalid encoder value %q: must be json or console", text)
	})
	fs.Func("zap-log-level", "Verbosity of the log: 'debug', 'info', 'error', 'panic', or an integer > 0 for more detail than debug, which is 1",
		func(text string) error {
			levels := map[string]slog.Level{"debug": DebugLevel, "info": InfoLevel, "error": ErrorLevel, "panic": PanicLevel}
			if level, ok := levels[strings.ToLower(text)]; ok {
				o.Level = level
				return nil
			}
			n, err := strconv.Atoi(text)
			if err != nil || n <= 0 || n > 127 {
				return fmt.Errorf("invalid log level %q: must be debug, info, error, panic or an integer from 1 to 127", text)
			}
			o.Level = slog.Level(-n)
			return nil
		})
	fs.Func("zap-stacktrace-level", "Level from which on records have a stack: 'info', 'error' or 'panic'", func(text string) error {
		levels := map[string]slog.Level{"info": InfoLevel, "error": ErrorLevel, "panic": PanicLevel}
		level, ok := levels[strings.ToLower(text)]
		if !ok {
			return fmt.Errorf("invalid stacktrace level %q: must be info, error or panic", text)
		}
		o.StacktraceLevel = level
		return nil
	})
	fs.Func("zap-time-encoding", "Encoding of times: 'epoch', 'millis', 'nanos', 'iso8601', 'rfc3339' or 'rfc3339nano'", func(text string) error {
		encoders := map[string]TimeEncoder{"epoch": EpochTimeEncoder, "millis": EpochMillisTimeEncoder, "nanos": EpochNanosTimeEncoder,
			"iso8601": ISO8601TimeEncoder, "rfc3339": RFC3339TimeEncoder, "rfc3339nano": RFC3339NanoTimeEncoder}
		encoder, ok := encoders[strings.ToLower(text)]
		if !ok {
			return fmt.Errorf("invalid time-encoding value %q: must be epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano", text)
		}
		o.TimeEncoder = encoder
		return nil
	})
}
