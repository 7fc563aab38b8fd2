package eventlimit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n"

func TestConfiguration(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"all types", head + "- {type: Server, qps: 1, burst: 1, cacheSize: -1}\n- {type: Namespace, qps: 1, burst: 1, cacheSize: 5}\n- {type: User, qps: 1, burst: 1}\n- {type: SourceAndObject, qps: 1, burst: 1}", ""},
		{"none", "", "limits: Invalid value: null: must not be empty"},
		{"no limits", head, "limits: Invalid value: null: must not be empty"},
		{"another kind", "apiVersion: eventratelimit.admission.k8s.io/v1\nkind: Configuration\n",
			`kind is "Configuration" and apiVersion is "eventratelimit.admission.k8s.io/v1": want a Configuration of eventratelimit.admission.k8s.io/v1alpha1`},
		{"an unknown field", head + "- {type: Server, qps: 1, burst: 1, size: 1}", `unknown field "size"`},
		{"not YAML", "{", "yaml: "},
		{"invalid", head + "- {type: Pod, qps: 0, burst: -1}\n- {type: User, qps: 1, burst: 1, cacheSize: -1}",
			`[limits[0].type: Unsupported value: "Pod": supported values: "Namespace", "Server", "SourceAndObject", "User", limits[0].burst: Invalid value: -1: must be positive, ` +
				`limits[0].qps: Invalid value: 0: must be positive, limits[1].cacheSize: Invalid value: -1: must not be negative]`},
	} {
		got := ""
		if _, err := New([]byte(tc.config)); err != nil {
			got = err.Error()
		}
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// An event is a request for one.
type event struct {
	namespace, user, component, object string
}

// send returns the error for an event.
func (e event) send(t *testing.T, p *Plugin) error {
	t.Helper()
	a := &resource.Admitted{
		Request:   request("events", ""),
		Operation: resource.OperationCreate,
		Object: resource.Tree{
			"source": resource.Tree{"component": e.component, "host": "h-"},
			"involvedObject": resource.Tree{
				"kind": "Pod-", "namespace": "ns-", "name": e.object, "uid": "-u-", "apiVersion": "v1",
			},
		},
	}
	a.Request.Namespace, a.Request.User = e.namespace, &authn.User{Name: e.user}
	if !p.Handles(a.Request, a.Operation) {
		t.Fatal("the plugin does not handle events")
	}
	return p.Validate(t.Context(), a)
}

func request(plural, group string) *resource.Request {
	return &resource.Request{Definition: &resource.Definition{Plural: plural, Namespaced: true}, Version: &resource.Version{Group: group, Name: "v1"}}
}

func limits(t *testing.T, lines ...string) *Plugin {
	t.Helper()
	p, err := New([]byte(head + strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBuckets checks which events share a bucket, and the error of one too many.
func TestBuckets(t *testing.T) {
	first := event{"ns", "ann", "kubelet-", "p"}
	for _, tc := range []struct {
		scope string
		other event // of another bucket
		want  string
	}{
		{"Server", event{}, "limit reached on type Server for key "},
		{"Namespace", event{"other", "ann", "kubelet-", "p"}, "limit reached on type Namespace for key ns"},
		{"User", event{"ns", "bob", "kubelet-", "p"}, "limit reached on type User for key ann"},
		{"SourceAndObject", event{"ns", "ann", "kubelet-", "q"}, "limit reached on type SourceAndObject for key kubelet-h-Pod-ns-p-u-v1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := limits(t, fmt.Sprintf("- {type: %s, qps: 2, burst: 3}", tc.scope))
			for range 3 {
				if err := first.send(t, p); err != nil {
					t.Fatalf("%s: %v", tc.scope, err)
				}
			}
			err := first.send(t, p)
			if !apierrors.IsTooManyRequests(err) || err.Error() != "Too many requests: "+tc.want {
				t.Errorf("%s: got %v, want %s", tc.scope, err, tc.want)
			}
			if tc.other != (event{}) {
				if err := tc.other.send(t, p); err != nil {
					t.Errorf("%s: an event of another bucket: %v", tc.scope, err)
				}
			}
			time.Sleep(500 * time.Millisecond)
			if err := first.send(t, p); err != nil {
				t.Errorf("%s: after the time for one event: %v", tc.scope, err)
			}
			if err := first.send(t, p); err == nil {
				t.Errorf("%s: two events after the time for one", tc.scope)
			}
		})
	}
}

// TestAllLimits checks that an event takes a token of each limit, and that the error names all that
// are exceeded.
func TestAllLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limits(t, "- {type: User, qps: 1, burst: 1}", "- {type: Namespace, qps: 1, burst: 2}")
		e := event{namespace: "ns", user: "ann"}
		for i, want := range []string{
			"", "Too many requests: limit reached on type User for key ann",
			"Too many requests: [limit reached on type User for key ann, limit reached on type Namespace for key ns]",
		} {
			got := ""
			if err := e.send(t, p); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("event %d: got %q, want %q", i, got, want)
			}
		}
	})
}

// TestEviction checks that a bucket that was not used for long is full again.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limits(t, "- {type: User, qps: 1, burst: 1, cacheSize: 2}")
		for _, step := range []struct {
			user    string
			allowed bool
		}{{"a", true}, {"b", true}, {"a", false}, {"c", true}, {"a", false}, {"b", true}} {
			if err := (event{user: step.user}).send(t, p); (err == nil) != step.allowed {
				t.Errorf("%s: %v", step.user, err)
			}
		}
	})
}

func TestHandles(t *testing.T) {
	p := limits(t, "- {type: Server, qps: 1, burst: 1}")
	dry := request("events", "")
	dry.DryRun = true
	for _, tc := range []struct {
		name string
		r    *resource.Request
		op   resource.Operation
		want bool
	}{
		{"create", request("events", ""), resource.OperationCreate, true},
		{"update", request("events", ""), resource.OperationUpdate, true},
		{"delete", request("events", ""), resource.OperationDelete, false},
		{"dry run", dry, resource.OperationCreate, false},
		{"another group", request("events", "events.k8s.io"), resource.OperationCreate, false},
		{"another kind", request("pods", ""), resource.OperationCreate, false},
	} {
		if got := p.Handles(tc.r, tc.op); got != tc.want {
			t.Errorf("%s: handled %t, want %t", tc.name, got, tc.want)
		}
	}
}
