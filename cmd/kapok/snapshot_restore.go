package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/spf13/cobra"
)

// restore is the command line of kapok snapshot restore.
type restore struct {
	dataDir    string
	encryption string
	bump       int64
}

func newSnapshotRestore() *cobra.Command {
	r := &restore{}
	c := &cobra.Command{
		Use:   "restore FILE --data-dir DIR",
		Short: "Create a data directory from a snapshot",
		Long: `Create a data directory from a snapshot.

The directory is created if it is missing, and must not contain a store. All objects
keep their resourceVersions. New ones begin far above, so that clients that have seen a
later resourceVersion than that of the snapshot get 410 Gone and list again, instead of
taking old objects for new.`,
		Example: `  kapok snapshot restore backup.snapshot --data-dir ./restored
  kapok up --data-dir ./restored`,
		Args: oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case r.dataDir == "":
				return errors.New("--data-dir is required: set the directory to restore to")
			case r.bump < 0:
				return fmt.Errorf("--bump-revision %d must not be negative", r.bump)
			case c.Flags().Changed("encryption-provider-config") && r.encryption == "":
				return errors.New("--encryption-provider-config must not be empty")
			}
			ctx, release := interruptible(c.Context())
			defer release()
			return failed(r.run(ctx, args[0], c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	f := c.Flags()
	f.StringVar(&r.dataDir, "data-dir", "", "directory to restore to; required")
	f.Int64Var(&r.bump, "bump-revision", 1_000_000_000, "distance from the snapshot's revision to the first new one: at least the number of writes since the snapshot")
	f.StringVar(&r.encryption, "encryption-provider-config", "", "file with the EncryptionConfiguration for the restored objects")
	return c
}

func (r *restore) run(ctx context.Context, file string, stdout, stderr io.Writer) error {
	shown := linesOf(stderr, "Restoring", size)
	f, snap, err := openSnapshot(file, shown)
	if err != nil {
		return err
	}
	defer f.Close()
	header := snap.Header()
	if int64(header.Revision) > math.MaxInt64/2-r.bump {
		return fmt.Errorf("--bump-revision %d is too large for a snapshot of revision %d", r.bump, header.Revision)
	}
	if err := checkDirectory("data directory", r.dataDir); err != nil {
		return err
	}
	head := header.Revision + object.Revision(r.bump)
	opts := pebble.Options{Dir: journalDir(r.dataDir), Logger: slog.New(slog.DiscardHandler)}
	var release func()
	if opts.Sealer, release, err = sealer(ctx, r.encryption); err != nil {
		return err
	}
	defer release()
	objects := 0
	counted := func(yield func(*object.Object, error) bool) {
		for o, err := range snap.Objects() {
			if err == nil {
				objects++
			}
			if !yield(o, err) {
				return
			}
		}
	}
	_, missing := os.Stat(r.dataDir)
	err = pebble.Import(ctx, opts, head, counted)
	shown.end()
	if err != nil && !errors.Is(err, journal.ErrLocked) {
		r.forget(missing == nil)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: nothing was restored")
	case errors.Is(err, journal.ErrLocked):
		return fmt.Errorf("kapok is running on data directory %s: restore to another directory", r.dataDir)
	case err != nil && holdsStore(r.dataDir):
		return fmt.Errorf("%s already contains a store: restore to another directory, or move %s away", r.dataDir, journalDir(r.dataDir))
	case err != nil:
		return fmt.Errorf("restore %s: %w", file, err)
	}
	if header.Salvaged {
		fmt.Fprintf(stderr, "Warning: the snapshot was salvaged from a damaged store: objects may be missing or old.\n")
	}
	fmt.Fprintf(stdout, "Restored %d objects of revision %d, saved %s, to %s.\n", objects, header.Revision, header.Time.Format(time.RFC3339), r.dataDir)
	fmt.Fprintf(stdout, "New resourceVersions begin above %d. Start it with:\n\n  kapok up --data-dir %s\n", head, r.dataDir)
	return nil
}

// holdsStore reports whether a data directory contains files of a journal.
func holdsStore(dataDir string) bool {
	files, err := os.ReadDir(journalDir(dataDir))
	return err == nil && slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() != "LOCK" })
}

// forget removes the empty directories that a failed import has created, unless the
// data directory existed before.
func (r *restore) forget(existed bool) {
	if existed {
		return
	}
	journal := journalDir(r.dataDir)
	for _, name := range []string{filepath.Join(journal, "LOCK"), journal, r.dataDir} {
		_ = os.Remove(name) // nothing that holds anything
	}
}
