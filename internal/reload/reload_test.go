package reload

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// write writes a file in a new directory, and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, content)
	return path
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// target is the destination of loaded contents. Contents with a "!" are invalid.
type target struct {
	loaded []string
	calls  int
}

var errInvalid = errors.New("invalid")

func (g *target) load(_ context.Context, contents [][]byte) error {
	g.calls++
	joined := string(bytes.Join(contents, []byte("+")))
	if strings.Contains(joined, "!") {
		return errInvalid
	}
	g.loaded = append(g.loaded, joined)
	return nil
}

func TestOpen(t *testing.T) {
	var g target
	a, b := write(t, "a", "1"), write(t, "b", "2")
	if _, err := Open(t.Context(), "pair", g.load, a, b); err != nil || len(g.loaded) != 1 || g.loaded[0] != "1+2" {
		t.Errorf("loaded %q, %v", g.loaded, err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Open(t.Context(), "pair", g.load, a, missing); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "pair: open "+missing) {
		t.Errorf("a missing file: %v", err)
	}
	invalid := write(t, "c", "!")
	if _, err := Open(t.Context(), "pair", g.load, a, invalid); !errors.Is(err, errInvalid) || err.Error() != "pair in "+a+" and "+invalid+": invalid" {
		t.Errorf("an invalid file: %v", err)
	}
}

// An empty file is a content like any other.
func TestEmpty(t *testing.T) {
	var g target
	path := write(t, "a", "")
	f, err := Open(t.Context(), "file", g.load, path)
	if err != nil || g.calls != 1 {
		t.Fatalf("%d calls, %v", g.calls, err)
	}
	if changed, err := f.Refresh(t.Context()); changed || err != nil || g.calls != 1 {
		t.Errorf("unchanged: %v, %v, %d calls", changed, err, g.calls)
	}
}

// Bytes that move from one file to the other are a change.
func TestBoundary(t *testing.T) {
	var g target
	a, b := write(t, "a", "12"), write(t, "b", "3")
	f, err := Open(t.Context(), "pair", g.load, a, b)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, a, "1")
	rewrite(t, b, "23")
	if changed, err := f.Refresh(t.Context()); !changed || err != nil || g.loaded[1] != "1+23" {
		t.Errorf("%v, %v, loaded %q", changed, err, g.loaded)
	}
}

// A buffer is safe for concurrent use: to sleep in a bubble does not synchronize with what wakes at
// the same time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

// take returns what was written, and empties the buffer.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

func TestWatch(t *testing.T) {
	path, other := write(t, "a", "1"), write(t, "b", "x")
	synctest.Test(t, func(t *testing.T) {
		var g, h target
		f, err := Open(t.Context(), "file", g.load, path)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Open(t.Context(), "second", h.load, other)
		if err != nil {
			t.Fatal(err)
		}
		log := &buffer{}
		logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { Watch(ctx, logger, f, second) })
		synctest.Wait()

		// after lets intervals pass, and returns what was logged in them.
		after := func(intervals int) string {
			t.Helper()
			time.Sleep(time.Duration(intervals) * Every)
			synctest.Wait()
			return log.take()
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
		}
		invalid := `level=ERROR msg="file not loaded: the previous version remains in effect" file=` + path + ` err="file in ` + path + ": invalid\"\n"
		loaded := `level=INFO msg="file loaded" file=` + path + "\n"

		expect(after(3), "")
		if g.calls != 1 {
			t.Errorf("%d calls without a change", g.calls)
		}
		rewrite(t, path, "2")
		expect(after(3), loaded)
		rewrite(t, path, "!")
		expect(after(3), invalid) // once
		if g.calls != 5 {
			t.Errorf("%d calls, want another for each interval of an invalid file", g.calls)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if got := after(2); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no such file") {
			t.Errorf("a missing file: logged %q", got)
		}
		rewrite(t, path, "!")
		expect(after(1), invalid) // another error than the last
		rewrite(t, path, "2")
		expect(after(1), "") // what is in force
		rewrite(t, path, "!")
		expect(after(1), invalid) // again
		rewrite(t, other, "y")
		expect(after(1), `level=INFO msg="second loaded" file=`+other+"\n")
		if want := []string{"1", "2"}; strings.Join(g.loaded, " ") != strings.Join(want, " ") {
			t.Errorf("loaded %q, want %q", g.loaded, want)
		}

		cancel()
		running.Wait()
		rewrite(t, path, "3")
		expect(after(2), "")
	})
}

// An error of load that the end of Watch causes is not logged.
func TestWatchEnds(t *testing.T) {
	path := write(t, "a", "1")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		f, err := Open(t.Context(), "file", func(ctx context.Context, _ [][]byte) error {
			if calls++; calls == 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, path)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		var running sync.WaitGroup
		running.Go(func() { Watch(ctx, slog.New(slog.NewTextHandler(&log, nil)), f) })
		rewrite(t, path, "2")
		time.Sleep(Every)
		synctest.Wait()
		cancel()
		running.Wait()
		if calls != 2 || log.Len() > 0 {
			t.Errorf("%d calls, logged %q", calls, &log)
		}
	})
}
