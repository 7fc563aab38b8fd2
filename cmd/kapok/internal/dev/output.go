package dev

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// width is that of the longest label.
const width = 8

// plain is a Sink that writes lines with their labels.
type plain struct {
	mu sync.Mutex
	to io.Writer
}

// Plain returns a Sink that writes each line with its label to a writer, and nothing else.
func Plain(to io.Writer) Sink { return &plain{to: to} }

func (p *plain) Print(label string, lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range lines {
		fmt.Fprintf(p.to, "%-*s | %s\n", width, label, line)
	}
}

func (*plain) Report(Status)    {}
func (*plain) Samples([]Sample) {}

// output splits texts into the lines of a Sink.
type output struct{ to Sink }

// printf writes a text, each of its lines with the label.
func (o *output) printf(label, format string, args ...any) {
	o.write(label, fmt.Appendf(nil, format, args...))
}

func (o *output) write(label string, text []byte) {
	var all []string
	for line := range bytes.Lines(text) {
		all = append(all, string(bytes.TrimRight(line, "\r\n")))
	}
	if len(all) > 0 {
		o.to.Print(label, all)
	}
}

// of returns a writer that writes each line with a label when the line ends, and the rest by flush.
func (o *output) of(label string) *lines { return &lines{output: o, label: label} }

// Writer returns a writer that prints lines with a label to a Sink. It is for one goroutine at a
// time.
func Writer(to Sink, label string) io.Writer { return (&output{to: to}).of(label) }

// lines belongs to one process: its writes come one after the other.
type lines struct {
	output *output
	label  string
	rest   []byte
}

// longest is the length of a line in bytes beyond which it is written in parts.
const longest = 64 << 10

func (l *lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if len(l.rest) > longest {
		end = len(l.rest)
	}
	if end > 0 {
		l.output.write(l.label, l.rest[:end])
		l.rest = append(l.rest[:0], l.rest[end:]...)
	}
	return len(data), nil
}

func (l *lines) flush() {
	l.output.write(l.label, l.rest)
	l.rest = nil
}
