package bench

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteTable writes the report as a table.
func (r *Report) WriteTable(w io.Writer) error {
	out := &bytes.Buffer{}
	connections := "one connection"
	if r.Load.OwnConnections {
		connections = "a connection for each worker"
	}
	fmt.Fprintf(out, "server   %s, %s\n", r.Server.Version, r.Server.Address)
	fmt.Fprintf(out, "machine  %d cores, %s/%s, %s, load %.2f, %s\n", r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.Go,
		r.Machine.LoadAverage, r.Time.UTC().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(out, "load     %s, %v a measure, objects of %d bytes with a schema of %d fields, %s\n", r.Load.Scale,
		time.Duration(r.Load.DurationSeconds*float64(time.Second)), r.Load.ObjectBytes, r.Load.SchemaFields, connections)
	if r.FsyncUs > 0 {
		fmt.Fprintf(out, "fsync    %.2f ms\n", r.FsyncUs/1000)
	}
	if len(r.Measures) > 0 {
		r.writeMeasures(out)
	}
	if len(r.Memory) > 0 {
		r.writeMemory(out)
	}
	for i, note := range r.notes() {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s\n", note)
	}
	_, err := out.WriteTo(w)
	return err
}

// writeMeasures writes the measures, without columns that have no figures.
func (r *Report) writeMeasures(out io.Writer) {
	var cpu bool
	for _, m := range r.Measures {
		cpu = cpu || m.CPUUs > 0
	}
	head := []string{"MEASURE", "COUNT", "SECONDS", "RATE/S", "P50 MS", "P99 MS"}
	if r.FsyncUs > 0 {
		head = append(head, "P50 FSYNCS", "P99 FSYNCS")
	}
	if cpu {
		head = append(head, "CPU US")
	}
	t := table{head}
	for _, m := range r.Measures {
		if m.Error != "" {
			t.row(m.Title, "failed")
			continue
		}
		var p50, p99, p50Fsyncs, p99Fsyncs string
		if l := m.Latency; l != nil {
			p50, p99 = number(l.P50Us/1000), number(l.P99Us/1000)
			p50Fsyncs, p99Fsyncs = known(l.P50Fsyncs), known(l.P99Fsyncs)
		}
		row := []string{m.Title, fmt.Sprint(m.Operations), number(m.Seconds), number(m.Rate), p50, p99}
		if r.FsyncUs > 0 {
			row = append(row, p50Fsyncs, p99Fsyncs)
		}
		if cpu {
			row = append(row, known(m.CPUUs))
		}
		t.row(row...)
	}
	t.write(out)
}

func (r *Report) writeMemory(out io.Writer) {
	t := table{{"MEMORY", "RSSANON MB", "RSSFILE MB"}}
	for _, m := range r.Memory {
		t.row(m.Title, number(float64(m.RssAnon)/1e6), number(float64(m.RssFiles)/1e6))
	}
	t.write(out)
}

// notes returns the notes of the report and of its measures.
func (r *Report) notes() []string {
	notes := slices.Clone(r.Notes)
	for _, m := range r.Measures {
		if m.Waited > 0 {
			notes = append(notes, fmt.Sprintf("%s: the server responded %d times with 429 Too Many Requests", m.Title, m.Waited))
		}
		if m.Error != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", m.Title, m.Error))
		}
	}
	return notes
}

// A table aligns its first column left, all others right.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t table) write(out io.Writer) {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	fmt.Fprintln(out)
	for _, row := range t {
		line := fmt.Sprintf("%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("   %*s", widths[i+1], cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// number formats a number with three significant digits; whole numbers keep all of theirs.
func number(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 1:
		return fmt.Sprintf("%.3f", n)
	case n < 10:
		return fmt.Sprintf("%.2f", n)
	case n < 100:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// known formats a number, or returns "" for zero, which means unknown.
func known(n float64) string {
	if n == 0 {
		return ""
	}
	return number(n)
}
