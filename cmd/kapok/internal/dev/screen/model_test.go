package screen

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures into testdata")

// start is when the operator of the pictures was started.
var start = time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)

// A fixture is a model that gets messages.
type fixture struct {
	*testing.T
	*model
	interrupted int
}

func newFixture(t *testing.T, width, height int) *fixture {
	f := &fixture{T: t}
	f.model = newModel("guestbook", "/home/gopher/.cache/kapok/dev/guestbook-1a2b3c4d/kubeconfig", true, func() { f.interrupted++ })
	f.send(tea.WindowSizeMsg{Width: width, Height: height})
	return f
}

// send updates the model, checks the picture, and runs the command. It returns the message of the
// command.
func (f *fixture) send(message tea.Msg) tea.Msg {
	f.Helper()
	_, command := f.Update(message)
	f.picture()
	if command == nil {
		return nil
	}
	return command()
}

var keys = map[string]tea.KeyPressMsg{
	"tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
	"ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+l": {Code: 'l', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl}, "esc": {Code: tea.KeyEscape},
}

// press sends keys, which are separated by spaces.
func (f *fixture) press(names string) (last tea.Msg) {
	f.Helper()
	for name := range strings.FieldsSeq(names) {
		key, ok := keys[name]
		if !ok {
			key = tea.KeyPressMsg{Code: rune(name[0]), Text: name}
		}
		if key.String() != name {
			f.Fatalf("the key %s is called %s", name, key)
		}
		last = f.send(key)
	}
	return last
}

// picture returns the screen without styles. It fails if it does not fit the terminal.
func (f *fixture) picture() string {
	f.Helper()
	view := f.View()
	if !view.AltScreen {
		f.Error("the view is not on the alternate screen")
	}
	lines := f.lines()
	if len(lines) != f.height && f.width > 0 {
		f.Errorf("%dx%d: %d lines", f.width, f.height, len(lines))
	}
	var text strings.Builder
	for _, l := range lines {
		l = ansi.Strip(l)
		if w := ansi.StringWidth(l); w > f.width {
			f.Errorf("%dx%d: a line has %d columns: %q", f.width, f.height, w, l)
		}
		if i := strings.IndexFunc(l, unicode.IsControl); i >= 0 {
			f.Errorf("%dx%d: a line has a control character: %q", f.width, f.height, l)
		}
		text.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	return text.String()
}

func operatorLines(from, to int) (all []line) {
	for i := from; i < to; i++ {
		all = append(all, line{"operator", fmt.Sprintf("INFO  reconciled  {\"n\": %d, \"name\": \"guestbook-sample\", \"resourceVersion\": \"%d\"}", i, 1000+i)})
	}
	return all
}

// busy sends what a run in the middle of work has.
func (f *fixture) busy() {
	f.send(news{
		now: start.Add(90 * time.Second), status: &dev.Status{Since: start}, objects: true,
		log: append([]line{{"build", "./cmd in 1.4 s"}, {"apply", "Guestbook default/guestbook-sample"}}, operatorLines(0, 40)...),
		events: []line{
			{"event", "Guestbook default/guestbook-sample: Created: created the ConfigMap guestbook-sample"},
			{"event", "Warning: Pod default/web-7c5f-x2x: BackOff: back-off restarting a container (3 times)"},
		},
		rows: []row{
			{kind: "Guestbook", name: "default/guestbook-sample", state: "Ready", created: start},
			{depth: 1, kind: "ConfigMap", name: "default/guestbook-sample", created: start.Add(time.Second)},
			{depth: 1, kind: "Deployment", name: "default/guestbook-sample-web", state: "1/3", created: start.Add(2 * time.Second)},
			{depth: 2, kind: "ReplicaSet", name: "default/guestbook-sample-web-7c5f", state: "1/3", created: start.Add(3 * time.Second)},
			{depth: 3, kind: "Pod", name: "default/guestbook-sample-web-7c5f-x2xqz", state: "Not ready: ContainersNotReady", created: start.Add(-50 * time.Hour)},
			{kind: "Namespace", name: "team", state: "Active"},
		},
	})
}

// TestView compares the screen with pictures.
func TestView(t *testing.T) {
	sizes := []struct{ width, height int }{{80, 24}, {40, 10}}
	for _, tc := range []struct {
		name string
		do   func(f *fixture)
	}{
		{"begin", func(f *fixture) { f.send(news{now: start, status: &dev.Status{Step: "building"}}) }},
		{"busy", func(f *fixture) { f.busy() }},
		{"objects", func(f *fixture) { f.busy(); f.press("tab down down") }},
		{"paused", func(f *fixture) { f.busy(); f.press("pgup up"); f.send(news{log: operatorLines(40, 50)}) }},
		{"error", func(f *fixture) {
			f.busy()
			f.send(news{
				now: start.Add(2 * time.Minute), status: &dev.Status{Since: start, Error: "build the operator:\n# example.com/guestbook/api/v1\napi/v1/types.go:3:17: undefined: none"},
				log: []line{{"change", "api/v1/types.go"}, {"error", "build the operator:"}, {"error", "api/v1/types.go:3:17: undefined: none"}},
			})
		}},
		{"ended", func(f *fixture) {
			f.busy()
			f.send(news{status: &dev.Status{Ended: "exit status 2"}})
			f.press("tab tab")
		}},
		{"rebuild", func(f *fixture) { f.busy(); f.send(news{status: &dev.Status{Step: "building", Since: start}}) }},
		{"help", func(f *fixture) { f.busy(); f.press("?") }},
		{"ending", func(f *fixture) { f.busy(); f.press("q") }},
	} {
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%dx%d", tc.name, size.width, size.height)
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, size.width, size.height)
				tc.do(f)
				got, path := f.picture(), filepath.Join("testdata", name+".txt")
				if *rewrite {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("the screen is\n%s\nwant (-rewrite writes it)\n%s", got, want)
				}
			})
		}
	}
}

