package manifests

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The objects of the tests.
const (
	head   = "apiVersion: admissionregistration.k8s.io/v1\n"
	policy = head + `kind: ValidatingAdmissionPolicy
metadata: {name: a.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'no'"}]
`
	binding = head + `kind: ValidatingAdmissionPolicyBinding
metadata: {name: b.static.k8s.io}
spec: {policyName: a.static.k8s.io, validationActions: [Deny]}
`
	hook = head + `kind: ValidatingWebhookConfiguration
metadata: {name: w.static.k8s.io}
webhooks:
- name: w.example.com
  clientConfig: {url: "https://localhost:1"}
  sideEffects: None
  admissionReviewVersions: [v1]
`
)

// A fixture is a directory, and what it has put in effect.
type fixture struct {
	testing.TB
	options Options
	log     bytes.Buffer

	mu   sync.Mutex
	used []string // the names of the objects that were put in effect last; guarded by mu
}

func newFixture(t testing.TB, plurals ...string) *fixture {
	f := &fixture{TB: t}
	f.options = Options{
		Plugin: "P", Path: t.TempDir(), Plurals: plurals, Registry: resource.NewRegistry(kinds.Definitions()...),
		Metrics: NewMetrics(), Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
		Use: func(all Objects) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.used = nil
			for _, plural := range plurals {
				for _, obj := range all[plural] {
					f.used = append(f.used, nameOf(obj))
				}
			}
			return nil
		},
	}
	return f
}

func (f *fixture) inEffect() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

func ofPolicies(t testing.TB) *fixture {
	return newFixture(t, "validatingadmissionpolicies", "validatingadmissionpolicybindings")
}

func (f *fixture) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.options.Path, name), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) open() *Dir {
	f.Helper()
	d, err := Open(f.Context(), f.options)
	if err != nil {
		f.Fatal(err)
	}
	return d
}

func named(object, name string) string {
	_, before, _ := strings.Cut(object, "metadata: {name: ")
	before, _, _ = strings.Cut(before, ".static")
	return strings.Replace(object, "{name: "+before+".", "{name: "+name+".", 1)
}

