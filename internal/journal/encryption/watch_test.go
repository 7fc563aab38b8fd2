package encryption

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/reload"
)

// A logbook collects log records until they are taken.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func TestWatch(t *testing.T) {
	name := file(t, configOf("secrets: aescbc/one"))
	var log logbook
	c, err := Load(t.Context(), name, testPaths, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	raw := objectOf(secret, "value")
	old, err := c.Seal(secret, raw)
	if err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Watch(ctx) })
		logged := func() string {
			time.Sleep(3 * reload.Every) // virtual time
			synctest.Wait()
			return log.take()
		}
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := func(wantHeader string, wantStale bool) {
			t.Helper()
			stored, err := c.Seal(secret, raw)
			if got := headerOf(stored); err != nil || got != wantHeader {
				t.Errorf("stored with %q, %v; want %q", got, err, wantHeader)
			}
			if got, stale, err := c.Open(secret, old); err != nil || stale != wantStale || !bytes.Equal(got, raw) {
				t.Errorf("opened %q, stale %v, %v", got, stale, err)
			}
		}

		if got := logged(); got != "" {
			t.Errorf("without a change: %s", got)
		}
		check("k8s:enc:aescbc:v1:one:", false)
		if at := c.Changed(); !at.IsZero() {
			t.Errorf("changed at %v", at)
		}

		before := time.Now()
		write(configOf("secrets: secretbox/two aescbc/one"))
		if got := logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO") || !strings.Contains(got, name) {
			t.Errorf("after a change: %s", got)
		}
		check("k8s:enc:secretbox:v1:two:", true)
		changed := c.Changed()
		if !changed.After(before) || changed.After(time.Now()) {
			t.Errorf("changed at %v, after %v", changed, before)
		}

		write("kind: EncryptionConfiguration\n") // incomplete
		if got := logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "'apiVersion' is missing") {
			t.Errorf("after a bad change: %s", got)
		}
		check("k8s:enc:secretbox:v1:two:", true)

		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if got := logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no such file") {
			t.Errorf("without a file: %s", got)
		}
		check("k8s:enc:secretbox:v1:two:", true)

		for _, loses := range []string{"secrets: aescbc/one", "secrets: secretbox/two=other aescbc/one", "secrets: secretbox/two; configmaps: aescbc/one"} {
			write(configOf(strings.Split(loses, "; ")...))
			if got := logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "could no longer be read") {
				t.Errorf("after a change that cannot decrypt earlier writes, %s: %s", loses, got)
			}
			check("k8s:enc:secretbox:v1:two:", true)
		}

		if at := c.Changed(); at != changed {
			t.Errorf("changed at %v by invalid files", at)
		}

		write(configOf("secrets: aescbc/one=other aescbc/one secretbox/two"))
		if got := logged(); !strings.Contains(got, "level=INFO") || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "more than one aescbc key") {
			t.Errorf("after a dubious change: %s", got)
		}
		check("k8s:enc:aescbc:v1:one:", true)

		write("")
		if got := logged(); !strings.Contains(got, "the file is empty") {
			t.Errorf("after the file was emptied: %s", got)
		}
		write(configOf("secrets: aescbc/one=other aescbc/one secretbox/two"))
		if got := logged(); got != "" {
			t.Errorf("with the active configuration: %s", got)
		}

		cancel()
		running.Wait()
	})
}

// TestReloadMeanwhile seals and opens objects while the file changes.
func TestReloadMeanwhile(t *testing.T) {
	texts := []string{configOf("secrets: aesgcm/one secretbox/two"), configOf("secrets: secretbox/two aesgcm/one")}
	c, err := loadFile(t, file(t, texts[0]))
	if err != nil {
		t.Fatal(err)
	}
	raw := objectOf(secret, "value")
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 200 {
				stored, err := c.Seal(secret, raw)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, err := c.Open(secret, stored); err != nil || !bytes.Equal(got, raw) {
					t.Errorf("opened %q, %v", got, err)
					return
				}
			}
		})
	}
	for i := range 20 {
		if err := os.WriteFile(c.file, []byte(texts[(i+1)%2]), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := c.source.Refresh(t.Context()); !changed || err != nil {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	running.Wait()
}
