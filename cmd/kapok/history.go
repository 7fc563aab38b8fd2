package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/history"
	changes "github.com/kapok-dev/kapok/internal/history"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func newHistory() *cobra.Command {
	t := &objectTarget{}
	revision, diffs := "", false
	c := &cobra.Command{
		Use:   "history KIND/NAME",
		Short: "List the revisions of an object that the server still has",
		Long: `List the revisions of an object that the server still has: their resourceVersions, the field managers that
made them, and what they changed. The object may have been deleted.

Kapok keeps the history of five minutes by default (kapok up --history-age), and of chosen objects longer
(kapok up --archive). From a server without history.kapok.dev, such as kube-apiserver, the command reads
what watches of older resourceVersions return.`,
		Example: `  kapok history deployment/web
  kapok history deployment/web --diff
  kapok history deployment/web --revision 1207`,
		Args: t.args,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.check(c, "revision"); err != nil {
				return err
			}
			return failed(t.history(c.Context(), c.OutOrStdout(), revision, diffs))
		},
	}
	t.flags(c)
	c.Flags().StringVar(&revision, "revision", "", "print the object at this resourceVersion, in YAML")
	c.Flags().BoolVar(&diffs, "diff", false, "print what each revision changed, as unified diffs in YAML")
	exclude(c, "revision", "diff")
	return c
}

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

// objectTarget is the command line of a command about one object.
type objectTarget struct {
	server why // its flags
	kind   string
	name   string
}

// args takes the argument KIND/NAME.
func (t *objectTarget) args(_ *cobra.Command, args []string) (err error) {
	t.kind, t.name, err = kindAndName(args)
	return err
}

func (t *objectTarget) flags(c *cobra.Command) { t.server.flags(c) }

func (t *objectTarget) check(c *cobra.Command, more ...string) error {
	return notEmpty(c, append(more, serverFlags...)...)
}

// A found is an object and its revisions.
type found struct {
	of   dynamic.ResourceInterface  // its resource and namespace
	now  *unstructured.Unstructured // nil if it does not exist any more
	past []history.Revision         // the oldest first; the last one is the object, or its deletion
}

// find reads an object and its revisions.
func (t *objectTarget) find(ctx context.Context) (*found, error) {
	config, namespace, err := t.server.config()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	gvk, namespaced, err := kindNamed(c, resources, t.kind)
	if err != nil {
		return nil, err
	}
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	f := &found{of: all.Resource(mapping.Resource)}
	if namespaced {
		f.of = all.Resource(mapping.Resource).Namespace(namespace)
	} else {
		namespace = ""
	}
	missing := error(nil)
	if f.now, err = f.of.Get(ctx, t.name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		f.now, missing = nil, err
	} else if err != nil {
		return nil, err
	}
	var served bool
	f.past, served, err = history.Ask(ctx, all, mapping.Resource, namespace, t.name)
	if err == nil && !served && missing == nil {
		f.past, err = history.Of(ctx, f.of, f.now)
	}
	switch {
	case err != nil:
		return nil, err
	case len(f.past) > 0:
		return f, nil
	case missing != nil:
		return nil, missing
	}
	return nil, errors.New("the server has no revision of the object")
}

func (t *objectTarget) history(ctx context.Context, out io.Writer, revision string, diffs bool) error {
	f, err := t.find(ctx)
	if err != nil {
		return err
	}
	switch {
	case revision != "":
		r, err := revisionOf(f.past, revision)
		if err != nil {
			return err
		}
		if r.Object == nil {
			return fmt.Errorf("revision %s cannot be read: %s", revision, r.Unreadable)
		}
		_, err = io.WriteString(out, yamlOf(r.Object))
		return err
	case diffs:
		return writeDiffs(out, f.past)
	}
	return writeRevisions(out, f.past, time.Now())
}

// revisionOf returns the revision with a resourceVersion.
func revisionOf(all []history.Revision, version string) (history.Revision, error) {
	for _, r := range all {
		if r.Version == version {
			return r, nil
		}
	}
	return history.Revision{}, fmt.Errorf("the server has no revision %s of the object: the oldest is %s", version, all[0].Version)
}

func writeRevisions(out io.Writer, all []history.Revision, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "REVISION\tAGE\tMANAGER\tCHANGE")
	for _, r := range all {
		age := ""
		if !r.Time.IsZero() {
			age = duration.HumanDuration(now.Sub(r.Time))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Version, age, strings.Join(r.Managers, ","), changeOf(r))
	}
	return w.Flush()
}

// changeOf says in one line what a revision has changed.
func changeOf(r history.Revision) string {
	change := changes.Updated
	switch r.Event {
	case "":
		change = changes.Earliest
	case watch.Added:
		change = changes.Created
	case watch.Deleted:
		change = changes.Deleted
	}
	return (&changes.Revision{Change: change, Fields: r.Paths, Message: r.Unreadable}).Summary()
}

func writeDiffs(out io.Writer, all []history.Revision) error {
	before := ""
	for i, r := range all {
		now := ""
		if r.Event != watch.Deleted && r.Object != nil {
			now = yamlOf(r.Object)
		}
		from := "/dev/null"
		if i > 0 {
			from = all[i-1].Version
		}
		if err := writeDiff(out, from, before, r.Version, now); err != nil {
			return err
		}
		before = now
	}
	return nil
}

func writeDiff(out io.Writer, from, before, to, after string) error {
	return difflib.WriteUnifiedDiff(out, difflib.UnifiedDiff{
		A: difflib.SplitLines(before), FromFile: from, B: difflib.SplitLines(after), ToFile: to, Context: 3,
	})
}

// yamlOf returns an object without its managed fields, in YAML.
func yamlOf(o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	text, _ := yaml.Marshal(o.Object) // a tree of JSON
	return string(text)
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
