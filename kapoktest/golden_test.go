package kapoktest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGoldenIsStable checks that two runs write the same file, with uids, generated names,
// allocated addresses and times in all places.
func TestGoldenIsStable(t *testing.T) {
	run := func(t *testing.T, env *kapoktest.Env, file string) string {
		t.Helper()
		pods := corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "j-"}}
		job.Spec.Template.Spec = pods
		env.Create(job)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-", Labels: job.Spec.Template.Labels,
			Annotations: map[string]string{"at": time.Now().Format(time.RFC3339), "planned": "2100-01-01T00:00:00Z"}}, Spec: pods}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		env.Create(pod)
		env.UpdateStatus(pod, func() {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.Now()}}
		})
		for name, spec := range map[string]corev1.ServiceSpec{"chosen": {Type: "NodePort"}, "asked": {ClusterIP: "10.96.0.77"}, "none": {ClusterIP: "None"}} {
			spec.Ports = []corev1.ServicePort{{Port: 80}}
			env.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
		}
		t.Setenv("KAPOKTEST_UPDATE", "true")
		env.Golden(file, &batchv1.Job{}, &corev1.Pod{}, &corev1.Service{})
		t.Setenv("KAPOKTEST_UPDATE", "")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	first := run(t, kapoktest.Start(t), file)
	env := kapoktest.Start(t)
	for _, name := range []string{"takes", "addresses"} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: "NodePort", Ports: []corev1.ServicePort{{Port: 80}}}}
		env.Create(s)
	}
	for _, want := range []string{"batch.kubernetes.io/controller-uid: <uid of Job default/j-<generated>>", "name: j-<generated>-<generated>", "clusterIP: <chosen>",
		"nodePort: <chosen>", "clusterIP: 10.96.0.77", "clusterIP: None", "lastTransitionTime: <time>", "at: <time>", `planned: "2100-01-01T00:00:00Z"`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	run(t, env, filepath.Join(dir, "b.yaml"))
	env.Delete(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "takes", Namespace: "default"}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "addresses", Namespace: "default"}})
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(first, "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	env.Golden(file, &batchv1.Job{}, &corev1.Pod{}, &corev1.Service{})
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		if text := run(t, env, file); !strings.Contains(text, `lastTransitionTime: "2000-01-01T00:00:00Z"`) {
			t.Errorf("in a bubble:\n%s", text)
		}
	})
}

// TestGoldenKeepsAllEntries checks that keys with the same placeholder are numbered by their
// values.
func TestGoldenKeepsAllEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	env := kapoktest.Start(t)
	a := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"}}
	b, c := a.DeepCopy(), a.DeepCopy()
	env.Create(a, b, c)
	for n, names := range [][]string{{a.Name, b.Name, c.Name}, {c.Name, b.Name, a.Name}, {b.Name, a.Name, c.Name}} {
		cm := configMap(fmt.Sprint("summary-", n))
		cm.Data = map[string]string{names[0]: "done", names[1]: "failed", names[2]: "failed", "job": "all"}
		env.Create(cm)
	}
	t.Setenv("KAPOKTEST_UPDATE", "1")
	env.Golden(file, &corev1.ConfigMap{}, &corev1.Secret{})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "data:\n  job: all\n  job-<generated>: done\n  job-<generated> 2: failed\n  job-<generated> 3: failed\n"
	if strings.Count(string(text), want) != 3 {
		t.Errorf("it has\n%s", text)
	}
}

func TestGoldenFailures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	env := kapoktest.Start(t)
	a, b, c := configMap("a"), configMap("b"), configMap("c")
	env.Create(a, b)
	t.Setenv("KAPOKTEST_UPDATE", "1")
	env.Golden(file, a)
	t.Setenv("KAPOKTEST_UPDATE", "0")
	env.Golden(file, a)
	env.Update(a, func() { a.Data = map[string]string{"k": "v"} })
	env.Create(c)
	text := fails(t, func(tb testing.TB) { kapoktest.GoldenWith(env, tb, file, a) })
	for _, want := range []string{"--- ConfigMap default/a\n", "+ data:\n+   k: v\n", "--- ConfigMap default/c is not in the file\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "default/b") {
		t.Errorf("a correct object is shown:\n%s", text)
	}
	if text := fails(t, func(tb testing.TB) { kapoktest.GoldenWith(env, tb, file) }); !strings.Contains(text, "no kinds") {
		t.Errorf("without kinds: %q", text)
	}
	t.Setenv("KAPOKTEST_UPDATE", "perhaps")
	if text := fails(t, func(tb testing.TB) { kapoktest.GoldenWith(env, tb, file, a) }); !strings.Contains(text, "neither true nor false") {
		t.Errorf("KAPOKTEST_UPDATE=perhaps: %q", text)
	}
}
