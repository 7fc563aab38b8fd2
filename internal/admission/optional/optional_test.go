package optional

import (
	"context"
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newStore returns a store of all built-in kinds, without namespaces, and with a gate.
func newStore(t *testing.T, gate func(*resource.Store) resource.Gate) *resource.Store {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))
	s.SetGate(gate(s))
	return s
}

// request returns a request of a user in the namespace ns.
func request(s *resource.Store, plural string) *resource.Request {
	d := s.Registry().Load().Resource(schema.GroupResource{Resource: plural})
	r := &resource.Request{
		Definition: d, Version: d.Storage, User: &authn.User{Name: "ann"}, Manager: "test",
		FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}
	if d.Namespaced {
		r.Namespace = "ns"
	}
	return r
}

func body(t *testing.T, text string) resource.Body {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return resource.Body{Data: data}
}

// same checks an error by its text; "" is none.
func same(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestAlwaysDeny(t *testing.T) {
	s := newStore(t, func(*resource.Store) resource.Gate { return resource.Gate{Admission: admission.Chain{AlwaysDeny{}}} })
	r := request(s, "namespaces")
	_, err := s.Create(t.Context(), r, body(t, `{metadata: {name: ns}}`))
	same(t, "create", err, `namespaces "ns" is forbidden: admission control is denying all modifications`)

	own := request(s, "namespaces")
	own.User = nil
	_, err = s.Create(t.Context(), own, body(t, `{metadata: {name: ns}}`))
	same(t, "create by the server", err, "")
	r.Name = "ns"
	_, err = s.Delete(t.Context(), r, nil)
	same(t, "delete", err, `namespaces "ns" is forbidden: admission control is denying all modifications`)
	same(t, "validate", AlwaysDeny{}.Validate(t.Context(), &resource.Admitted{Request: r, Operation: resource.OperationConnect, Name: "ns"}),
		`namespaces "ns" is forbidden: admission control is denying all modifications`)
}

func TestDenyServiceExternalIPs(t *testing.T) {
	service := func(ips ...any) resource.Tree {
		return resource.Tree{"metadata": resource.Tree{"name": "s"}, "spec": resource.Tree{"externalIPs": ips}}
	}
	const denied = `services "s" is forbidden: Use of external IPs is denied by admission control`
	for _, tc := range []struct {
		name        string
		object, old resource.Tree
		want        string
	}{
		{"none", service(), nil, ""},
		{"no spec", resource.Tree{}, nil, ""},
		{"new", service("1.2.3.4"), nil, denied},
		{"added", service("1.2.3.4", "1.2.3.5"), service("1.2.3.4"), denied},
		{"kept", service("1.2.3.4"), service("1.2.3.4"), ""},
		{"removed", service("1.2.3.5"), service("1.2.3.4", "1.2.3.5"), ""},
	} {
		r := &resource.Request{Definition: &resource.Definition{Plural: "services"}, Version: &resource.Version{Name: "v1"}}
		same(t, tc.name, DenyServiceExternalIPs{}.Validate(t.Context(), &resource.Admitted{Request: r, Object: tc.object, Old: tc.old}), tc.want)
	}
	for _, tc := range []struct {
		plural, subresource string
		op                  resource.Operation
		want                bool
	}{
		{"services", "", resource.OperationCreate, true},
		{"services", "", resource.OperationUpdate, true},
		{"services", "", resource.OperationDelete, false},
		{"services", "status", resource.OperationUpdate, false},
		{"pods", "", resource.OperationCreate, false},
	} {
		r := &resource.Request{Definition: &resource.Definition{Plural: tc.plural}, Subresource: tc.subresource}
		if got := (DenyServiceExternalIPs{}).Handles(r, tc.op); got != tc.want {
			t.Errorf("%s of %s/%s: handled %t", tc.op, tc.plural, tc.subresource, got)
		}
	}
}

func TestNamespaceExists(t *testing.T) {
	s := newStore(t, func(*resource.Store) resource.Gate { return resource.Gate{} })
	p := NamespaceExists{State: s.State()}
	r := request(s, "configmaps")
	for op, want := range map[resource.Operation]bool{
		resource.OperationCreate: true, resource.OperationUpdate: true, resource.OperationDelete: true, resource.OperationConnect: false,
	} {
		if got := p.Handles(r, op); got != want {
			t.Errorf("%s: handled %t", op, got)
		}
	}
	if p.Handles(request(s, "namespaces"), resource.OperationCreate) {
		t.Error("the plugin handles namespaces")
	}
	err := p.Validate(t.Context(), &resource.Admitted{Request: r})
	same(t, "no namespace", err, `namespaces "ns" not found`)
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v is not 404", err)
	}
	if _, err := s.Create(t.Context(), request(s, "namespaces"), body(t, `{metadata: {name: ns}}`)); err != nil {
		t.Fatal(err)
	}
	same(t, "a namespace", p.Validate(t.Context(), &resource.Admitted{Request: r}), "")
}

