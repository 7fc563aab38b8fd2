package roles

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// An Aggregator writes the rules of cluster roles with an aggregationRule.
type Aggregator struct {
	store *resource.Store
	log   *slog.Logger
	feed  *state.Feed

	stop func()
	done sync.WaitGroup
}

// Start processes all cluster roles once, and then follows their changes until Close.
func Start(ctx context.Context, store *resource.Store, log *slog.Logger) *Aggregator {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &Aggregator{store: store, log: log, stop: cancel}
	a.feed = store.State().Feed(func(e *state.Event) bool { return e.Last().Key.Resource == clusterRoles })
	a.done.Go(func() {
		defer a.feed.Close()
		a.run(ctx)
	})
	return a
}

// Close ends the goroutine and waits for it.
func (a *Aggregator) Close() {
	a.stop()
	a.done.Wait()
}

func (a *Aggregator) run(ctx context.Context) {
	const again = time.Second // pause after a failed write
	for {
		var retry <-chan time.Time
		if !a.settle(ctx) {
			retry = time.After(again)
		}
		events, changed := a.feed.Take()
		if len(events) > 0 {
			continue
		}
		select {
		case <-changed:
			a.feed.Take() // events so far are covered by the scan
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// settle writes the rules of all aggregated roles that differ. It returns false if it must be
// called again after an error; its own writes cause events that call it again.
func (a *Aggregator) settle(ctx context.Context) bool {
	all := map[string]*candidate{}
	gathering := map[string]*rbacv1.ClusterRole{}
	for o := range a.store.State().Snapshot(clusterRoles).All("") {
		load := func() resource.Tree {
			tree, _ := o.Tree() // an unreadable role contributes no rules
			return tree
		}
		all[o.Key.Name] = &candidate{labels: maps.Collect(o.Meta.Labels.All()), load: load}
		if bytes.Contains(o.Raw, []byte(`"aggregationRule":{`)) {
			gathering[o.Key.Name] = decode(load())
		}
	}
	settled := true
	for _, name := range slices.Sorted(maps.Keys(gathering)) {
		rules, ok := gather(name, gathering[name], all)
		if !ok {
			continue
		}
		if err := a.apply(ctx, name, rules); err != nil && ctx.Err() == nil {
			a.log.Warn("cannot write the rules of an aggregated role", "role", name, "err", err)
			settled = false
		}
	}
	return settled
}

// apply writes the rules of a role with server-side apply.
func (a *Aggregator) apply(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	d := a.store.Registry().Load().Resource(clusterRoles)
	r := &resource.Request{
		Definition: d, Version: d.Storage, Name: name, Manager: aggregatorManager,
		FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
	tree := resource.Tree{"apiVersion": d.APIVersion(d.Storage), "kind": d.Kind, "metadata": resource.Tree{"name": name}}
	if len(rules) > 0 { // a role that has lost all its rules has no field rules
		tree["rules"] = untyped(rules)
	}
	body, err := object.AppendJSON(nil, tree)
	if err != nil {
		return err
	}
	if o, _ := a.store.State().Get(r.Key()); o == nil {
		return nil // applying would create it
	}
	_, err = a.store.Patch(ctx, r, resource.Patch{Type: types.ApplyPatchType, Data: body, Force: true})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return err
}

// A candidate is a role whose rules may be aggregated.
type candidate struct {
	labels labels.Set
	load   func() resource.Tree // nil once it has been called
	rules  []rbacv1.PolicyRule
}

// policy returns the rules, which are decoded on first use.
func (c *candidate) policy() []rbacv1.PolicyRule {
	if c.load != nil {
		c.rules, c.load = decode(c.load()).Rules, nil
	}
	return c.rules
}

// gather returns the rules of an aggregated role, and whether they differ from the present ones:
// those of the roles that its selectors select, sorted by name, without duplicates.
func gather(name string, role *rbacv1.ClusterRole, all map[string]*candidate) ([]rbacv1.PolicyRule, bool) {
	if role.AggregationRule == nil {
		return nil, false
	}
	rules := []rbacv1.PolicyRule{}
	known := map[string]bool{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, false // as in Kubernetes
		}
		for _, other := range slices.Sorted(maps.Keys(all)) {
			if other == name || !selector.Matches(all[other].labels) {
				continue
			}
			for _, rule := range all[other].policy() {
				if said := say(rule); !known[said] {
					known[said] = true
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, !equality.Semantic.DeepEqual(rules, role.Rules)
}

// say returns a distinct text for each distinct rule. Empty and absent lists are equal.
func say(r rbacv1.PolicyRule) string {
	var text []byte
	for _, words := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		for _, word := range words {
			text = strconv.AppendQuote(text, word)
		}
		text = append(text, ';')
	}
	return string(text)
}

func decode(tree resource.Tree) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{}
	// stored roles fit the type
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, role)
	return role
}

func labelsOf(tree resource.Tree) labels.Set {
	all := labels.Set{}
	for name, value := range tree["metadata"].(resource.Tree)["labels"].(resource.Tree) {
		all[name], _ = value.(string)
	}
	return all
}

// untyped returns a list of rules in the form of a tree.
func untyped(rules []rbacv1.PolicyRule) []any {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rbacv1.ClusterRole{Rules: rules})
	if err != nil { // the type always encodes
		return nil
	}
	list, _ := tree["rules"].([]any)
	return list
}
