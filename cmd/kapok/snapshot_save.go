package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kapok-dev/kapok/internal/doctor"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/snapshot"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/net"
)

// kubernetesVersion is the version recorded in the snapshot of a stopped server.
const kubernetesVersion = "v1.37"

// save is the command line of kapok snapshot save.
type save struct {
	reach
	salvage bool
}

func newSnapshotSave() *cobra.Command {
	s := &save{}
	c := &cobra.Command{
		Use:   "save FILE",
		Short: "Save all objects of a running or stopped server to a file",
		Long: `Save all objects of a running or stopped server to a file.

A running server continues to serve requests: the file contains all objects at one
revision. When the file exists, it is complete and verified. It replaces an older file
of the same name, and only its owner can read it.

With --salvage, the readable objects in the damaged store of a stopped server are saved,
and the unreadable ones are listed.`,
		Example: `  kapok snapshot save backup.snapshot
  kapok snapshot save backup.snapshot --kubeconfig ./kubeconfig
  kapok snapshot save backup.snapshot --data-dir /var/lib/kapok
  kapok snapshot save rest.snapshot --data-dir /var/lib/kapok --salvage`,
		Args: oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.check(c); err != nil {
				return err
			}
			if s.salvage && s.dataDir == "" {
				return errors.New("--salvage requires a stopped server: set --data-dir")
			}
			ctx, restore := interruptible(c.Context())
			defer restore()
			return failed(s.run(ctx, args[0], c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	s.flags(c)
	c.Flags().BoolVar(&s.salvage, "salvage", false, "save the readable objects of a damaged store")
	return c
}

func (s *save) run(ctx context.Context, file string, stdout, stderr io.Writer) error {
	write := s.fromServer
	switch {
	case s.salvage:
		write = s.fromWreck
	case s.dataDir != "":
		write = s.fromDirectory
	}
	summary, err := snapshot.WriteFile(file, func(w io.Writer) error { return write(ctx, w, stderr) })
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: nothing was saved")
	case err != nil:
		return err
	}
	fmt.Fprintf(stdout, "Saved %d objects of revision %d to %s.\n", summary.Objects, summary.Revision, file)
	return nil
}

func (s *save) fromServer(ctx context.Context, w, stderr io.Writer) error {
	answer, err := s.get(ctx, "/kapok/v1/snapshot")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	warnings, _ := net.ParseWarningHeaders(answer.Header.Values("Warning")) // malformed ones are ignored
	for _, warning := range warnings {
		fmt.Fprintf(stderr, "Warning: %s\n", warning.Text)
	}
	shown := linesOf(stderr, "Saving", size)
	_, err = io.Copy(w, &counted{Reader: answer.Body, progress: shown})
	shown.end()
	if err != nil {
		return fmt.Errorf("the server ended the response early: %w", err)
	}
	return nil
}

func (s *save) fromDirectory(ctx context.Context, w, stderr io.Writer) error {
	return s.open(ctx, stderr, func(st *state.State) error {
		revision, objects := snapshot.Of(st)
		return snapshot.Write(w, snapshot.Header{Revision: revision, Time: time.Now().UTC(), Kubernetes: kubernetesVersion}, objects)
	})
}

// fromWreck saves the readable objects of a store that may be damaged, and lists the
// unreadable ones.
func (s *save) fromWreck(ctx context.Context, w, stderr io.Writer) error {
	opts, release, err := s.options(ctx)
	if err != nil {
		return err
	}
	defer release()
	shown := linesOf(stderr, "Reading the files", writes)
	opts.Progress = shown.report
	var objects []*object.Object
	found, err := pebble.Salvage(ctx, opts, func(o *object.Object) error {
		objects = append(objects, o)
		return nil
	})
	shown.end()
	if err != nil {
		return s.explain(err)
	}
	report := &doctor.Report{}
	if report.AddAll(found.Problems); !report.Healthy() {
		fmt.Fprintf(stderr, "Unreadable or missing data:\n\n")
		printProblems(stderr, report)
	}
	if len(objects) == 0 && !report.Healthy() {
		return fmt.Errorf("no object in the store in %s can be read", s.dataDir)
	}
	header := snapshot.Header{
		Revision: found.Head, Time: time.Now().UTC(), Kubernetes: kubernetesVersion,
		Salvaged: !report.Healthy(),
	}
	return snapshot.Write(w, header, snapshot.Sorted(objects))
}
