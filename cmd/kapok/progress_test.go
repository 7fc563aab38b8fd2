package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// clock is a clock that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func (c *clock) pass(d time.Duration) { c.Time = c.Add(d) }

// TestProgress reports once a second, and looks at what is shown where.
func TestProgress(t *testing.T) {
	run := func(p *progress, c *clock, steps, total int64) {
		p.now, p.begun = c.now, c.Time
		p.next, p.shown = p.begun.Add(p.first), false
		for done := range steps {
			c.pass(time.Second)
			p.report(done+1, total)
		}
		p.end()
	}
	var lines []string
	p := newProgress(io.Discard, "Reading", objects, func(text string) { lines = append(lines, text) })
	run(p, &clock{time.Unix(0, 0)}, 25, 100)
	if want := []string{"Reading: 10 of 100 objects, 10%, 1m30s left", "Reading: 20 of 100 objects, 20%, 1m20s left"}; !slices.Equal(lines, want) {
		t.Errorf("elsewhere than on a terminal: %q, want %q", lines, want)
	}
	lines = nil
	run(p, &clock{time.Unix(0, 0)}, 9, 100)
	if lines != nil {
		t.Errorf("a short task shows %q", lines)
	}

	var screen bytes.Buffer
	p = newProgress(io.Discard, "Saving", size, nil)
	p.onTerminal(&screen)
	run(p, &clock{time.Unix(0, 0)}, 3, 4)
	if got, want := screen.String(), "\rSaving: 2 of 4 bytes, 50%, 2s left\x1b[K\rSaving: 3 of 4 bytes, 75%, 1s left\x1b[K\r\x1b[K"; got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	screen.Reset()
	run(p, &clock{time.Unix(0, 0)}, 1, 4)
	if screen.Len() > 0 {
		t.Errorf("a short task on a terminal: %q", &screen)
	}

	if got := p.text(1<<20, 1<<31, time.Second); !strings.HasPrefix(got, "Saving: 1.0 MiB of 2.0 GiB, 0%") {
		t.Errorf("units that differ: %q", got)
	}
	for _, total := range []int64{0, -1, 2} { // unknown, or less than there is
		if got := p.text(3, total, 5*time.Second); got != "Saving: 3 bytes, 5s so far" {
			t.Errorf("3 of %d: %q", total, got)
		}
	}
	var none *progress
	none.report(1, 2)
	none.end()
}

// TestCounted checks that a reader reports what it has read.
func TestCounted(t *testing.T) {
	var last string
	p := newProgress(io.Discard, "Reading", size, func(text string) { last = text })
	p.next = time.Time{}
	c := &counted{Reader: strings.NewReader("abcd"), progress: p, total: 8}
	if data, err := io.ReadAll(c); err != nil || string(data) != "abcd" || !strings.HasPrefix(last, "Reading: 4 of 8 bytes, 50%") {
		t.Errorf("%q, %v, %q", data, err, last)
	}
}