// rejecting is a plugin that rejects namespaces.
type rejecting struct{ err error }

func (rejecting) Handles(r *resource.Request, _ resource.Operation) bool {
	return r.Definition.Plural == "namespaces"
}

func (p rejecting) Validate(context.Context, *resource.Admitted) error { return p.err }

func TestNamespaceAutoProvision(t *testing.T) {
	provide := func(s *resource.Store) resource.Gate {
		return resource.Gate{Provide: NamespaceAutoProvision{Store: s}.Provide}
	}
	exists := func(s *resource.Store) bool {
		o, _ := s.State().Get(object.Key{Resource: namespaces, Name: "ns"})
		return o != nil
	}
	const missing = `namespaces "ns" not found`
	t.Run("create", func(t *testing.T) {
		s := newStore(t, provide)
		r := request(s, "configmaps")
		r.DryRun = true
		_, err := s.Create(t.Context(), r, body(t, `{metadata: {name: a}}`))
		same(t, "dry run", err, missing)
		r.DryRun = false
		_, err = s.Create(t.Context(), r, body(t, `{metadata: {name: a}}`))
		same(t, "create", err, "")
		_, err = s.Create(t.Context(), r, body(t, `{metadata: {name: b}}`))
		same(t, "create another", err, "")
		if !exists(s) {
			t.Error("the namespace does not exist")
		}
	})
	t.Run("subresource", func(t *testing.T) {
		s := newStore(t, provide)
		r := request(s, "pods")
		r.Name, r.Subresource = "p", "binding"
		_, err := s.Create(t.Context(), r, body(t, `{metadata: {name: p}, target: {kind: Node, name: one}}`))
		same(t, "bind", err, `pods "p" not found`)
		if !exists(s) {
			t.Error("the namespace does not exist")
		}
	})
	t.Run("delete", func(t *testing.T) {
		s := newStore(t, provide)
		r := request(s, "configmaps")
		r.Name = "a"
		_, err := s.Delete(t.Context(), r, nil)
		same(t, "delete", err, `configmaps "a" not found`)
		if exists(s) {
			t.Error("a deletion has created the namespace")
		}
	})
	t.Run("the server itself", func(t *testing.T) {
		s := newStore(t, provide)
		r := request(s, "configmaps")
		r.User = nil
		_, err := s.Create(t.Context(), r, body(t, `{metadata: {name: a}}`))
		same(t, "create", err, missing)
	})
	t.Run("rejected", func(t *testing.T) {
		s := newStore(t, func(s *resource.Store) resource.Gate {
			return resource.Gate{Provide: NamespaceAutoProvision{Store: s}.Provide, Admission: admission.Chain{rejecting{errors.New("no more namespaces")}}}
		})
		_, err := s.Create(t.Context(), request(s, "configmaps"), body(t, `{metadata: {name: a}}`))
		same(t, "create", err, `configmaps "a" is forbidden: no more namespaces`)
	})
}