// TestSizes draws a busy screen at many sizes with all panes in focus: fixture.picture checks that
// it fits.
func TestSizes(t *testing.T) {
	f := newFixture(t, 80, 24)
	f.busy()
	f.send(news{status: &dev.Status{Error: strings.Repeat("長い", 100), Ended: "signal: killed"}, log: []line{{"operator", strings.Repeat("日本", 500)}, {"operator", "👩‍👩‍👧‍👦 e\u0301"}}})
	for _, do := range []string{"tab", "tab home", "tab pgdown", "tab pgup pgup", "?", "? q"} {
		f.press(do)
		for width := 0; width <= 130; width += 3 {
			for height := 0; height <= 40; height++ {
				f.send(tea.WindowSizeMsg{Width: width, Height: height})
			}
		}
	}
}

// TestResize checks that what is visible fits the new size, and that a list does not end above the
// bottom.
func TestResize(t *testing.T) {
	f := newFixture(t, 80, 24)
	f.busy()
	f.press("tab end")
	if f.top == 0 {
		t.Fatal("the list of objects fits: the test checks nothing")
	}
	f.send(tea.WindowSizeMsg{Width: 100, Height: 100})
	if f.top != 0 || !strings.Contains(f.picture(), `"n": 0,`) || !strings.Contains(f.picture(), "Guestbook  ") {
		t.Errorf("a large screen does not show all lines and objects:\n%s", f.picture())
	}
	f.send(tea.WindowSizeMsg{Width: 40, Height: 10})
	if p := f.picture(); !strings.Contains(p, "━━ Objects 6 ━ Events 2 ━ Log 42") || strings.Contains(p, `"n":`) {
		t.Errorf("a small screen does not show the pane in focus alone:\n%s", p)
	}
}

// visibleNumbers returns the first and the last number of the lines of the log on the screen.
func (f *fixture) visibleNumbers() (first, last int) {
	f.Helper()
	first, last = -1, -1
	for l := range strings.Lines(f.picture()) {
		var n int
		if _, err := fmt.Sscanf(l, `INFO  reconciled  {"n": %d,`, &n); err == nil {
			if last = n; first < 0 {
				first = n
			}
		}
	}
	return first, last
}

