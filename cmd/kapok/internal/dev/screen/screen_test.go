package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPlainBefore checks that a Screen that is not shown prints lines, and that Close does nothing
// then.
func TestPlainBefore(t *testing.T) {
	var out bytes.Buffer
	s := New(Options{Out: &out})
	fmt.Fprintln(dev.Writer(s, "server"), "level=WARN")
	s.Report(dev.Status{Step: "building"})
	s.Samples([]dev.Sample{{Name: "a"}})
	s.Close()
	if got := out.String(); got != "server   | level=WARN\n" {
		t.Errorf("it prints %q", got)
	}
}

// TestLeave checks what the normal screen gets at the end.
func TestLeave(t *testing.T) {
	for _, tc := range []struct {
		name        string
		lines       int
		status      dev.Status
		err         error
		first, last string
		count       int
	}{
		{name: "nothing"},
		{name: "few lines", lines: 3, first: "operator | line 0", last: "operator | line 2", count: 3},
		{name: "many lines", lines: 300, first: "operator | line 280", last: "operator | line 299", count: 20},
		{name: "an error before", lines: 100, status: dev.Status{Error: "wrong:\n  a\x1b[2J"}, first: "error    | wrong:", last: "operator | line 99", count: 22},
		{name: "an error among the lines", lines: 5, status: dev.Status{Error: "line 2"}, first: "error    | line 2", last: "operator | line 4", count: 6},
		{name: "the terminal", lines: 1, err: errTest, first: "screen   | the terminal has gone", last: "operator | line 0", count: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			s := New(Options{Out: &out})
			s.shown = true
			for i := range tc.lines {
				s.Print("operator", []string{fmt.Sprint("line ", i)})
			}
			s.Report(tc.status)
			if out.Len() > 0 {
				t.Errorf("it prints on the screen: %s", &out)
			}
			s.leave(tc.err)
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != tc.count || tc.count > 0 && (lines[0] != tc.first || lines[len(lines)-1] != tc.last) {
				t.Errorf("it prints\n%s", &out)
			}
			out.Reset()
			s.Print("operator", []string{"goodbye"})
			if got := out.String(); got != "operator | goodbye\n" {
				t.Errorf("after the end it prints %q", got)
			}
		})
	}
}

// TestPrintCleans checks that no control sequences get into the panes, and where lines get.
func TestPrintCleans(t *testing.T) {
	s := New(Options{Out: &bytes.Buffer{}})
	s.shown = true
	s.Print("operator", []string{"\x1b[2Jlog", "\rmore"})
	s.Print("event", []string{"\x1b]0;title\x07event"})
	s.Print("error", []string{"wrong\x00"})
	n := s.take()
	if got := fmt.Sprint(n.log, n.events); got != "[{operator log} {operator more} {error wrong}] [{event event}]" {
		t.Errorf("the panes get %s", got)
	}
	if n := s.take(); len(n.log)+len(n.events) > 0 {
		t.Errorf("the panes get lines twice: %v", n)
	}
}

// TestBounded checks that lines which the program does not take are bounded.
func TestBounded(t *testing.T) {
	s := New(Options{Out: &bytes.Buffer{}})
	s.shown = true
	for range 5 * limit {
		s.Print("operator", []string{"x"})
		s.Print("event", []string{"y"})
	}
	if n := s.take(); len(n.log) > 2*limit || len(n.log) < limit || len(n.events) > 2*limit || len(s.last) > 2*remembered {
		t.Errorf("%d lines of the log, %d events, %d at the end", len(n.log), len(n.events), len(s.last))
	}
}