// TestOpen checks which files are read, and that objects are in the order of their names.
func TestOpen(t *testing.T) {
	f := ofPolicies(t)
	f.write("2.yaml", binding+"---\n---\n"+named(policy, "c"))
	f.write("1.YML", policy)
	f.write("list.json", `{"apiVersion": "v1", "kind": "List", "items": [`+
		`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyList", "items": [{"metadata": {"name": "b.static.k8s.io"}, `+
		`"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]}, "validations": [{"expression": "true"}]}}]}]}`)
	f.write("empty.yaml", "")
	f.write("README.md", "not read")
	if err := os.Mkdir(filepath.Join(f.options.Path, "dir.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.open()
	if diff := cmp.Diff([]string{"a.static.k8s.io", "b.static.k8s.io", "c.static.k8s.io", "b.static.k8s.io"}, f.inEffect()); diff != "" {
		t.Error(diff)
	}
}

// TestDefaults checks that objects are completed.
func TestDefaults(t *testing.T) {
	f := newFixture(t, "validatingwebhookconfigurations")
	f.write("a.yaml", hook)
	var got Objects
	f.options.Use = func(all Objects) error {
		got = all
		return nil
	}
	f.open()
	hooks := got["validatingwebhookconfigurations"][0]["webhooks"].([]any)
	if policy := hooks[0].(map[string]any)["failurePolicy"]; policy != "Fail" {
		t.Errorf("failurePolicy %v, want Fail", policy)
	}
}

func TestInvalid(t *testing.T) {
	change := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, new, 1)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"not YAML", "{", "a.yaml: yaml: line 1: "},
		{"a key twice", policy + "spec: {}\n", `key "spec" already set in map`},
		{"no object", "[]", "a.yaml: json: cannot unmarshal array"},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\n", `a.yaml: kind is "ConfigMap" and apiVersion is "v1": want one of ValidatingAdmissionPolicy, ` +
			"ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingList, ValidatingAdmissionPolicyList of admissionregistration.k8s.io/v1"},
		{"of another plugin", hook, `a.yaml: kind is "ValidatingWebhookConfiguration"`},
		{"another version", change(policy, "/v1", "/v1beta1"), `a.yaml: kind is "ValidatingAdmissionPolicy" and apiVersion is "admissionregistration.k8s.io/v1beta1"`},
		{"an unknown field", policy + "  validation: []\n", `a.yaml: ValidatingAdmissionPolicy: strict decoding error: unknown field "spec.validation"`},
		{"no name", change(policy, "{name: a.static.k8s.io}", "{}"), `a.yaml: ValidatingAdmissionPolicy: resource in file`},
		{"another name", change(policy, "a.static", "a"), `must have a name ending with ".static.k8s.io"`},
		{"an invalid name", change(policy, "a.static", "A.static"), `a.yaml: ValidatingAdmissionPolicy "A.static.k8s.io": metadata.name: Invalid value`},
		{"a name twice", policy + "---\n" + policy, `duplicate name "a.static.k8s.io" found in file`},
		{"no spec", head + "kind: ValidatingAdmissionPolicy\nmetadata: {name: a.static.k8s.io}", `a.yaml: ValidatingAdmissionPolicy "a.static.k8s.io": [spec.matchConstraints: Required value`},
		{"an invalid expression", change(policy, "!= 'no'", "!="), `a.yaml: ValidatingAdmissionPolicy "a.static.k8s.io": spec.validations[0].expression: Invalid value`},
		{"parameters", policy + "  paramKind: {apiVersion: v1, kind: ConfigMap}\n",
			`a.yaml: ValidatingAdmissionPolicy "a.static.k8s.io": spec.paramKind: Forbidden: not supported for static manifests`},
		{"no policy", binding, `a.yaml: spec.policyName: Not found: "a.static.k8s.io": want a policy in the same directory`},
		{"a policy of the API", change(binding, "policyName: a.static.k8s.io", "policyName: a"),
			`a.yaml: ValidatingAdmissionPolicyBinding "b.static.k8s.io": spec.policyName: Invalid value: "a": must end with ".static.k8s.io"`},
		{"an object of the API as parameter", policy + "---\n" + change(binding, "spec: {", "spec: {paramRef: {name: c, parameterNotFoundAction: Deny}, "),
			`a.yaml: ValidatingAdmissionPolicyBinding "b.static.k8s.io": spec.paramRef: Forbidden`},
		{"in a list", "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]", `a.yaml: items[0]: kind is "Pod" and apiVersion is "": want one of`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := ofPolicies(t)
			f.write("a.yaml", tc.text)
			if _, err := Open(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if f.inEffect() != nil {
				t.Error("the objects are in effect")
			}
		})
	}
	for _, tc := range []struct{ name, text, want string }{
		{"a service", change(hook, `{url: "https://localhost:1"}`, "{service: {namespace: a, name: b}}"),
			`a.yaml: ValidatingWebhookConfiguration "w.static.k8s.io": webhooks[0].clientConfig.service: Forbidden: not supported for static manifests: use url instead`},
		{"an invalid webhook", change(hook, "sideEffects: None", "sideEffects: Some"), `webhooks[0].sideEffects: Unsupported value: "Some"`},
	} {
		f := newFixture(t, "validatingwebhookconfigurations")
		f.write("a.yaml", tc.text)
		if _, err := Open(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
	f := ofPolicies(t)
	f.options.Use = func(Objects) error { return errors.New("broken") }
	if _, err := Open(t.Context(), f.options); err == nil || err.Error() != "broken" {
		t.Errorf("objects that cannot be used: %v", err)
	}
	f.options.Path = filepath.Join(f.options.Path, "missing")
	if _, err := Open(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing directory: %v", err)
	}
}

// TestWatch checks that changes take effect, and that invalid ones do not.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := ofPolicies(t)
		f.write("a.yaml", policy)
		d := f.open()
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); Watch(ctx, d) }()
		step := func(what, success, failure string, used ...string) {
			t.Helper()
			time.Sleep(2 * reload.Every)
			synctest.Wait()
			if diff := cmp.Diff(used, f.inEffect()); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			want := "# HELP apiserver_manifest_admission_config_controller_automatic_reloads_total Number of times that admission manifests were loaded, by outcome.\n" +
				"# TYPE apiserver_manifest_admission_config_controller_automatic_reloads_total counter\n"
			for status, n := range map[string]string{"success": success, "failure": failure} {
				if n != "" {
					want += `apiserver_manifest_admission_config_controller_automatic_reloads_total{apiserver_id_hash="",plugin="P",status="` + status + `"} ` + n + "\n"
				}
			}
			if err := testutil.CollectAndCompare(f.options.Metrics, strings.NewReader(want), "apiserver_manifest_admission_config_controller_automatic_reloads_total"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if n := testutil.CollectAndCount(f.options.Metrics, "apiserver_manifest_admission_config_controller_last_config_info"); n != 1 {
				t.Errorf("%s: %d hashes, want 1", what, n)
			}
		}
		step("nothing", "1", "", "a.static.k8s.io")
		f.write("b.yaml", named(policy, "b"))
		step("another file", "2", "", "a.static.k8s.io", "b.static.k8s.io")
		f.write("b.yaml", binding+"  no: field\n")
		step("an invalid file", "2", "1", "a.static.k8s.io", "b.static.k8s.io")
		f.write("b.yaml", binding)
		step("a valid file", "3", "1", "a.static.k8s.io", "b.static.k8s.io")
		for _, name := range []string{"a.yaml", "b.yaml"} {
			if err := os.Remove(filepath.Join(f.options.Path, name)); err != nil {
				t.Fatal(err)
			}
		}
		step("no files", "4", "1")
		cancel()
		<-done
		if n := strings.Count(f.log.String(), `level=ERROR msg="admission manifests not loaded: the previous ones remain in effect" plugin=P`); n != 1 {
			t.Errorf("%d errors in the log, want 1:\n%s", n, &f.log)
		}
	})
}
