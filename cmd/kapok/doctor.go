package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kapok-dev/kapok/internal/doctor"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/spf13/cobra"
)

// examine is the command line of kapok doctor.
type examine struct {
	reach
	as output
}

func newDoctor() *cobra.Command {
	e := &examine{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the store and the credentials of a running or stopped server",
		Long: `Examine the store and the credentials of a running or stopped server.

It reads everything that is stored, and checks that every object is readable and
belongs to its key, that the indices match the objects, and that the journal matches
the state of the server. It also checks each certificate, key and token in pki: that
it can be parsed, that keys match their certificates, that certificates are valid, and
that other users of the machine have no access. Nothing is changed. The exit code is 1
if there are problems.`,
		Example: `  kapok doctor
  kapok doctor --data-dir /var/lib/kapok -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.check(c); err != nil {
				return err
			}
			ctx, release := interruptible(c.Context())
			defer release()
			return failed(e.run(ctx, c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	e.flags(c)
	e.as.flag(c)
	return c
}

func (e *examine) run(ctx context.Context, stdout, stderr io.Writer) error {
	ask := e.askServer
	if e.dataDir != "" {
		ask = func(ctx context.Context) (*doctor.Report, error) { return e.lookInto(ctx, stderr) }
	}
	report, err := ask(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	if e.as == asJSON {
		err = printJSON(stdout, report)
	} else {
		err = e.print(stdout, report)
	}
	if err == nil && !report.Healthy() {
		err = fmt.Errorf("the store has problems: %d", len(report.Problems)+report.More)
	}
	return err
}

func (e *examine) askServer(ctx context.Context) (*doctor.Report, error) {
	answer, err := e.get(ctx, "/kapok/v1/doctor")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	report := &doctor.Report{}
	if err := json.NewDecoder(answer.Body).Decode(report); err != nil {
		return nil, fmt.Errorf("decode the server's report: %w", err)
	}
	return report, nil
}

// lookInto examines the store of a stopped server. Its files are read a second
// time, one by one, for a comparison; if damage keeps the store from being
// opened, the report has the results of that.
func (e *examine) lookInto(ctx context.Context, stderr io.Writer) (*doctor.Report, error) {
	var (
		report *doctor.Report
		opened *state.State
		damage *journal.DamagedError
	)
	err := e.open(ctx, stderr, func(st *state.State) (err error) {
		opened = st
		report, err = doctor.Examine(ctx, st)
		return err
	})
	if err != nil && !errors.As(err, &damage) {
		return nil, err
	}
	opts, release, err := e.options(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	shown := linesOf(stderr, "Comparing the files", writes)
	opts.Progress = shown.report
	var found pebble.Salvaged
	read := func(yield func(*object.Object) error) error {
		found, err = pebble.Salvage(ctx, opts, yield)
		shown.end()
		return e.explain(err)
	}
	if damage == nil {
		err = doctor.Compare(report, opened, read)
	} else {
		err = read(func(*object.Object) error { return nil })
		report = &doctor.Report{Revision: found.Head, Objects: found.Objects}
		report.Add(doctor.Problem{Text: damage.Error()})
	}
	report.AddAll(found.Problems)
	for _, ailment := range pki.Examine(e.dataDir, time.Now()) {
		report.Add(doctor.Problem{Text: ailment})
	}
	return report, err
}

func (e *examine) print(w io.Writer, r *doctor.Report) error {
	fmt.Fprintf(w, "revision   %d\n", r.Revision)
	fmt.Fprintf(w, "objects    %d\n", r.Objects)
	if r.Records > 0 {
		fmt.Fprintf(w, "journal    %d records, %s, history after revision %d\n", r.Records, size(r.Bytes), r.Compacted)
	}
	if r.Archived > 0 {
		fmt.Fprintf(w, "archive    %d revisions, %s\n", r.Archived, size(r.ArchivedBytes))
	}
	if r.Healthy() {
		_, err := fmt.Fprintf(w, "problems   none\n")
		return err
	}
	fmt.Fprintf(w, "problems   %d\n\n", len(r.Problems)+r.More)
	return printProblems(w, r)
}

func printProblems(w io.Writer, r *doctor.Report) error {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  %s\n", p)
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %d more\n", r.More)
	}
	_, err := fmt.Fprintln(w)
	return err
}
