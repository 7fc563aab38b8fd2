package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows how far a task is, and how long it still takes. It shows nothing in the first two
// seconds. Its methods must not be called concurrently; a nil progress shows nothing.
type progress struct {
	title string
	unit  func(n int64) string // an amount in words
	now   func() time.Time
	every time.Duration // between two lines
	first time.Duration // before the first line
	line  func(text string)
	clear func() // takes the line off a terminal

	begun, next time.Time
	shown       bool
}

// newProgress returns a progress that shows itself on a terminal in a line that changes, and
// elsewhere in a line every ten seconds, by log.
func newProgress(out io.Writer, title string, unit func(int64) string, log func(text string)) *progress {
	p := &progress{title: title, unit: unit, now: time.Now, every: 10 * time.Second, first: 10 * time.Second, line: log, clear: func() {}}
	if isTerminal(out) && os.Getenv("TERM") != "dumb" {
		p.onTerminal(out)
	}
	p.begun = p.now()
	p.next = p.begun.Add(p.first)
	return p
}

// linesOf is newProgress for a command, whose lines are on its standard error.
func linesOf(stderr io.Writer, title string, unit func(int64) string) *progress {
	return newProgress(stderr, title, unit, func(text string) { fmt.Fprintln(stderr, text) })
}

// onTerminal lets the progress show itself in a line that changes. The line has no colours.
func (p *progress) onTerminal(out io.Writer) {
	p.every, p.first = 200*time.Millisecond, 2*time.Second
	p.line = func(text string) { fmt.Fprintf(out, "\r%s\x1b[K", text) }
	p.clear = func() { fmt.Fprint(out, "\r\x1b[K") }
}

// report says that so much is done of a total; a total of 0 is unknown.
func (p *progress) report(done, total int64) {
	if p == nil {
		return
	}
	now := p.now()
	if now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(p.every), true
	p.line(p.text(done, total, now.Sub(p.begun)))
}

func (p *progress) text(done, total int64, took time.Duration) string {
	if total <= 0 || done <= 0 || done > total { // more than there should be: the total is no measure
		return fmt.Sprintf("%s: %s, %s so far", p.title, p.unit(done), took.Round(time.Second))
	}
	left := time.Duration(float64(took) * float64(total-done) / float64(done)).Round(time.Second)
	some, all := p.unit(done), p.unit(total)
	if number, unit, found := strings.Cut(some, " "); found && strings.HasSuffix(all, " "+unit) {
		some = number // 3 of 4 objects
	}
	return fmt.Sprintf("%s: %s of %s, %d%%, %s left", p.title, some, all, 100*done/total, left)
}

// end takes the line off the terminal. What follows is printed in its place.
func (p *progress) end() {
	if p != nil && p.shown {
		p.clear()
	}
}

// counted is a reader that reports the bytes that it has read to a progress.
type counted struct {
	io.Reader
	progress *progress
	total    int64 // 0 if it is unknown
	read     int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += int64(n)
	c.progress.report(c.read, c.total)
	return n, err
}

// objects is an amount of objects.
func objects(n int64) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// writes is an amount of writes.
func writes(n int64) string {
	if n == 1 {
		return "1 write"
	}
	return fmt.Sprintf("%d writes", n)
}
