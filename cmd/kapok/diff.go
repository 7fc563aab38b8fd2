package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/history"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

func newDiff() *cobra.Command {
	t := &objectTarget{}
	from, to := "", ""
	c := &cobra.Command{
		Use:   "diff KIND/NAME",
		Short: "Compare two revisions of an object",
		Long: `Compare two revisions of an object, which kapok history lists, and print the difference as a unified diff in
YAML, without managed fields. The object may have been deleted.`,
		Example: `  kapok diff deployment/web
  kapok diff deployment/web --from 1207
  kapok diff deployment/web --from 1207 --to 1302`,
		Args: t.args,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.check(c, "from", "to"); err != nil {
				return err
			}
			return failed(t.diff(c.Context(), c.OutOrStdout(), from, to))
		},
	}
	t.flags(c)
	c.Flags().StringVar(&from, "from", "", "resourceVersion of the old state (default the one before --to)")
	c.Flags().StringVar(&to, "to", "", "resourceVersion of the new state (default the newest)")
	return c
}

func (t *objectTarget) diff(ctx context.Context, out io.Writer, from, to string) error {
	f, err := t.find(ctx)
	if err != nil {
		return err
	}
	last := len(f.past) - 1
	if to != "" {
		if last, err = indexOf(f.past, to); err != nil {
			return err
		}
	}
	first := last - 1
	if from != "" {
		if first, err = indexOf(f.past, from); err != nil {
			return err
		}
	}
	if first < 0 && f.past[last].Event == "" { // it was not created by this write
		return errors.New("the server has no earlier state of the object: kapok history lists what it has")
	}
	before, name := "", "/dev/null"
	if first >= 0 {
		if before, err = stateOf(f.past[first]); err != nil {
			return err
		}
		name = f.past[first].Version
	}
	after, err := stateOf(f.past[last])
	if err != nil {
		return err
	}
	return writeDiff(out, name, before, f.past[last].Version, after)
}

// stateOf returns an object as a revision has left it, in YAML: "" if it was deleted.
func stateOf(r history.Revision) (string, error) {
	switch {
	case r.Event == watch.Deleted:
		return "", nil
	case r.Object == nil:
		return "", fmt.Errorf("revision %s cannot be read: %s", r.Version, r.Unreadable)
	}
	return yamlOf(r.Object), nil
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
