package tour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const asKubectl = "KAPOK_TEST_AS_KUBECTL"

// TestMain makes this binary the kubectl of the tests: it prints its arguments; "fail" fails, and
// "watch" prints two lines, a third one when the file "changed" exists, and ends when it is killed.
func TestMain(m *testing.M) {
	if os.Getenv(asKubectl) == "" {
		os.Exit(m.Run())
	}
	args := os.Args[1:]
	fmt.Println("ran", args)
	switch args[0] {
	case "fail":
		os.Exit(1)
	case "change":
		if err := os.WriteFile("changed", nil, 0o600); err != nil {
			panic(err)
		}
	case "watch":
		fmt.Println("second line")
		for {
			if _, err := os.Stat("changed"); err == nil {
				fmt.Println("third line")
				time.Sleep(time.Hour)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func options(t *testing.T, answers string) (Options, *bytes.Buffer) {
	t.Setenv(asKubectl, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	o := Options{Kubectl: []string{self}, Dir: t.TempDir(), Out: out}
	if answers != "" {
		o.In = strings.NewReader(answers)
	}
	return o, out
}

func TestRun(t *testing.T) {
	steps := []Step{
		{Title: "First", Text: "Why.", File: "a.yaml", Content: "a: b\n", Command: []string{"apply", "-f", "a.yaml"}},
		{Title: "Second", Command: []string{"fail", "-p", `{"a":1}`}, Fails: true},
		{Title: "Third", Command: []string{"watch"}, During: []string{"change"}, Until: "third"},
	}
	o, out := options(t, "")
	if err := Run(t.Context(), o, steps); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"1/3  First", "Why.", "a.yaml:", "  a: b", "kubectl apply -f a.yaml", "ran [apply -f a.yaml]", `kubectl fail -p '{"a":1}'`, "ran [fail", "kubectl watch", "kubectl change", "ran [watch]", "third line"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if text, err := os.ReadFile(o.Dir + "/a.yaml"); err != nil || string(text) != "a: b\n" {
		t.Errorf("a.yaml: %q, %v", text, err)
	}
}

// TestUnexpected runs steps whose commands do other than the steps say.
func TestUnexpected(t *testing.T) {
	for name, step := range map[string]Step{
		"fails":         {Command: []string{"fail"}},
		"does not fail": {Command: []string{"get"}, Fails: true},
		"wait":          {Wait: []string{"fail"}, Command: []string{"get"}},
		"during":        {Command: []string{"watch"}, During: []string{"fail"}, Until: "third"},
		"watch ends":    {Command: []string{"get"}, During: []string{"change"}, Until: "third"},
	} {
		t.Run(name, func(t *testing.T) {
			o, out := options(t, "")
			if err := Run(t.Context(), o, []Step{step}); err == nil {
				t.Errorf("no error:\n%s", out)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	steps := []Step{{Title: "One", Command: []string{"one"}}, {Title: "Two", Command: []string{"two"}}}
	for answers, want := range map[string]struct {
		err error
		ran string
	}{
		"\n\n":  {nil, "ran [two]"},
		"\nq\n": {ErrQuit, "ran [one]"},
		"\n":    {ErrQuit, "ran [one]"}, // the end of the input
	} {
		o, out := options(t, answers)
		if err := Run(t.Context(), o, steps); !errors.Is(err, want.err) {
			t.Errorf("%q: %v, want %v", answers, err, want.err)
		}
		if !strings.Contains(out.String(), want.ran) || want.err != nil && strings.Contains(out.String(), "ran [two]") {
			t.Errorf("%q:\n%s", answers, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _ := options(t, "\n")
	if err := Run(ctx, o, steps); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrQuit) {
		t.Errorf("a tour whose context has ended: %v", err)
	}
}
