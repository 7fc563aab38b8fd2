package zap_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/manager/zap"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// flagged returns the logger of a command line.
func flagged(t *testing.T, out io.Writer, development bool, args ...string) logr.Logger {
	t.Helper()
	opts := zap.Options{Development: development, DestWriter: out}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	opts.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return zap.New(zap.UseFlagOptions(&opts))
}

func TestJSONHasTheKeysOfZap(t *testing.T) {
	var out bytes.Buffer
	log := flagged(t, &out, false).WithName("setup").WithName("inner").WithValues("a", 1)
	log.Info("hello \"you\"", "msg", "mine", "logger2", "x", "level", "high",
		"key", types.NamespacedName{Namespace: "ns", Name: "n"},
		"pod", &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
		"nil", (*corev1.Pod)(nil))
	log.V(1).Info("not logged")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if !strings.HasPrefix(out.String(), `{"level":"info","ts":"`) || strings.Count(out.String(), "\n") != 1 {
		t.Error(out.String())
	}
	want := `"logger":"setup/inner","msg":"hello \"you\"","a":1,"msg":"mine","logger2":"x","level":"high",` +
		`"key":{"name":"n","namespace":"ns"},"pod":{"apiVersion":"v1","kind":"Pod","name":"p","namespace":"ns"},"nil":null}`
	if !strings.HasSuffix(strings.TrimSpace(out.String()), want) {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

func TestErrorsHaveTheStackOfTheCaller(t *testing.T) {
	var out bytes.Buffer
	flagged(t, &out, false).Error(errors.New("broken"), "no")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	stack, _ := got["stacktrace"].(string)
	if got["error"] != "broken" || got["level"] != "error" || !strings.HasPrefix(stack, "github.com/kapok-dev/kapok/manager/zap_test.TestErrorsHaveTheStackOfTheCaller\n") {
		t.Error(out.String())
	}
}

func TestDevelopmentIsAConsole(t *testing.T) {
	var out bytes.Buffer
	log := flagged(t, &out, true, "--zap-time-encoding=epoch").WithName("setup")
	log.V(1).Info("hello", "a", 1)
	log.V(2).Info("not logged")
	log.Info("bye")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "\tDEBUG\tsetup\thello\t{\"a\":1}") || !strings.HasSuffix(lines[1], "\tINFO\tsetup\tbye") {
		t.Errorf("%q", out.String())
	}
}

func TestFlagsSetTheLevelAndTheEncoding(t *testing.T) {
	for _, tc := range []struct {
		args      []string
		logged    int // number of logged messages among V(3), V(2), V(1), V(0), warning, error
		hasStack  bool
		isConsole bool
	}{
		{nil, 3, true, false},
		{[]string{"--zap-log-level=debug"}, 4, true, false},
		{[]string{"--zap-log-level=2"}, 5, true, false},
		{[]string{"--zap-log-level=error"}, 1, true, false},
		{[]string{"--zap-log-level=panic"}, 0, false, false},
		{[]string{"--zap-stacktrace-level=panic", "--zap-encoder=console"}, 3, false, true},
		{[]string{"--zap-devel"}, 4, true, true},
		{[]string{"--zap-devel", "--zap-encoder=json"}, 4, true, false},
	} {
		var out bytes.Buffer
		log := flagged(t, &out, false, tc.args...)
		for v := 3; v >= 0; v-- {
			log.V(v).Info("MESSAGE")
		}
		slog.New(logr.ToSlogHandler(log)).Warn("MESSAGE")
		log.Error(nil, "MESSAGE")
		text := out.String()
		if n := strings.Count(text, "MESSAGE"); n != tc.logged {
			t.Errorf("%v: %d messages, want %d: %s", tc.args, n, tc.logged, text)
		}
		if has := strings.Contains(text, "zap_test.TestFlags"); has != tc.hasStack {
			t.Errorf("%v: stack is %v: %s", tc.args, has, text)
		}
		if text != "" && strings.HasPrefix(text, "{") == tc.isConsole {
			t.Errorf("%v: %s", tc.args, text)
		}
	}
}

func TestWrongFlagsSayWhatIsExpected(t *testing.T) {
	for arg, want := range map[string]string{
		"--zap-log-level=0":           "debug, info, error, panic or an integer from 1 to 127",
		"--zap-log-level=loud":        "debug, info, error, panic or an integer from 1 to 127",
		"--zap-encoder=xml":           "json or console",
		"--zap-stacktrace-level=some": "info, error or panic",
		"--zap-time-encoding=sundial": "epoch, millis",
	} {
		var opts zap.Options
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		opts.BindFlags(flags)
		if err := flags.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestEncoderConfigOptions(t *testing.T) {
	config := func(c *zap.EncoderConfig) {
		c.TimeKey, c.MessageKey, c.NameKey, c.StacktraceKey = "timestamp", "message", "", ""
		c.EncodeTime, c.EncodeLevel = zap.TimeEncoderOfLayout("15h"), zap.CapitalLevelEncoder
	}
	for _, tc := range []struct {
		name string
		opts []zap.Opts
		want string // HH is the hour
	}{
		{"json", []zap.Opts{zap.JSONEncoder(config)}, `{"level":"INFO","timestamp":"HHh","message":"hello","a":1}` + "\n"},
		{"json of options", []zap.Opts{func(o *zap.Options) { o.EncoderConfigOptions = []zap.EncoderConfigOption{config} }},
			`{"level":"INFO","timestamp":"HHh","message":"hello","a":1}` + "\n"},
		{"console", []zap.Opts{zap.ConsoleEncoder(config)}, "HHh\tINFO\thello\t{\"a\":1}\n"},
		{"separator", []zap.Opts{zap.ConsoleEncoder(config, func(c *zap.EncoderConfig) { c.ConsoleSeparator, c.TimeKey = " ", "" })}, "INFO hello {\"a\":1}\n"},
		{"line ending", []zap.Opts{zap.JSONEncoder(config, func(c *zap.EncoderConfig) { c.LineEnding = ";" })},
			`{"level":"INFO","timestamp":"HHh","message":"hello","a":1};`},
		{"no line ending", []zap.Opts{zap.ConsoleEncoder(config, func(c *zap.EncoderConfig) { c.SkipLineEnding = true })}, "HHh\tINFO\thello\t{\"a\":1}"},
		{"color", []zap.Opts{zap.ConsoleEncoder(config, func(c *zap.EncoderConfig) { c.EncodeLevel, c.EncodeTime = zap.CapitalColorLevelEncoder, nil })},
			"\x1b[34mINFO\x1b[0m\thello\t{\"a\":1}\n"},
		{"nothing but values", []zap.Opts{zap.JSONEncoder(func(c *zap.EncoderConfig) { *c = zap.EncoderConfig{} })}, `{"a":1}` + "\n"},
		{"the defaults of zap", []zap.Opts{zap.UseDevMode(true), zap.JSONEncoder(), zap.Level(zap.LogLevel(-3)), zap.StacktraceLevel(zap.DPanicLevel),
			func(o *zap.Options) { o.TimeEncoder = zap.TimeEncoderOfLayout("15h") }}, `{"level":"info","ts":"HHh","logger":"name","msg":"hello","a":1}` + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			before := time.Now().Format("15")
			zap.New(append(tc.opts, zap.WriteTo(&out))...).WithName("name").Info("hello", "a", 1)
			after := time.Now().Format("15")
			got := out.String()
			if got != strings.ReplaceAll(tc.want, "HH", before) && got != strings.ReplaceAll(tc.want, "HH", after) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	var out bytes.Buffer
	zap.New(zap.ConsoleEncoder(config), zap.WriteTo(&out), zap.StacktraceLevel(zap.InfoLevel)).Info("hello")
	if strings.Contains(out.String(), "zap_test.go") {
		t.Errorf("a stack without a key: %s", out.String())
	}
}

// TestEmptyRecord checks that records without fields are objects too.
func TestEmptyRecord(t *testing.T) {
	var out bytes.Buffer
	zap.New(zap.JSONEncoder(func(c *zap.EncoderConfig) { *c = zap.EncoderConfig{} }), zap.WriteTo(&out)).Info("hello")
	if out.String() != "{}\n" {
		t.Errorf("%q", out.String())
	}
}

func TestLevelsHaveTheNamesAndColorsOfZap(t *testing.T) {
	for level, want := range map[slog.Level]string{
		zap.LogLevel(-3): "\x1b[31mLevel(-3)\x1b[0m", zap.DebugLevel: "\x1b[35mdebug\x1b[0m", zap.InfoLevel: "\x1b[34minfo\x1b[0m",
		zap.WarnLevel: "\x1b[33mwarn\x1b[0m", zap.ErrorLevel: "\x1b[31merror\x1b[0m",
	} {
		if got := zap.LowercaseColorLevelEncoder(level); got != want {
			t.Errorf("%d: %q, want %q", level, got, want)
		}
	}
}
