package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kapok-dev/kapok"
	processnode "github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

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

// TestInterrupt checks that keys act as signals do: the first ends the context, the second is for
// those that hurry.
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

// TestDevNodes checks which nodes kapok dev runs.
func TestDevNodes(t *testing.T) {
	for _, tc := range []struct {
		name      string
		d         devCommand
		set       bool // --nodes
		simulated int
		process   bool
	}{
		{"by default", devCommand{nodes: 1}, false, 1, false},
		{"processes", devCommand{nodes: 1, process: processNode{kind: "process"}}, false, 0, true},
		{"both", devCommand{nodes: 2, process: processNode{kind: "process"}}, true, 2, true},
		{"none", devCommand{nodes: 0}, true, 0, false},
	} {
		tc.d.listen = "127.0.0.1:0"
		if err := tc.d.complete(tc.set); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		opts := tc.d.serverOptions()
		nodes, process, schedules := 0, false, false
		for _, of := range opts.Controllers.(kapok.Together) {
			switch of := of.(type) {
			case simulated.Options:
				nodes = of.Nodes
			case *processnode.Node:
				process = true
			case scheduler.Options:
				schedules = true
			}
		}
		if nodes != tc.simulated || process != tc.process || schedules != (nodes > 0 || process) || (opts.Nodes.Kubelets != nil) != schedules || opts.Nodes.LoopbackEndpoints != process || (opts.Aggregation.Handlers[simulated.MetricsVersion] != nil) != schedules {
			t.Errorf("%s: %d simulated nodes, processes %t, scheduler %t, %+v", tc.name, nodes, process, schedules, opts.Nodes)
		}
	}
	d := devCommand{listen: "0.0.0.0:0", process: processNode{kind: "process"}}
	if err := d.complete(false); err == nil {
		t.Error("processes are run for all machines")
	}
}
