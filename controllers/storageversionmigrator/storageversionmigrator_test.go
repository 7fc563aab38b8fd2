package storageversionmigrator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "storage-version-migrator-controller"

// newDefinition returns a definition of widgets, with the versions v1 and v2.
func newDefinition(storage string) *unstructured.Unstructured {
	schema := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	var versions []any
	for _, v := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{"name": v, "served": true, "storage": v == storage, "schema": schema})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"}, "versions": versions,
		},
	}}
}

func newWidget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": name},
	}}
}

func newMigration(name string) *migrationv1.StorageVersionMigration {
	return &migrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       migrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "example.com", Resource: "widgets"}},
	}
}

// setStorage makes a version the storage version.
func setStorage(env *kapoktest.Env, definition *unstructured.Unstructured, version string) {
	env.Update(definition, func() {
		definition.Object["spec"].(map[string]any)["versions"] = newDefinition(version).Object["spec"].(map[string]any)["versions"]
	})
}

// TestInvariants changes the storage version of widgets, migrates them with faults and restarts of
// the controller's watches while clients write, and checks that every migration succeeds, that one
// runs at a time, and that the version which is no longer stored can be removed.
func TestInvariants(t *testing.T) {
	seed := seeds.Of(t)
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var opts []kapoktest.Option
			if i%2 == 1 {
				opts = append(opts, kapoktest.WithFaults(seed+uint64(i), kapoktest.Faults{
					Conflict: 0.05, ServerError: 0.02, Lost: 0.02, DelayWatch: 0.1, CutWatch: 0.02, Begin: kapoktest.BeginManually,
				}))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { play(t, env, r) }, opts...)
		})
	}
}

func play(t *testing.T, env *kapoktest.Env, r *rand.Rand) {
	definition := newDefinition("v1")
	env.Create(definition)
	env.Settle() // it is served a moment later
	var widgets []*unstructured.Unstructured
	for i := range 50 {
		widgets = append(widgets, newWidget(fmt.Sprint("w", i)))
		env.Create(widgets[i])
	}
	env.BeginFaults()
	controllertest.Run(t, env, name)
	setStorage(env, definition, "v2")
	var migrations []*migrationv1.StorageVersionMigration
	for i := range 3 {
		migrations = append(migrations, newMigration(fmt.Sprint("m", i)))
		env.Create(migrations[i])
		for range 20 {
			w := widgets[r.IntN(len(widgets))]
			_ = env.Client().Patch(t.Context(), w, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"n":%d}}`, r.IntN(1000))))
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
			oneRuns(t, env)
		}
	}
	env.EndFaults()
	time.Sleep(time.Hour)
	for _, m := range migrations {
		env.Get(m)
		if !apimeta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || !apimeta.IsStatusConditionFalse(m.Status.Conditions, "Running") {
			t.Errorf("%s has the conditions %+v", m.Name, m.Status.Conditions)
		}
	}
	env.Get(definition)
	if stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions"); !slices.Equal(stored, []string{"v2"}) {
		t.Errorf("stored versions %q", stored)
	}
	env.Update(definition, func() {
		spec := definition.Object["spec"].(map[string]any)
		spec["versions"] = spec["versions"].([]any)[1:]
	})
	for _, w := range widgets {
		w.SetAPIVersion("example.com/v2")
		env.Get(w)
	}
	if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
		t.Errorf("%d writes at rest", n)
	}
}

func oneRuns(t *testing.T, env *kapoktest.Env) {
	t.Helper()
	var list migrationv1.StorageVersionMigrationList
	if env.Client().List(t.Context(), &list) != nil {
		return // a fault
	}
	runs := 0
	for _, m := range list.Items {
		if apimeta.IsStatusConditionTrue(m.Status.Conditions, "Running") && !apimeta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") {
			runs++
		}
	}
	if runs > 1 {
		t.Errorf("%d migrations run", runs)
	}
}

// newWebhook returns a webhook for updates of widgets that cannot be called.
func newWebhook() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "fails"},
		"webhooks": []any{map[string]any{
			"name": "fails.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"clientConfig": map[string]any{"service": map[string]any{"namespace": "default", "name": "absent"}},
			"rules": []any{map[string]any{
				"apiGroups": []any{"example.com"}, "apiVersions": []any{"*"}, "resources": []any{"*"}, "operations": []any{"UPDATE"},
			}},
		}},
	}}
}

// TestTransientErrors checks that a migration that the server delays reports it, is retried with
// backoff, and succeeds when the server allows it.
func TestTransientErrors(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		hook := newWebhook()
		definition := newDefinition("v1")
		env.Create(definition)
		env.Settle() // until it is served
		env.Create(newWidget("w"), hook)
		controllertest.Run(t, env, name)
		m := newMigration("m")
		env.Create(m)
		time.Sleep(2 * time.Hour)
		n := controllertest.Writes(env, 10*time.Hour)
		if n < 30 || n > 80 {
			t.Errorf("%d writes in ten hours, want a backoff of up to 1,000 s", n)
		}
		env.Get(m)
		c := apimeta.FindStatusCondition(m.Status.Conditions, "Running")
		if c == nil || !strings.HasPrefix(c.Message, "The migration is running, 1/1 objects not yet migrated; transient error: ") {
			t.Errorf("condition %+v", c)
		}
		env.Delete(hook)
		time.Sleep(time.Hour)
		if env.Get(m); !apimeta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") {
			t.Errorf("conditions %+v", m.Status.Conditions)
		}
	})
}

// TestRefused counts the writes of a controller whose writes are refused.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, name)
		env.Create(newMigration("m"))
		time.Sleep(time.Hour)
		if n := controllertest.Writes(env, 10*time.Hour); n < 30 || n > 45 {
			t.Errorf("%d writes in ten hours, want a backoff of up to 1,000 s", n)
		}
	})
}
