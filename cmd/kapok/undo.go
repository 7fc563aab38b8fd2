package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/history"
	changes "github.com/kapok-dev/kapok/internal/history"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func newUndo() *cobra.Command {
	t := &objectTarget{}
	to, dryRun := "", false
	c := &cobra.Command{
		Use:   "undo KIND/NAME",
		Short: "Give an object the state that it had before",
		Long: `Give an object the state that it had before its last change, or at a resourceVersion that kapok history
lists, by a new write. The status stays as it is. An object that has been deleted is created again, with the
state that it had last. The command prints the difference as a unified diff.

The write is rejected if the object changes meanwhile.`,
		Example: `  kapok undo configmap/settings
  kapok undo deployment/web --to 1207 --dry-run`,
		Args: t.args,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.check(c, "to"); err != nil {
				return err
			}
			return failed(t.undo(c.Context(), c.OutOrStdout(), to, dryRun))
		},
	}
	t.flags(c)
	c.Flags().StringVar(&to, "to", "", "resourceVersion of the state (default the one before the last change of anything but the status)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the difference that the server would make, and do not store it")
	return c
}

func (t *objectTarget) undo(ctx context.Context, out io.Writer, to string, dryRun bool) error {
	f, err := t.find(ctx)
	if err != nil {
		return err
	}
	var old history.Revision
	switch {
	case to != "":
		old, err = revisionOf(f.past, to)
	case f.now == nil:
		old, err = lastState(f.past)
	default:
		old, err = beforeLastChange(f.past)
	}
	if err != nil {
		return err
	}
	switch {
	case old.Object == nil:
		return fmt.Errorf("revision %s cannot be read: %s", old.Version, old.Unreadable)
	case old.Event == watch.Deleted:
		return fmt.Errorf("revision %s is a deletion", old.Version)
	case f.now != nil && old.Object.GetUID() != f.now.GetUID():
		return fmt.Errorf("revision %s is of an earlier object of this name, which was deleted", old.Version)
	}
	const manager = "kapok-undo"
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	var written *unstructured.Unstructured
	from, before := "/dev/null", ""
	if f.now == nil {
		written, err = f.of.Create(ctx, history.Renewed(old.Object), metav1.CreateOptions{FieldManager: manager, DryRun: dry})
	} else {
		from, before = f.now.GetResourceVersion(), yamlOf(f.now)
		written, err = f.of.Update(ctx, history.Restored(f.now, old.Object), metav1.UpdateOptions{FieldManager: manager, DryRun: dry})
	}
	if err != nil {
		return err
	}
	name := written.GetResourceVersion()
	if dryRun {
		name = "dry run"
	}
	return writeDiff(out, from, before, name, yamlOf(written))
}

// lastState returns the newest state of an object that has been deleted.
func lastState(all []history.Revision) (history.Revision, error) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Event != watch.Deleted {
			return all[i], nil
		}
	}
	return history.Revision{}, errors.New("the server knows only that the object has been deleted")
}

// beforeLastChange returns the newest revision that differs from the last one in more than its
// status.
func beforeLastChange(all []history.Revision) (history.Revision, error) {
	last := all[len(all)-1]
	for i := len(all) - 2; i >= 0 && last.Object != nil; i-- {
		if all[i].Object == nil {
			continue
		}
		if all[i].Event == watch.Deleted || all[i].Object.GetUID() != last.Object.GetUID() {
			break
		}
		for _, path := range changes.Changed(all[i].Object.Object, last.Object.Object) {
			if path != "status" && !strings.HasPrefix(path, "status.") {
				return all[i], nil
			}
		}
	}
	return history.Revision{}, errors.New("the server has no other state of the object: kapok history lists what it has")
}
