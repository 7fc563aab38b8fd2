package webhook

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mgr has the parts of a manager that a builder uses.
type mgr struct {
	scheme *runtime.Scheme
	server Server
	log    logr.Logger
}

func (m mgr) GetScheme() *runtime.Scheme { return m.scheme }
func (m mgr) GetLogger() logr.Logger     { return m.log }
func (m mgr) GetWebhookServer() Server   { return m.server }

func newMgr() mgr {
	return mgr{widgetScheme(), NewServer(Options{}), logr.Discard()}
}

func ask(t *testing.T, m mgr, path, review string) (code int32, message string) {
	t.Helper()
	resp := post(t, at(m.server.WebhookMux(), path), "application/json", strings.NewReader(review)).Response
	return resp.Result.Code, resp.Result.Message
}

// at sends requests to a path of a mux.
func at(mux http.Handler, path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = path
		mux.ServeHTTP(w, r)
	})
}

func TestPaths(t *testing.T) {
	for _, test := range []struct {
		kind             schema.GroupVersionKind
		mutate, validate string
	}{
		{schema.GroupVersionKind{Group: "batch.tutorial.kubebuilder.io", Version: "v1", Kind: "CronJob"},
			"/mutate-batch-tutorial-kubebuilder-io-v1-cronjob", "/validate-batch-tutorial-kubebuilder-io-v1-cronjob"},
		{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "/mutate--v1-pod", "/validate--v1-pod"},
	} {
		m := newMgr()
		m.scheme = runtime.NewScheme()
		m.scheme.AddKnownTypeWithName(test.kind, &WidgetV1{})
		if err := NewWebhookManagedBy(m, &WidgetV1{}).WithDefaulter(colors{}).WithValidator(sizes{}).Complete(); err != nil {
			t.Fatal(err)
		}
		object := `{"apiVersion":"` + test.kind.GroupVersion().String() + `","kind":"` + test.kind.Kind + `","metadata":{"name":"a"},"spec":{"size":-1}}`
		review := reviewOf(`,"operation":"CREATE","object":` + object)
		if code, message := ask(t, m, test.mutate, review); code != 200 {
			t.Errorf("%s: got %d %s", test.mutate, code, message)
		}
		if code, message := ask(t, m, test.validate, review); code != 403 || message != "smaller than nothing" {
			t.Errorf("%s: got %d %s", test.validate, code, message)
		}
	}
}

func TestCustomPathsAndHooks(t *testing.T) {
	m := newMgr()
	var logged []string
	m.log = funcr.New(func(prefix, args string) { logged = append(logged, prefix+" "+args) }, funcr.Options{})
	type key struct{}
	build := func(defaulter CustomDefaulter, path string) error {
		return NewWebhookManagedBy(m, &WidgetV1{}).
			WithCustomDefaulter(defaulter).WithDefaulterCustomPath(path).
			WithCustomValidator(anyValidator{}).WithValidatorCustomPath("/hooks/validate_it").
			WithContextFunc(func(ctx context.Context, r *http.Request) context.Context {
				return context.WithValue(ctx, key{}, r.URL.Path)
			}).
			Complete()
	}
	err := build(defaulterFunc(func(ctx context.Context, obj runtime.Object) error {
		logr.FromContextOrDiscard(ctx).Info("called", "path", ctx.Value(key{}))
		panic("no colors")
	}), "/hooks/mutate-it")
	if err != nil {
		t.Fatal(err)
	}
	review := reviewOf(`,"operation":"CREATE","name":"a","namespace":"n","object":` + widget("a", `"size":-1`))
	if code, message := ask(t, m, "/hooks/mutate-it", review); code != 500 || message != "panic: no colors [recovered]" {
		t.Errorf("got %d %s", code, message)
	}
	if code, _ := ask(t, m, "/hooks/validate_it", review); code != 403 {
		t.Errorf("got %d", code)
	}
	contains(t, "log", strings.Join(logged, "\n"), `admission "level"=0 "msg"="called" "webhookGroup"="things.example.com" "webhookKind"="Widget"`,
		`"requestID"="u" "path"="/hooks/mutate-it"`, `"msg"="the webhook panicked"`)

	// An earlier registration stays.
	if err := build(anyDefaulter{}, "/hooks/mutate-it"); err != nil {
		t.Fatal(err)
	}
	if code, _ := ask(t, m, "/hooks/mutate-it", review); code != 500 {
		t.Errorf("another defaulter replaced the first: got %d", code)
	}
	if err := build(anyDefaulter{}, "no/path"); err == nil || !strings.Contains(err.Error(), `path "no/path" of a webhook`) {
		t.Errorf("got %v", err)
	}
}

type defaulterFunc func(context.Context, runtime.Object) error

func (f defaulterFunc) Default(ctx context.Context, obj runtime.Object) error { return f(ctx, obj) }

func TestCompleteErrors(t *testing.T) {
	m := newMgr()
	without := mgr{scheme: m.scheme}
	empty := mgr{scheme: runtime.NewScheme(), server: m.server}
	partial := newMgr()
	partial.scheme.AddKnownTypeWithName(v1.WithKind("Part"), &WidgetV1beta1{})
	partial.scheme.AddKnownTypeWithName(v1alpha1.WithKind("Part"), &unconvertible{})
	two := newMgr()
	two.scheme = runtime.NewScheme()
	two.scheme.AddKnownTypeWithName(v1.WithKind("Widget"), &WidgetV1{})
	two.scheme.AddKnownTypeWithName(v1.WithKind("Gadget"), &WidgetV1{})
	tests := map[string]struct {
		err  error
		want string
	}{
		"no object":       {NewWebhookManagedBy[*WidgetV1](m, nil).Complete(), "needs an object"},
		"no server":       {NewWebhookManagedBy(without, &WidgetV1{}).Complete(), "has no webhook server"},
		"unknown type":    {NewWebhookManagedBy(empty, &WidgetV1{}).Complete(), "no kind is registered"},
		"two kinds":       {NewWebhookManagedBy(two, &WidgetV1{}).Complete(), "is registered as 2 kinds, want one"},
		"two defaulters":  {NewWebhookManagedBy(m, &WidgetV1{}).WithDefaulter(colors{}).WithCustomDefaulter(anyDefaulter{}).Complete(), "only one of Defaulter"},
		"two validators":  {NewWebhookManagedBy(m, &WidgetV1{}).WithValidator(sizes{}).WithCustomValidator(anyValidator{}).Complete(), "only one of Validator"},
		"partial":         {NewWebhookManagedBy(partial, &unconvertible{}).Complete(), "0 hubs"},
		"wrong converter": {NewWebhookManagedBy(m, &WidgetV1{}).WithConverter(NewHubSpokeConverter(&WidgetV1{})).Complete(), "has no spoke"},
	}
	for name, test := range tests {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, test.err, test.want)
		}
	}
}

// unconvertible is a version without a conversion.
type unconvertible struct{ metav1.TypeMeta }

func (u *unconvertible) DeepCopyObject() runtime.Object { out := *u; return &out }
