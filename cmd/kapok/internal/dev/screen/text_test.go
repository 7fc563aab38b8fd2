package screen

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// TestClean checks what is left of text that tries to control the terminal.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                                "plain",
		"a\tb\nc":                              "a b c",
		"\x1b[31mred\x1b[0m":                   "red",
		"a\x1b[2J\x1b[1;1Hb":                   "ab",
		"\x1b]0;title\x07x":                    "x",
		"\x1b]52;c;c2VjcmV0\x1b\\x":            "x",
		"\x1bPq#0;2;0;0;0\x1b\\x":              "x",
		"x\x1b]8;;http://a\x1b\\y\x1b]8;;\x07": "xy",
		"over\rwritten\b\b\x00\x7f":            "overwritten",
		"c1 \u009b31m \u0085":                  "c1 31m ",
		"bytes \x9b\xff":                       "bytes \uFFFD",
		"turned \u202egnp\u202c \u2066x\u2069": "turned gnp x",
		"lines\u2028and\u2029more":             "lines and more",
		"unfinished \x1b[":                     "unfinished ",
		"👩\u200d👧 e\u0301 日本":                  "👩\u200d👧 e\u0301 日本",
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
	if got := clean(strings.Repeat("日", 100_000)); len(got) > longest || !strings.HasSuffix(got, "日…") {
		t.Errorf("a long line has %d bytes and ends with %q", len(got), got[len(got)-6:])
	}
}

// FuzzClean checks that no text keeps a control character, and that what is cut has its width.
func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;t\x07\x9b1m\u009b日本", 3)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		got := clean(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || len(got) > longest {
			t.Errorf("clean(%q) = %q", text, got)
		}
		columns %= 200
		if w := ansi.StringWidth(cut(got, columns)); w > max(0, columns) {
			t.Errorf("cut(%q, %d) has %d columns", got, columns, w)
		}
		if w := ansi.StringWidth(pad(got, columns)); w != max(0, columns) {
			t.Errorf("pad(%q, %d) has %d columns", got, columns, w)
		}
	})
}
