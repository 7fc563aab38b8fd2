package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/creack/pty"
)

// TestScreenNeedsTerminal checks where kapok dev shows a screen.
func TestScreenNeedsTerminal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no pseudo-terminals")
	}
	near, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tc := range []struct {
		name string
		want bool
		got  bool
	}{
		{"a terminal", true, isScreen(terminal, terminal, "xterm-256color")},
		{"a terminal without capabilities", false, isScreen(terminal, terminal, "dumb")},
		{"input from a file", false, isScreen(file, terminal, "xterm")},
		{"output to a file", false, isScreen(terminal, file, "xterm")},
		{"another device", false, isScreen(null, null, "xterm")},
		{"a buffer", false, isScreen(terminal, &bytes.Buffer{}, "xterm")},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: a screen is shown: %t", tc.name, tc.got)
		}
	}
}

// TestInterrupt checks that keys act as signals do: the first ends the context, the second is for those that hurry.
func TestInterrupt(t *testing.T) {
	ctx, signals, stop := interrupts(context.Background())
	defer stop()
	signals.interrupt()
	<-ctx.Done()
	select {
	case <-signals.second:
		t.Fatal("one interrupt acts as two")
	default:
	}
	signals.interrupt()
	<-signals.second
	for range 3 {
		signals.interrupt() // does not block
	}
}
