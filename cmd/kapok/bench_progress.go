package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/bench"
)

// progressLine shows how far a run is: on a terminal, in a line that changes;
// elsewhere, in a line for each step.
type progressLine struct {
	out      io.Writer
	terminal bool
	begin    time.Time
}

func (l *progressLine) show(p bench.Progress) {
	line := fmt.Sprintf("[%*d/%d] %4ds  %s", len(fmt.Sprint(p.Steps)), p.Step, p.Steps, int(time.Since(l.begin).Seconds()), p.Title)
	switch {
	case l.terminal:
		// From the left margin, and the rest of the line cleared.
		fmt.Fprintf(l.out, "\r%s %3.0f%%\x1b[K", line, 100*p.Done)
	case p.Done == 0:
		fmt.Fprintln(l.out, line)
	}
}

// clear takes the line off the terminal.
func (l *progressLine) clear() {
	if l.terminal {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}

// isTerminal reports whether a writer is a terminal, judging by its kind of file.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
