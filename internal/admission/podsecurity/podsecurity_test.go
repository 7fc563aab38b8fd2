package podsecurity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	componentmetrics "k8s.io/component-base/metrics"
	security "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

const configuration = `
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, enforce-version: v1.30, audit: restricted, warn: restricted}
exemptions: {usernames: [exempt], namespaces: [exempt], runtimeClasses: [exempt]}
`

// TestAsKubernetes compares the verdicts on random requests with those of Kubernetes' plugin.
func TestAsKubernetes(t *testing.T) {
	allowed, refused, warned := 0, 0, 0
	g := generator{rand.New(rand.NewPCG(seeds.Of(t), 0))}
	for _, config := range []string{"", configuration} {
		for range 40 {
			w := newWorld(t, g, config)
			for range 60 {
				a := w.request(g)
				want := w.judge(t, a)
				got := w.verdict(t, a)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s %s %s %s/%s (- Kubernetes, + Kapok):\n%s", a.Operation, a.Kind.Kind, a.Request.Subresource, a.Request.Namespace, a.Name, diff)
				}
				switch {
				case got.Refusal != nil:
					refused++
				case len(got.Warnings) > 0:
					warned++
				default:
					allowed++
				}
			}
			if diff := cmp.Diff(countsIn(t, w.theirs), w.counts(t)); diff != "" {
				t.Fatalf("metrics (- Kubernetes, + Kapok):\n%s", diff)
			}
		}
	}
	if allowed < 500 || refused < 500 || warned < 500 {
		t.Errorf("%d requests allowed, %d with warnings, %d refused: the generator is one-sided", allowed, warned, refused)
	}
}

// A result is what a client and the audit log see of a verdict.
type result struct {
	Refusal     *metav1.Status
	Warnings    []string
	Annotations map[string]string
}

// A world is a state, and both plugins over it.
type world struct {
	plugin *Plugin
	judged *security.Admission
	theirs prometheus.Gatherer // the metrics of judged
}

func newWorld(t *testing.T, g generator, config string) *world {
	t.Helper()
	s, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := lister{byNamespace: map[string]*corev1.Namespace{}}
	for _, name := range names {
		n := g.namespace(name)
		l.byNamespace[name] = n
		store(t, s, object.Key{Resource: namespaces, Name: name}, n)
	}
	for i := range g.IntN(8) {
		p := g.pod(fmt.Sprintf("pod-%d", i))
		p.Namespace = pick(g, names...)
		if g.IntN(2) == 0 {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(pick(g, "a", "b")), Controller: new(true)}}
		}
		l.pods = append(l.pods, p)
		store(t, s, object.Key{Resource: pods, Namespace: p.Namespace, Name: p.Name}, p)
	}
	plugin, err := New(s, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := load.LoadFromData([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	recorder := metrics.NewPrometheusRecorder(api.MajorMinorVersion(1, int(emulation.Newest)))
	theirs := componentmetrics.NewKubeRegistry()
	recorder.MustRegister(theirs.MustRegister)
	judged := &security.Admission{Configuration: loaded, Evaluator: evaluator, Metrics: recorder, NamespaceGetter: l, PodLister: l}
	if err := judged.CompleteConfiguration(); err != nil {
		t.Fatal(err)
	}
	return &world{plugin: plugin, judged: judged, theirs: theirs}
}

func store(t *testing.T, s *state.State, k object.Key, o runtime.Object) {
	t.Helper()
	tree := treeOf(o)
	tree["metadata"].(resource.Tree)["uid"] = "u"
	stored, err := object.New(k, tree, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: k, Object: stored}}}); err != nil {
		t.Fatal(err)
	}
}

func treeOf(o runtime.Object) resource.Tree {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	return tree
}

// counts returns the counters of the plugin.
func (w *world) counts(t *testing.T) map[string]float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.plugin)
	return countsIn(t, registry)
}

func countsIn(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[fmt.Sprint(f.GetName(), m.GetLabel())] = m.GetCounter().GetValue()
		}
	}
	return all
}

// verdict returns the result of the plugin.
func (w *world) verdict(t *testing.T, a *resource.Admitted) (r result) {
	t.Helper()
	a.Request.Warn = func(text string) { r.Warnings = append(r.Warnings, text) }
	a.Request.Annotate = func(key, value string) {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[key] = value
	}
	err := w.plugin.Validate(t.Context(), a)
	if err != nil {
		status := statusOf(t, err)
		r.Refusal = &status
	}
	return r
}

// judge returns the result of Kubernetes' plugin, as it makes an error of a response.
func (w *world) judge(t *testing.T, a *resource.Admitted) (r result) {
	t.Helper()
	attributes := &api.AttributesRecord{
		Name: a.Name, Namespace: a.Request.Namespace, Kind: a.Kind, Subresource: a.Request.Subresource,
		Resource:  a.Request.Definition.GroupResource().WithVersion("v1"),
		Operation: admissionv1.Operation(a.Operation), Username: a.Request.User.GetName(),
	}
	if a.Request.Definition.GroupResource() == namespaces {
		attributes.Namespace = a.Name
	}
	attributes.Object = typed(t, a, a.Object)
	if a.Old != nil {
		attributes.OldObject = typed(t, a, a.Old)
	}
	response := w.judged.Validate(t.Context(), attributes)
	r.Warnings = response.Warnings
	for key, value := range response.AuditAnnotations {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[api.AuditAnnotationPrefix+key] = value
	}
	if !response.Allowed {
		r.Refusal = response.Result
	}
	return r
}

