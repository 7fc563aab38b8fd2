package roles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func newStore(t testing.TB) *resource.Store {
	s, err := state.Open(context.Background(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := resource.NewStore(s, resource.NewRegistry(kinds.Definitions()...))
	if err := bootstrap.EnsureNamespaces(context.Background(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

func request(store *resource.Store, kind, namespace, name string) *resource.Request {
	d := store.Registry().Load().Resource(schema.GroupResource{Group: rbacv1.GroupName, Resource: kind})
	return &resource.Request{
		Definition: d, Version: d.Storage, Namespace: namespace, Name: name, Manager: manager,
		FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}
}

// stored returns an object as JSON, without the fields that differ between runs.
func stored(t *testing.T, store *resource.Store, key object.Key) string {
	t.Helper()
	o, _ := store.State().Get(key)
	if o == nil {
		t.Fatalf("%s does not exist", key)
	}
	return regexp.MustCompile(`"(uid|time|creationTimestamp)":"[^"]*"`).ReplaceAllString(string(o.Raw), `"$1":""`)
}

// TestAsCreated checks that the objects written at the start equal those that the store makes of
// the same input.
func TestAsCreated(t *testing.T) {
	for _, gather := range []bool{false, true} {
		one, other := newStore(t), newStore(t)
		if err := Ensure(t.Context(), one, gather, quiet); err != nil {
			t.Fatal(err)
		}
		for _, s := range standards() {
			data, err := object.AppendJSON(nil, s.tree())
			if err != nil {
				t.Fatal(err)
			}
			r := request(other, s.key.Resource.Resource, s.key.Namespace, "")
			if _, err := other.Create(t.Context(), r, resource.Body{Data: data}); err != nil {
				t.Fatalf("%s: %v", s.key, err)
			}
		}
		if gather {
			a := &Aggregator{store: other, log: slog.New(slog.DiscardHandler)}
			for range 4 {
				a.settle(t.Context())
			}
		}
		for _, s := range standards() {
			if got, want := stored(t, one, s.key), stored(t, other, s.key); got != want {
				t.Errorf("gather %v: %s is\n%s\nwant\n%s", gather, s.key, got, want)
			}
			o, _ := one.State().Get(s.key)
			if again, err := object.New(s.key, must(o.Tree()), o.Schema, o.Written); err != nil || !bytes.Equal(again.Raw, o.Raw) {
				t.Errorf("%s is not canonical: %v", s.key, err)
			}
		}
	}
}

func must(tree resource.Tree, err error) resource.Tree {
	if err != nil {
		panic(err)
	}
	return tree
}

func TestEnsureTwice(t *testing.T) {
	store := newStore(t)
	for range 2 {
		if err := Ensure(t.Context(), store, true, quiet); err != nil {
			t.Fatal(err)
		}
	}
	before := store.State().Revision()
	if err := Ensure(t.Context(), store, true, quiet); err != nil {
		t.Fatal(err)
	}
	if after := store.State().Revision(); after != before {
		t.Errorf("a complete object was written again: revision %v, then %v", before, after)
	}
}

func TestEnsureTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		errs := make(chan error)
		for range 5 {
			go func() { errs <- Ensure(t.Context(), store, true, quiet) }()
		}
		for range 5 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for _, s := range standards() {
			if o, _ := store.State().Get(s.key); o == nil {
				t.Errorf("%s does not exist", s.key)
			}
		}
	})
}

// oneByOne is a journal that rejects batches of several objects, as etcd does for one resource.
type oneByOne struct {
	*memory.Journal
	first *atomic.Pointer[object.Key] // the first role or binding that was written
}

func (j oneByOne) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	if len(b.Entries) > 1 {
		return 0, errors.ErrUnsupported
	}
	if key := b.Entries[0].Key; key.Resource.Group == rbacv1.GroupName {
		j.first.CompareAndSwap(nil, &key)
	}
	return j.Journal.Append(ctx, b)
}

func TestEnsureOneByOne(t *testing.T) {
	var first atomic.Pointer[object.Key]
	s, err := state.Open(t.Context(), oneByOne{memory.New(), &first}, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := resource.NewStore(s, resource.NewRegistry(kinds.Definitions()...))
	if err := bootstrap.EnsureNamespaces(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 3 {
		go func() { errs <- Ensure(t.Context(), store, true, quiet) }()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if *first.Load() != publicInfo {
		t.Errorf("%s comes before %s", first.Load(), publicInfo)
	}
	for _, s := range completed() {
		if o, _ := store.State().Get(s.key); o == nil || !s.made(o) {
			t.Errorf("%s does not exist, or is not complete", s.key)
		}
	}
}

// TestReconcile changes objects, and checks what a start makes of them.
func TestReconcile(t *testing.T) {
	const view, discovery, node = "system:aggregate-to-view", "system:discovery", "system:node-proxier"
	for _, c := range []struct {
		what, kind, name string
		patch            string // "" deletes the object
		want             []string
		wantNot          []string
	}{
		{"gone", "clusterroles", view, "", []string{`"endpointslices"`}, nil},
		{"rules gone", "clusterroles", view, `{"rules":[{"verbs":["get"],"apiGroups":["x"],"resources":["y"]}]}`, []string{`"resources":["y"]`, `"resources":["namespaces"],"verbs":["watch"]`}, nil},
		{"protected", "clusterroles", view, `{"rules":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`, []string{`"rules":[]`}, []string{"endpointslices"}},
		{"labels gone", "clusterroles", view, `{"metadata":{"labels":null,"annotations":null}}`, []string{`"kubernetes.io/bootstrapping":"rbac-defaults"`, `"rbac.authorization.kubernetes.io/autoupdate":"true"`}, nil},
		{"gathers", "clusterroles", node, `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, nil, []string{"aggregationRule"}},
		{"gathers more", "clusterroles", "view", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, []string{`{"matchLabels":{"a":"b"}}`, "aggregate-to-view"}, nil},
		{"subjects gone", "clusterrolebindings", discovery, `{"subjects":[{"kind":"User","name":"jane","apiGroup":"rbac.authorization.k8s.io"}]}`, []string{"jane", "system:authenticated"}, nil},
		{"subjects protected", "clusterrolebindings", discovery, `{"subjects":null,"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`, nil, []string{"system:authenticated"}},
	} {
		store := newStore(t)
		if err := Ensure(t.Context(), store, true, quiet); err != nil {
			t.Fatal(err)
		}
		r := request(store, c.kind, "", c.name)
		var err error
		if c.patch == "" {
			_, err = store.Delete(t.Context(), r, nil)
		} else {
			_, err = store.Patch(t.Context(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(c.patch)})
		}
		if err == nil {
			err = Ensure(t.Context(), store, true, quiet)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		got := stored(t, store, r.Key())
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %s in\n%s", c.what, want, got)
			}
		}
		for _, no := range c.wantNot {
			if strings.Contains(got, no) {
				t.Errorf("%s: want no %s in\n%s", c.what, no, got)
			}
		}
	}
}

// TestClosedToStrangers checks that unauthenticated users removed from system:discovery do not get
// system:public-info-viewer.
func TestClosedToStrangers(t *testing.T) {
	store := newStore(t)
	if err := Ensure(t.Context(), store, true, quiet); err != nil {
		t.Fatal(err)
	}
	r := request(store, "clusterrolebindings", "", publicInfo.Name)
	if _, err := store.Delete(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), store, true, quiet); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, store, r.Key()); strings.Contains(got, "system:unauthenticated") || !strings.Contains(got, "system:authenticated") {
		t.Errorf("got %s", got)
	}
}

func TestBindingToAnotherRole(t *testing.T) {
	store := newStore(t)
	body := `{"metadata":{"name":"system:discovery"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"x"}}`
	r := request(store, "clusterrolebindings", "", "system:discovery")
	if _, err := store.Create(t.Context(), request(store, "clusterrolebindings", "", ""), resource.Body{Data: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), store, true, quiet); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, store, r.Key()); !strings.Contains(got, `"name":"system:discovery"},"subjects"`) {
		t.Errorf("got %s", got)
	}
}

func TestAggregator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		if err := Ensure(t.Context(), store, false, quiet); err != nil {
			t.Fatal(err)
		}
		a := Start(t.Context(), store, slog.New(slog.DiscardHandler))
		defer a.Close()
		rules := func(name string) string {
			synctest.Wait()
			return stored(t, store, request(store, "clusterroles", "", name).Key())
		}
		for _, name := range []string{"admin", "edit", "view"} {
			if got := rules(name); !strings.Contains(got, "endpointslices") {
				t.Errorf("%s has no aggregated rules: %s", name, got)
			}
		}
		body := `{"metadata":{"name":"crontabs","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"verbs":["get"],"apiGroups":["stable.example.com"],"resources":["crontabs"]}]}`
		if _, err := store.Create(t.Context(), request(store, "clusterroles", "", ""), resource.Body{Data: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if got := rules("admin"); !strings.Contains(got, `"crontabs"`) {
			t.Errorf("admin lacks rules that view aggregates: %s", got)
		}
		if _, err := store.Delete(t.Context(), request(store, "clusterroles", "", "crontabs"), nil); err != nil {
			t.Fatal(err)
		}
		if got := rules("admin"); strings.Contains(got, `"crontabs"`) {
			t.Errorf("admin still has rules of a deleted role: %s", got)
		}
	})
}

// TestStrangers checks the default permissions of all users, including unauthenticated ones.
func TestStrangers(t *testing.T) {
	store := newStore(t)
	if err := Ensure(t.Context(), store, true, quiet); err != nil {
		t.Fatal(err)
	}
	by := rbac.New(store.State())
	for group, want := range map[string]string{
		"system:unauthenticated": "[{[get] [] [] [] [/healthz /livez /readyz /version /version/]}]",
		"system:masters":         "[{[*] [*] [*] [] []} {[*] [] [] [] [*]}]",
		"nobody":                 "[]",
	} {
		rules, _, err := by.RulesFor(t.Context(), userIn(group), "kube-system")
		if err != nil {
			t.Fatal(err)
		}
		if got := textOf(rules); got != want {
			t.Errorf("%s: %s, want %s", group, got, want)
		}
	}
}

func BenchmarkEnsure(b *testing.B) {
	completed()
	for b.Loop() {
		b.StopTimer()
		store := newStore(b)
		b.StartTimer()
		if err := Ensure(b.Context(), store, true, quiet); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnsureAgain(b *testing.B) {
	store := newStore(b)
	for b.Loop() {
		if err := Ensure(b.Context(), store, true, quiet); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		parse(policyText)
	}
}

func userIn(group string) *authn.User { return &authn.User{Name: "someone", Groups: []string{group}} }

func textOf(rules []rbacv1.PolicyRule) string {
	var all []string
	for _, r := range rules {
		all = append(all, fmt.Sprintf("{%v %v %v %v %v}", r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs))
	}
	return "[" + strings.Join(all, " ") + "]"
}