// TestScroll checks the keys of the log: at 80x24 it has 11 lines.
func TestScroll(t *testing.T) {
	f := newFixture(t, 80, 24)
	f.send(news{log: operatorLines(0, 100)})
	check := func(what string, first, last int) {
		t.Helper()
		if a, b := f.visibleNumbers(); a != first || b != last {
			t.Errorf("%s: lines %d to %d are visible, want %d to %d:\n%s", what, a, b, first, last, f.picture())
		}
	}
	check("at first", 89, 99)
	for _, tc := range []struct {
		keys        string
		first, last int
	}{
		{"down", 89, 99}, {"up", 88, 98}, {"down down down", 89, 99}, {"pgup", 79, 89}, {"pgup up", 68, 78}, {"pgdown", 78, 88},
		{"home", 0, 10}, {"up pgup", 0, 10}, {"pgdown", 10, 20}, {"end", 89, 99}, {"k k", 87, 97}, {"j", 88, 98}, {"f", 89, 99},
	} {
		f.press(tc.keys)
		check(tc.keys, tc.first, tc.last)
	}

	// While it follows, new lines move it; after the user has scrolled, they do not.
	f.send(news{log: operatorLines(100, 110)})
	check("following", 99, 109)
	f.press("up")
	f.send(news{log: operatorLines(110, 200)})
	check("paused", 98, 108)
	if !strings.Contains(f.picture(), "Log 200 (91 below)") {
		t.Errorf("the title does not show what is below:\n%s", f.picture())
	}
	f.press("f")
	check("following again", 189, 199)

	// Lines that are forgotten take the window with them.
	f.press("home")
	f.send(news{log: operatorLines(200, limit+50)})
	check("after lines were forgotten", 50, 60)

	// The other panes have their own places.
	f.press("tab tab end home tab")
	check("with other panes scrolled", 50, 60)
}

// TestEnd checks the keys that end the run.
func TestEnd(t *testing.T) {
	f := newFixture(t, 80, 24)
	for i, key := range []string{"q", "ctrl+c"} {
		if message := f.press(key); message != nil || f.interrupted != i+1 {
			t.Errorf("%s sends %v, and %d interrupts", key, message, f.interrupted)
		}
	}
	if !strings.Contains(f.picture(), "ending at once") {
		t.Errorf("the screen does not show that it ends:\n%s", f.picture())
	}
	if _, quits := f.press("q").(tea.QuitMsg); !quits || f.interrupted != 2 {
		t.Error("the third key does not give the terminal back")
	}
}

// TestHelp checks that the keys cover the panes until the next key that closes them.
func TestHelp(t *testing.T) {
	f := newFixture(t, 80, 24)
	f.busy()
	f.press("?")
	if !strings.Contains(f.picture(), "guestbook-1a2b3c4d/kubeconfig") {
		t.Errorf("the help does not have the path of the kubeconfig:\n%s", f.picture())
	}
	for _, key := range []string{"esc", "? ?"} {
		if f.press(key); f.help || !strings.Contains(f.picture(), "━━ Log") {
			t.Errorf("%s does not close the help:\n%s", key, f.picture())
		}
	}
	if message := f.press("ctrl+l"); message == nil {
		t.Error("Ctrl-L does not draw the screen again")
	}
	if _, suspends := f.press("ctrl+z").(tea.SuspendMsg); !suspends {
		t.Error("Ctrl-Z does not suspend")
	}
}

// TestColors checks that errors are red, and that NO_COLOR leaves no colors.
func TestColors(t *testing.T) {
	for _, colors := range []bool{true, false} {
		m := newModel("p", "k", colors, nil)
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
		m.Update(news{status: &dev.Status{Since: start, Error: "wrong"}, log: []line{{"error", "wrong"}, {"build", "x"}}, events: []line{{"event", "Warning: x"}}})
		text := m.View().Content
		if red := strings.Contains(text, "\x1b[31merror: wrong"); red != colors {
			t.Errorf("colors %t: the error is red: %t", colors, red)
		}
		if !colors && strings.Contains(strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[m", "").Replace(text), "\x1b") {
			t.Errorf("there are colors in spite of NO_COLOR: %q", text)
		}
	}
	for _, tc := range []struct {
		environ []string
		want    bool
	}{{nil, false}, {[]string{"NO_COLOR="}, false}, {[]string{"A=b", "NO_COLOR=1"}, true}, {[]string{"NO_COLOR=false"}, true}} {
		if got := hasNoColor(tc.environ); got != tc.want {
			t.Errorf("hasNoColor(%q) = %t", tc.environ, got)
		}
	}
}

var errTest = errors.New("the terminal has gone")
