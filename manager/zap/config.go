package zap

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An EncoderConfig names the parts of a record. An empty key leaves the part out.
type EncoderConfig struct {
	MessageKey, LevelKey, TimeKey, NameKey, StacktraceKey string
	// EncodeTime and EncodeLevel are the forms of the time and of the level. nil leaves the part
	// out.
	EncodeTime  TimeEncoder
	EncodeLevel LevelEncoder
	// LineEnding ends a record. Default: a newline.
	LineEnding string
	// SkipLineEnding writes records without a LineEnding.
	SkipLineEnding bool
	// ConsoleSeparator is between the parts of a line of text. Default: a tab.
	ConsoleSeparator string
}

// An EncoderConfigOption changes an EncoderConfig.
type EncoderConfigOption func(*EncoderConfig)

// config returns the configuration of the encoding, with the options applied.
func (o *Options) config() EncoderConfig {
	c := EncoderConfig{MessageKey: "msg", LevelKey: "level", TimeKey: "ts", NameKey: "logger", StacktraceKey: "stacktrace",
		EncodeTime: o.TimeEncoder, EncodeLevel: LowercaseLevelEncoder}
	if o.NewEncoder == consoleEncoding {
		c.MessageKey, c.LevelKey, c.TimeKey, c.NameKey, c.StacktraceKey = "M", "L", "T", "N", "S"
		c.EncodeLevel = CapitalLevelEncoder
	}
	for _, opt := range o.EncoderConfigOptions {
		opt(&c)
	}
	if c.LineEnding == "" {
		c.LineEnding = "\n"
	}
	if c.SkipLineEnding {
		c.LineEnding = ""
	}
	if c.ConsoleSeparator == "" {
		c.ConsoleSeparator = "\t"
	}
	return c
}

// A TimeEncoder returns a time as it is written: a string or a number.
type TimeEncoder func(time.Time) any

// The TimeEncoders that --zap-time-encoding has.
var (
	EpochTimeEncoder       TimeEncoder = func(t time.Time) any { return float64(t.UnixNano()) / float64(time.Second) }
	EpochMillisTimeEncoder TimeEncoder = func(t time.Time) any { return float64(t.UnixNano()) / float64(time.Millisecond) }
	EpochNanosTimeEncoder  TimeEncoder = func(t time.Time) any { return t.UnixNano() }
	ISO8601TimeEncoder                 = TimeEncoderOfLayout("2006-01-02T15:04:05.000Z0700")
	RFC3339TimeEncoder                 = TimeEncoderOfLayout(time.RFC3339)
	RFC3339NanoTimeEncoder             = TimeEncoderOfLayout(time.RFC3339Nano)
)

// TimeEncoderOfLayout returns a TimeEncoder for a layout of time.Time.Format.
func TimeEncoderOfLayout(layout string) TimeEncoder {
	return func(t time.Time) any { return t.Format(layout) }
}

// A LevelEncoder returns a level as it is written.
type LevelEncoder func(slog.Level) string

// The LevelEncoders of zap.
var (
	LowercaseLevelEncoder      LevelEncoder = levelName
	LowercaseColorLevelEncoder LevelEncoder = func(l slog.Level) string { return colored(l, levelName(l)) }
	CapitalLevelEncoder        LevelEncoder = func(l slog.Level) string { return strings.ToUpper(levelName(l)) }
	CapitalColorLevelEncoder   LevelEncoder = func(l slog.Level) string { return colored(l, strings.ToUpper(levelName(l))) }
)

// colored returns a text in the color of a level, for terminals.
func colored(level slog.Level, text string) string {
	color := 31 // red
	switch {
	case level >= ErrorLevel:
	case level >= WarnLevel:
		color = 33 // yellow
	case level >= InfoLevel:
		color = 34 // blue
	case level == DebugLevel:
		color = 35 // magenta
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, text)
}

type (
	// LogLevel is a level. (In zap it is zapcore.Level.) LogLevel(-n) is that of logr.Logger.V(n).
	LogLevel = slog.Level
	// LevelEnabler says from which level on records are logged.
	LevelEnabler = slog.Leveler
)

// The levels that flags name, and those of zap that have no flag. DPanicLevel and above are above
// every level that logr has: nothing is logged.
const (
	DebugLevel  = slog.Level(-1)
	InfoLevel   = slog.LevelInfo
	WarnLevel   = slog.LevelWarn
	ErrorLevel  = slog.LevelError
	DPanicLevel = slog.Level(12)
	PanicLevel  = slog.Level(16)
	FatalLevel  = slog.Level(20)
)
