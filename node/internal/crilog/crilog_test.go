//go:build linux || darwin

package crilog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/kubelet"
)

// logTime is the format of times that this node writes.
const logTime = "2006-01-02T15:04:05.000000000Z07:00"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// TestLogs reads a log of two files.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	root := rootOf(t, dir)
	line := func(second int, stream, tag, text string) string {
		return fmt.Sprintf("%s %s %s %s\n", epoch.Add(time.Duration(second)*time.Second).Format(logTime), stream, tag, text)
	}
	old := line(1, "stdout", "F", "one") + line(2, "stderr", "F", "two")
	last := line(3, "stdout", "P", "thr") + line(3, "stdout", "F", "ee") + line(4, "stdout", "F", "") + strings.Repeat("x", 3*longestEntry) + "\n" + "2026-01-01T00:00:05Z stdout F being wri"
	for name, text := range map[string]string{path: last, path + ".1": old} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		change func(*kubelet.LogOptions)
		want   string
	}{
		{func(*kubelet.LogOptions) {}, "one\ntwo\nthree\n\n"},
		{func(o *kubelet.LogOptions) { o.Tail = 2 }, "three\n\n"},
		{func(o *kubelet.LogOptions) { o.Tail = 0 }, ""},
		{func(o *kubelet.LogOptions) { o.Since = epoch.Add(2 * time.Second) }, "two\nthree\n\n"},
		{func(o *kubelet.LogOptions) { o.Stream = "Stderr" }, "two\n"},
		{func(o *kubelet.LogOptions) { o.Limit = 5 }, "one\nt"},
		{func(o *kubelet.LogOptions) { o.Timestamps, o.Tail = true, 2 }, "2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:04.000000000Z \n"},
		{func(o *kubelet.LogOptions) { o.Follow = true }, "one\ntwo\nthree\n\n"}, // the run has ended
	} {
		o := kubelet.LogOptions{Tail: -1, Limit: -1}
		test.change(&o)
		var out bytes.Buffer
		if err := Read(context.Background(), root, "log", o, &out, func() bool { return true }); err != nil || out.String() != test.want {
			t.Errorf("%+v: got %q, %v, want %q", o, &out, err, test.want)
		}
	}
}

// A growing writer adds a line to a log at each write.
type growing struct {
	bytes.Buffer
	log *os.File
}

// Write implements io.Writer.
func (g *growing) Write(p []byte) (int, error) {
	if _, err := io.WriteString(g.log, epoch.Format(logTime)+" stdout F more\n"); err != nil {
		return 0, err
	}
	return g.Buffer.Write(p)
}

// TestTailOfGrowingLog ends although the log grows as fast as it is read.
func TestTailOfGrowingLog(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	out := &growing{log: log}
	for range 2 {
		if _, err := io.WriteString(log, epoch.Format(logTime)+" stdout F line\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := Read(t.Context(), rootOf(t, dir), "log", kubelet.LogOptions{Tail: 1, Limit: -1}, out, func() bool { return true }); err != nil || out.String() != "line\n" {
		t.Errorf("got %q, %v, want one line", out.String(), err)
	}
}
