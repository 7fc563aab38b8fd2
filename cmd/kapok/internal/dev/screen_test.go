//go:build unix

package dev_test

import (
	"context"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev/screen"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/term"
)

// A terminal is an emulator at one end of a pseudo-terminal.
type terminal struct {
	*testing.T
	near, far *os.File // far is the end of the program

	mu       sync.Mutex
	emulator *vt.Emulator
	more     chan struct{} // closed after the next output
}

func newTerminal(t *testing.T, width, height int) *terminal {
	near, far, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{T: t, near: near, far: far, emulator: vt.NewEmulator(width, height), more: make(chan struct{})}
	x.setSize(width, height)
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(x, near) })          // until far is closed
	copies.Go(func() { _, _ = io.Copy(near, x.emulator) }) // its answers to queries
	t.Cleanup(func() {
		far.Close()
		x.emulator.InputPipe().(io.Closer).Close()
		copies.Wait()
		near.Close()
	})
	return x
}

func (x *terminal) Write(data []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.more)
	x.more = make(chan struct{})
	return x.emulator.Write(data)
}

func (x *terminal) setSize(width, height int) {
	x.Helper()
	if err := pty.Setsize(x.far, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		x.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.emulator.Resize(width, height)
}

// resize changes the size as a user does.
func (x *terminal) resize(width, height int) {
	x.Helper()
	x.setSize(width, height)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		x.Fatal(err)
	}
}

func (x *terminal) press(keys string) {
	x.Helper()
	if _, err := x.near.WriteString(keys); err != nil {
		x.Fatal(err)
	}
}

// await waits until a text is on the screen, and returns all of the screen.
func (x *terminal) await(text string) string {
	x.Helper()
	limit := time.After(2 * time.Minute)
	for {
		x.mu.Lock()
		picture, more := x.emulator.String(), x.more
		x.mu.Unlock()
		if strings.Contains(picture, text) {
			return picture
		}
		select {
		case <-more:
		case <-limit:
			x.Fatalf("%q is not on the screen:\n%s", text, picture)
		}
	}
}

// TestScreen runs a project on a terminal.
func TestScreen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	p, x := newProject(t), newTerminal(t, 80, 24)
	before, err := term.GetState(int(x.far.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := screen.New(screen.Options{
		In: x.far, Out: x.far, Project: p.dir, Kubeconfig: "/tmp/kubeconfig", Interrupt: cancel, Environ: []string{"TERM=xterm-256color"},
	})
	s.Show(ctx, server.Config())
	done := make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{
			Project: p.dir, Dir: t.TempDir(), Args: []string{"--flag"}, Samples: true, Sink: s, Interval: 20 * time.Millisecond,
			Generate: []string{self, "generate"}, Kustomize: []string{self, "kustomize"},
			Config: server.Config(), Kubeconfig: server.Kubeconfig(),
		})
	}()
	x.await("hello 1 red [--flag] true")
	x.await("running since ")
	x.await("Widget  default/a")

	// A change is built, and its error is shown until another change mends it.
	p.write("api/types.go", "package api\n\nconst Version = none\n")
	x.await("error: build the operator: api/types.go:3:17: undefined: none")
	p.write("api/types.go", "package api\n\nconst Version = 2\n")
	x.await("hello 2 red")

	// Keys and sizes.
	x.press("?")
	x.await("Shift-Tab")
	x.press("?\t")
	x.await("━━ Objects 1")
	x.resize(40, 10)
	x.await("━━ Objects 1 ━ Events 0 ━ Log")
	x.resize(80, 24)
	x.await("── Log")

	// The end: the operator has ended, and the normal screen has the last lines.
	x.press("q")
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.Close()
	x.await("operator | goodbye 2")
	x.mu.Lock()
	if x.emulator.IsAltScreen() {
		t.Error("the alternate screen is still shown")
	}
	x.mu.Unlock()
	if after, err := term.GetState(int(x.far.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is in another state than before: %v", err)
	}
}

// TestScreenGivesTerminalBack checks that the third key that ends gives the terminal back, although
// the run has not ended: then lines are printed.
func TestScreenGivesTerminalBack(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	x := newTerminal(t, 80, 24)
	s := screen.New(screen.Options{In: x.far, Out: x.far, Project: "/p", Interrupt: func() {}, Environ: []string{"TERM=xterm"}})
	s.Show(t.Context(), server.Config())
	defer s.Close()
	s.Print("operator", []string{"hello"})
	x.await("hello")
	x.press("qqq")
	x.await("operator | hello")
	s.Print("operator", []string{"goodbye"})
	x.await("operator | goodbye")
}
