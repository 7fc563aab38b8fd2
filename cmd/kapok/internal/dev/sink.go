package dev

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Sink shows what Run does. Its methods must not block for long, and are safe for concurrent use.
// Names, events and the lines of the operator come from others: a Sink that draws on a terminal
// removes control sequences.
type Sink interface {
	// Print shows lines of text, which have no line ends and stay together, with a label of where they
	// are from: "operator", "event", "error" or a step such as "build". The Sink owns the slice.
	Print(label string, lines []string)
	// Report replaces the status. One goroutine calls it.
	Report(Status)
	// Samples replaces the list of the samples that are on the server. One goroutine calls it.
	Samples([]Sample)
}

// FieldManager is the manager of the fields of all objects that Run applies.
const FieldManager = string(owner)

// Status is the state of a run.
type Status struct {
	// Step is the step that runs, such as "building". "" while Run waits for a change.
	Step string
	// Error is the error of the last step. "" if it succeeded.
	Error string
	// Since is when the operator that runs was started. The zero time if none runs.
	Since time.Time
	// Ended is how the last operator has ended, such as "exit status 2". "" if none has, or another
	// one runs.
	Ended string
}

// A Sample identifies an object of the samples. Namespace is "" for kinds of the whole cluster.
type Sample struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// report changes the status, and shows it.
func (d *dev) report(change func(*Status)) {
	change(&d.status)
	d.lines.to.Report(d.status)
}

// begins shows the step that begins.
func (d *dev) begins(step string) { d.report(func(s *Status) { s.Step = step }) }

// reportSamples shows which samples the server has.
func (d *dev) reportSamples() {
	all := make([]Sample, 0, len(d.samples))
	for _, key := range slices.Sorted(maps.Keys(d.samples)) {
		u := d.samples[key]
		all = append(all, Sample{u.GroupVersionKind(), u.GetNamespace(), u.GetName()})
	}
	d.lines.to.Samples(all)
}
