package dev

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// width is that of the longest label.
const width = 8

// output writes lines with a label of where they are from. It is safe for concurrent use.
type output struct {
	mu sync.Mutex
	to io.Writer
}

// printf writes a text, each of its lines with the label.
func (o *output) printf(label, format string, args ...any) {
	o.write(label, fmt.Appendf(nil, format, args...))
}

func (o *output) write(label string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range bytes.Lines(text) {
		fmt.Fprintf(o.to, "%-*s | %s\n", width, label, bytes.TrimRight(line, "\r\n"))
	}
}

// of returns a writer that writes each line with a label when the line ends, and the rest by flush.
func (o *output) of(label string) *lines { return &lines{output: o, label: label} }

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
