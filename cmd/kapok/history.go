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

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
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
	i, err := indexOf(all, version)
	if err != nil {
		return history.Revision{}, err
	}
	return all[i], nil
}

func indexOf(all []history.Revision, version string) (int, error) {
	for i, r := range all {
		if r.Version == version {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the server has no revision %s of the object: the oldest is %s", version, all[0].Version)
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
