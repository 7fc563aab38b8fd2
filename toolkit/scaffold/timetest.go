package scaffold

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

// A timeTest is internal/controller/KIND_time_test.go: tests of a controller in virtual time and
// with faults, beside kubebuilder's test that calls it once.
type timeTest struct{ suite }

var _ machinery.Template = (*timeTest)(nil)

// SetTemplateDefaults implements machinery.Template.
func (t *timeTest) SetTemplateDefaults() error { return nil }

// plainReconciler matches the reconciler that kubebuilder scaffolds: others, as those that run an
// image, have more fields.
var plainReconciler = regexp.MustCompile(`Reconciler struct \{\n\tclient\.Client\n\tScheme +\*runtime\.Scheme\n\}`)

// addTimeTest adds these tests if the command has made a controller of a kind of the project.
func (s *apiStep) addTimeTest(files machinery.Filesystem, r *resource.Resource) error {
	if s.testEnv == onEnvtest || !r.HasAPI() || !r.HasController() || r.IsExternal() || r.Core {
		return nil
	}
	dir, levels := filepath.Join("internal", "controller"), 2
	if s.config.IsMultiGroup() && r.Group != "" {
		dir, levels = filepath.Join(dir, r.Replacer().Replace("%[group]")), 3
	}
	kind := strings.ToLower(r.Kind)
	controller, err := afero.ReadFile(files.FS, filepath.Join(dir, kind+"_controller.go"))
	if errors.Is(err, os.ErrNotExist) || err == nil && !plainReconciler.Match(controller) {
		return nil
	}
	if err != nil {
		return err
	}
	boilerplate, err := afero.ReadFile(files.FS, filepath.Join("hack", "boilerplate.go.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	test := &timeTest{}
	test.set(filepath.Join(dir, kind+"_time_test.go"), levels, "")
	test.TemplateBody, test.IfExistsAction = timeTestBody, machinery.SkipFile
	return machinery.NewScaffold(files, machinery.WithConfig(s.config), machinery.WithBoilerplate(string(boilerplate)), machinery.WithResource(r)).Execute(test)
}

const timeTestBody = `{{ .Boilerplate }}

{{if and .MultiGroup .Resource.Group }}
package {{ .Resource.PackageName }}
{{else}}
package controller
{{end}}

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	{{ .Resource.ImportAlias }} "{{ .Resource.Path }}"
)

// Test{{ .Resource.Kind }}InVirtualTime runs the controller for a day of virtual time, which takes a moment.
func Test{{ .Resource.Kind }}InVirtualTime(t *testing.T) {
	types, definitions := {{ lower .Resource.Kind }}Options(t)
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		object := run{{ .Resource.Kind }}(t, env, types)

		time.Sleep(24 * time.Hour)
		env.Settle()

		env.Get(object)
		// TODO(user): Check what the controller has done in this day.
	}, kapoktest.Scheme(types), definitions)
}

// Test{{ .Resource.Kind }}WithFaults repeats a scenario with conflicts, lost answers, and watches that are cut or late. It reports the smallest
// set of faults with which the scenario fails.
func Test{{ .Resource.Kind }}WithFaults(t *testing.T) {
	types, definitions := {{ lower .Resource.Kind }}Options(t)
	faults := kapoktest.Faults{Conflict: 0.05, Lost: 0.05, CutWatch: 0.1, DelayWatch: 0.1, MaxDelay: time.Minute}
	kapoktest.Explore(t, 10, faults, func(t testing.TB, env *kapoktest.Env) {
		object := run{{ .Resource.Kind }}(t, env, types)

		time.Sleep(time.Hour)
		env.Settle()

		env.Get(object)
		// TODO(user): Check what must hold whatever fails.
	}, kapoktest.Scheme(types), definitions)
}

// {{ lower .Resource.Kind }}Options returns the types and the CustomResourceDefinitions that the controller needs.
func {{ lower .Resource.Kind }}Options(t *testing.T) (*runtime.Scheme, kapoktest.Option) {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, {{ .Resource.ImportAlias }}.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	return types, kapoktest.CRDs(filepath.Join({{ .Root }}, "config", "crd", "bases"))
}

// run{{ .Resource.Kind }} creates an object, which it returns, and runs the controller until the end of the test.
func run{{ .Resource.Kind }}(t testing.TB, env *kapoktest.Env, types *runtime.Scheme) *{{ .Resource.ImportAlias }}.{{ .Resource.Kind }} {
	t.Helper()
	object := &{{ .Resource.ImportAlias }}.{{ .Resource.Kind }}{
		ObjectMeta: metav1.ObjectMeta{ {{- if .Resource.API.Namespaced }}Namespace: "default", {{ end }}Name: "test"},
		// TODO(user): Specify other spec details if needed.
	}
	switch err := env.Client().Create(t.Context(), object); {
	case apierrors.IsInvalid(err):
		t.Skipf("the object of this test needs more: %v", err)
	case err != nil:
		t.Fatal(err)
	}

	several := true // managers in one process
	mgr, err := ctrl.NewManager(env.Config(), ctrl.Options{
		Scheme:     types,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &several},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&{{ .Resource.Kind }}Reconciler{Client: mgr.GetClient(), Scheme: types}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Go(mgr.Start)
	return object
}
`