func typed(t *testing.T, a *resource.Admitted, obj resource.Tree) runtime.Object {
	t.Helper()
	into := map[string]runtime.Object{
		"Namespace": &corev1.Namespace{}, "Pod": &corev1.Pod{}, "Deployment": &appsv1.Deployment{}, "CronJob": &batchv1.CronJob{},
		"ReplicationController": &corev1.ReplicationController{},
	}[a.Kind.Kind]
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func statusOf(t *testing.T, err error) metav1.Status {
	t.Helper()
	status, ok := err.(interface{ Status() metav1.Status })
	if !ok {
		t.Fatalf("%T is not a status", err)
	}
	return status.Status()
}

// A lister gives Kubernetes' plugin what the state has.
type lister struct {
	byNamespace map[string]*corev1.Namespace
	pods        []*corev1.Pod
}

func (l lister) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return l.byNamespace[name], nil
}

func (l lister) ListPods(_ context.Context, namespace string) (found []*corev1.Pod, err error) {
	for _, p := range l.pods {
		if p.Namespace == namespace {
			found = append(found, p)
		}
	}
	return found, nil
}

// --- Random requests ---

var names = []string{"a", "b", "exempt"}

type generator struct{ *rand.Rand }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

func (g generator) namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, key := range []string{api.EnforceLevelLabel, api.AuditLevelLabel, api.WarnLevelLabel} {
		if g.IntN(2) == 0 {
			n.Labels[key] = pick(g, "privileged", "baseline", "restricted", "restricted", "baseline", "unknown")
		}
	}
	for _, key := range []string{api.EnforceVersionLabel, api.AuditVersionLabel, api.WarnVersionLabel} {
		if g.IntN(4) == 0 {
			n.Labels[key] = pick(g, "latest", "v1.0", "v1.22", "v1.29", "v1.99", "v9.99", "1.2")
		}
	}
	return n
}

func (g generator) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: g.spec()}
}

func (g generator) spec() corev1.PodSpec {
	s := corev1.PodSpec{HostNetwork: g.IntN(6) == 0, HostPID: g.IntN(8) == 0, Containers: []corev1.Container{g.container("c")}}
	if g.IntN(3) == 0 {
		s.Containers = append(s.Containers, g.container("d"))
	}
	if g.IntN(4) == 0 {
		s.InitContainers = []corev1.Container{g.container("i")}
	}
	if g.IntN(4) == 0 {
		c := g.container(pick(g, "e", "f"))
		s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: c.Name, Image: c.Image, SecurityContext: c.SecurityContext,
		}}}
	}
	if g.IntN(6) == 0 {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}
	if g.IntN(6) == 0 {
		s.RuntimeClassName = new(pick(g, "exempt", "other", ""))
	}
	if g.IntN(2) == 0 {
		s.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	return s
}

func (g generator) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: pick(g, "x", "x", "x", "y")}
	if g.IntN(4) > 0 {
		c.SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(g.IntN(6) == 0),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		if g.IntN(8) == 0 {
			c.SecurityContext.Privileged = new(true)
		}
	}
	return c
}

// request returns a random request.
func (w *world) request(g generator) *resource.Admitted {
	a := &resource.Admitted{Operation: pick(g, resource.OperationCreate, resource.OperationUpdate), Name: "o"}
	r := &resource.Request{
		Namespace: pick(g, names...), Name: a.Name, User: &authn.User{Name: pick(g, "jane", "jane", "jane", "exempt")},
		Version: &resource.Version{Name: "v1"},
	}
	define := func(group, plural, kind string) {
		r.Definition = &resource.Definition{Group: group, Plural: plural, Kind: kind}
		a.Kind = schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	}
	var object func() runtime.Object
	switch g.IntN(6) {
	case 0:
		define("", "namespaces", "Namespace")
		a.Name = pick(g, names...)
		r.Name, r.Namespace = a.Name, ""
		object = func() runtime.Object { return g.namespace(a.Name) }
	case 1:
		define(appsv1.GroupName, "deployments", "Deployment")
		object = func() runtime.Object {
			return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: g.spec()}}}
		}
	case 2:
		define(batchv1.GroupName, "cronjobs", "CronJob")
		object = func() runtime.Object {
			return &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: g.spec()}}}}}
		}
	case 3:
		define("", "replicationcontrollers", "ReplicationController")
		object = func() runtime.Object {
			c := &corev1.ReplicationController{}
			if g.IntN(3) > 0 {
				c.Spec.Template = &corev1.PodTemplateSpec{Spec: g.spec()}
			}
			return c
		}
	default:
		define("", "pods", "Pod")
		object = func() runtime.Object { return g.pod(a.Name) }
		if a.Operation == resource.OperationUpdate && g.IntN(3) == 0 {
			r.Subresource = pick(g, "status", "ephemeralcontainers", "resize")
		}
	}
	if g.IntN(12) == 0 && r.Subresource == "" && a.Operation == resource.OperationUpdate {
		r.Subresource = "status"
	}
	a.Request, a.Object = r, treeOf(object())
	if a.Operation == resource.OperationUpdate {
		a.Old = treeOf(object())
		if g.IntN(4) == 0 {
			a.Old = a.Object
		}
	}
	return a
}

// TestConfiguration checks that a bad configuration is an error at the start.
func TestConfiguration(t *testing.T) {
	s, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{
		"{",
		"apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: most}",
		"apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\nexemptions: {namespaces: [a, a]}",
		"apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\nunknown: {}",
	} {
		if _, err := New(s, []byte(config)); err == nil {
			t.Errorf("no error for %s", config)
		}
	}
	var _ admission.Validator = (*Plugin)(nil)
}
