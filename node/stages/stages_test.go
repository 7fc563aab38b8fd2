package stages_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/node/stages"
	"github.com/kapok-dev/kapok/scheduler"

	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files returns a directory of KWOK's module.
func files(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(dir))
}

func read(t *testing.T, dirs ...string) []*kwok.Stage {
	t.Helper()
	var paths []string
	for _, dir := range dirs {
		paths = append(paths, files(t, dir))
	}
	all, err := stages.Read(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parse(t *testing.T, text string) *kwok.Stage {
	t.Helper()
	s := &kwok.Stage{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	kwok.SetObjectDefaults_Stage(s)
	return s
}

// TestFiles reads all stages of KWOK.
func TestFiles(t *testing.T) {
	all := 0
	root := files(t, "kustomize/stage")
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() == "testdata" || entry.Name() == "rbac" {
			return err
		}
		found, err := stages.Read(path)
		if err != nil {
			if !strings.Contains(err.Error(), "have no object") {
				return err
			}
			return nil
		}
		all += len(found)
		return stages.Options{Stages: found}.Validate()
	})
	if err != nil || all < 15 {
		t.Errorf("%d stages are read: %v", all, err)
	}
}

func with(o stages.Options) kapoktest.Option {
	return kapoktest.Controllers(kapok.Together{controllers.Options{}, scheduler.Options{}, o})
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
	}
}

// eventsOf returns the reasons and messages of the events of an object.
func eventsOf(t *testing.T, env *kapoktest.Env, kind, name string) (all []string) {
	t.Helper()
	var list corev1.EventList
	if err := env.Client().List(env.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name {
			all = append(all, e.Reason+": "+e.Message)
		}
	}
	return all
}

func hasEvent(all []string, part string) bool {
	for _, e := range all {
		if strings.Contains(e, part) {
			return true
		}
	}
	return false
}

// TestPods plays KWOK's general stages of pods, which last seconds, in place of the simulation,
// which needs no time.
func TestPods(t *testing.T) {
	o := stages.Options{Nodes: simulated.Options{Nodes: 2}, Stages: read(t, "kustomize/stage/pod/general")}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		web, host := newPod("web"), newPod("host")
		host.Spec.HostNetwork = true
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job"}}
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: newPod("").Spec.Containers}
		begin := time.Now()
		env.Create(web, host, job)
		time.Sleep(500 * time.Millisecond)
		env.Get(web)
		if web.Spec.NodeName == "" || web.Status.PodIP != "" {
			t.Errorf("before the first stage is due: node %q, address %q", web.Spec.NodeName, web.Status.PodIP)
		}
		time.Sleep(time.Minute)
		env.Get(web)
		env.Get(host)
		env.Get(job)
		if s := web.Status; s.Phase != corev1.PodRunning || s.PodIP == "" || s.HostIP == "" || s.PodIP == s.HostIP || len(s.ContainerStatuses) != 1 || !s.ContainerStatuses[0].Ready {
			t.Errorf("the pod is %+v", s)
		}
		if started := web.Status.ContainerStatuses[0].State.Running.StartedAt; started.Sub(begin) < 2*time.Second {
			t.Errorf("the container has started after %v, want two delays of at least a second", started.Sub(begin))
		}
		if host.Status.PodIP != host.Status.HostIP || host.Status.PodIP == "" {
			t.Errorf("the address of the host's pod is %q, of the host %q", host.Status.PodIP, host.Status.HostIP)
		}
		if job.Status.Succeeded != 1 {
			t.Errorf("the job is %+v", job.Status)
		}
		if events := eventsOf(t, env, "Pod", "web"); !hasEvent(events, "Created: Created container") || hasEvent(events, "StageFailed") {
			t.Errorf("the events are %q", events)
		}
		if err := env.Client().Delete(env.Context(), web); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := env.Client().Get(env.Context(), client.ObjectKeyFromObject(web), web); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted pod: %v", err)
		}
	}, with(o))
}

// TestFastPods plays KWOK's fast stages of pods, which need no time.
func TestFastPods(t *testing.T) {
	o := stages.Options{Nodes: simulated.Options{Nodes: 1}, Stages: read(t, "kustomize/stage/pod/fast")}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		web := newPod("web")
		env.Create(web)
		time.Sleep(10 * time.Second)
		env.Get(web)
		if s := web.Status; s.Phase != corev1.PodRunning || s.PodIP == "" || len(s.PodIPs) == 0 || s.HostIP == "" || s.PodIP == s.HostIP {
			t.Errorf("the pod is %+v\n%q", s, eventsOf(t, env, "Pod", "web"))
		}
	}, with(o))
}

// TestNodes makes nodes fail by KWOK's stages. The simulation only renews their Leases then.
func TestNodes(t *testing.T) {
	o := stages.Options{Nodes: simulated.Options{Nodes: 1}, Stages: read(t, "kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/node/chaos")}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
		env.Create(node)
		ready := func() *corev1.NodeCondition {
			env.Get(node)
			for i, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					return &node.Status.Conditions[i]
				}
			}
			return &corev1.NodeCondition{}
		}
		time.Sleep(time.Minute)
		if c := ready(); c.Status != corev1.ConditionTrue || len(node.Status.Addresses) == 0 || node.Status.Addresses[0].Address == "" {
			t.Errorf("the node is %+v, at %v", c, node.Status.Addresses)
		}
		first := ready().LastHeartbeatTime
		time.Sleep(time.Minute)
		if second := ready().LastHeartbeatTime; !first.Before(&second) {
			t.Errorf("the heartbeat of %v is followed by %v", first, second)
		}
		env.Update(node, func() { metav1.SetMetaDataLabel(&node.ObjectMeta, "node-not-ready.stage.kwok.x-k8s.io", "true") })
		time.Sleep(time.Minute)
		if c := ready(); c.Status != corev1.ConditionFalse || c.Reason != "nodeFailed" {
			t.Errorf("the node is %+v", c)
		}
	}, with(o))
}

func newStage(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const labelling = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: label}
spec:
  resourceRef: {apiGroup: v1, kind: ConfigMap}
  selector:
    matchLabels: {play: "yes"}
    matchExpressions:
    - {key: '.metadata.labels.done', operator: DoesNotExist}
  delay: {durationMilliseconds: 5000}
  steps:
  - patch: {root: metadata, template: 'labels: {done: {{ .metadata.name | Quote }}}'}
  - apply: {template: '{apiVersion: v1, kind: Secret, metadata: {name: {{ .metadata.name }}}, stringData: {a: b}}'}
  - event: {type: Normal, reason: Labelled, message: done}
`

// TestServer plays Stages on the server, of a kind that is defined while the player runs, until
// they are deleted.
func TestServer(t *testing.T) {
	definition, err := os.ReadFile(files(t, "kustomize/crd/bases/kwok.x-k8s.io_stages.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(newStage(t, string(definition)))
		time.Sleep(time.Second)
		stage := newStage(t, labelling)
		env.Create(stage)
		playing := map[string]string{"play": "yes"}
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", Labels: playing}}
		env.Create(one)
		time.Sleep(2 * time.Minute)
		env.Get(one)
		if one.Labels["done"] != "one" {
			t.Errorf("the labels are %v", one.Labels)
		}
		env.Get(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}})
		if events := eventsOf(t, env, "ConfigMap", "one"); len(events) != 1 || events[0] != "Labelled: done" {
			t.Errorf("the events are %q", events)
		}

		// A changed stage applies to objects that are there.
		two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two", Labels: map[string]string{"play": "no"}}}
		env.Create(two)
		env.Get(stage)
		env.Update(stage, func() {
			_ = unstructured.SetNestedStringMap(stage.Object, map[string]string{"play": "no"}, "spec", "selector", "matchLabels")
		})
		time.Sleep(time.Minute)
		env.Get(two)
		if two.Labels["done"] != "two" {
			t.Errorf("the labels are %v", two.Labels)
		}

		// A stage that cannot be compiled is an event, and stays as it was before. When it is deleted, it
		// ends.
		for i, end := range []func(){
			func() {
				env.Update(stage, func() {
					_ = unstructured.SetNestedSlice(stage.Object, []any{map[string]any{"key": "][", "operator": "Exists"}}, "spec", "selector", "matchExpressions")
				})
			},
			func() {
				if err := env.Client().Delete(env.Context(), stage); err != nil {
					t.Fatal(err)
				}
			},
		} {
			env.Get(stage)
			end()
			time.Sleep(time.Second)
			after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "after-", Labels: map[string]string{"play": "no"}}}
			env.Create(after)
			time.Sleep(time.Minute)
			if env.Get(after); (after.Labels["done"] != "") != (i == 0) {
				t.Errorf("the labels are %v", after.Labels)
			}
		}
		if events := eventsOf(t, env, "Stage", "label"); !hasEvent(events, "StageFailed") {
			t.Errorf("the events of the stage are %q", events)
		}
	}, with(stages.Options{}))
}

// TestFailures checks stages whose requests are rejected, whose templates fail, or which match all
// the time: they cost little.
func TestFailures(t *testing.T) {
	o := stages.Options{}
	for name, spec := range map[string]string{
		"invalid":     `{selector: {matchLabels: {play: invalid}}, steps: [{patch: {root: data, type: merge, template: 'a: [1]'}}]}`,
		"template":    `{selector: {matchLabels: {play: template}}, steps: [{patch: {root: data, template: '{{ .missing.field.x }}{{ fail "wrong" }}'}}]}`,
		"forbidden":   `{selector: {matchLabels: {play: forbidden}}, steps: [{patch: {root: data, template: 'a: b', impersonation: {username: stranger}}}]}`,
		"no kind":     `{selector: {matchLabels: {play: nokind}}, steps: [{apply: {template: '{metadata: {name: x}}'}}]}`,
		"always":      `{selector: {matchLabels: {play: always}}, steps: [{patch: {root: data, template: 'now: {{ Now | Quote }}'}}]}`,
		"subresource": `{selector: {matchLabels: {play: subresource}}, steps: [{patch: {subresource: status, root: data, template: 'a: b'}}, {event: {type: Normal, reason: Never}}]}`,
		"no name":     `{selector: {matchLabels: {play: noname}}, steps: [{apply: {template: '{apiVersion: v1, kind: Secret, metadata: {}}'}}]}`,
		"weight":      `{selector: {matchLabels: {play: weight}}, weightFrom: {jq: {expression: .metadata.annotations.w}}, steps: [{event: {type: Normal, reason: Never}}]}`,
		"weight too":  `{selector: {matchLabels: {play: weight}}, weightFrom: {jq: {expression: .metadata.annotations.w}}, steps: [{event: {type: Normal, reason: Never}}]}`,
		"flip":        `{selector: {matchLabels: {play: flip, f: "1"}}, steps: [{patch: {root: metadata, template: 'labels: {f: "2"}'}}]}`,
		"flop":        `{selector: {matchLabels: {play: flip, f: "2"}}, steps: [{patch: {root: metadata, template: 'labels: {f: "1"}'}}]}`,
		"immediately": `{selector: {matchLabels: {play: immediately}}, immediateNextStage: true, steps: [{patch: {root: data, template: 'a: b'}}]}`,
	} {
		s := parse(t, "metadata: {name: "+name+"}\nspec: "+spec)
		s.Spec.ResourceRef = kwok.StageResourceRef{APIGroup: "v1", Kind: "ConfigMap"}
		o.Stages = append(o.Stages, s)
	}
	events := parse(t, "metadata: {name: events}\nspec: {selector: {matchExpressions: [{key: .metadata.name, operator: Exists}]}, steps: [{event: {type: Normal, reason: Again}}, {patch: {template: '{{ fail \"x\" }}'}}]}")
	events.Spec.ResourceRef = kwok.StageResourceRef{APIGroup: "v1", Kind: "events"}
	o.Stages = append(o.Stages, events)
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		for _, name := range []string{"invalid", "template", "forbidden", "nokind", "always", "immediately", "subresource", "noname", "weight", "flip"} {
			env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"play": name, "f": "1"}, Annotations: map[string]string{"w": "-5"}}})
		}
		before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "always"}}
		time.Sleep(time.Second)
		env.Get(before)
		time.Sleep(10 * time.Second)
		after := before.DeepCopy()
		env.Get(after)
		first, _ := strconv.Atoi(before.ResourceVersion)
		last, _ := strconv.Atoi(after.ResourceVersion)
		if n := last - first; n > 40 { // of two objects that change once a second, and some events
			t.Errorf("%d writes in ten seconds", n)
		}
		if after.Data["now"] == before.Data["now"] {
			t.Errorf("a stage that matches all the time is played once: %v", after.Data)
		}
		for name, want := range map[string]string{
			"invalid": "cannot unmarshal", "template": "wrong", "forbidden": `User "stranger" cannot patch`, "nokind": "must have apiVersion and kind",
			"subresource": "could not find the requested resource", "noname": "name", "weight": "invalid argument to Int63n",
		} {
			events := eventsOf(t, env, "ConfigMap", name)
			if len(events) != 1 || !hasEvent(events, want) || !hasEvent(events, "StageFailed: ") {
				t.Errorf("the events of %s are %q, want one with %q", name, events, want)
			}
		}
	}, with(o))
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct{ text, want string }{
		{"kind: ConfigMap\napiVersion: v1\n", "has no object of kwok.x-k8s.io/v1alpha1"},
		{"kind: Stage\napiVersion: kwok.x-k8s.io/v2\n", "apiVersion is kwok.x-k8s.io/v2"},
		{"kind: Stage\napiVersion: kwok.x-k8s.io/v1alpha1\nspec: {selectr: {}}\n", `unknown field "selectr"`},
		{"kind: [\n", "stages.yaml: "},
	} {
		if _, err := stages.Read(write("stages.yaml", test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: the error is %v, want %q", test.text, err, test.want)
		}
	}
	if _, err := stages.Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file is no error")
	}
	for _, test := range []struct{ text, want string }{
		{"metadata: {name: a}\nspec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: '][', operator: Exists}]}}", "stage a: "},
		{"metadata: {name: a}\nspec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: .a, operator: In}]}}", "values set can't be empty"},
		{"metadata: {name: a}\nspec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: 'def f: f; f', operator: Exists}]}}", "take longer than 2s"},
		{"metadata: {name: a}\nspec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{cel: {expression: 'self.'}}]}}", "stage a: "},
		{"metadata: {name: a}\nspec: {resourceRef: {apiGroup: a/b/c, kind: Pod}}", "spec.resourceRef"},
		{"metadata: {name: ''}\nspec: {resourceRef: {kind: Pod}}", "stage 1 has no name"},
	} {
		if err := (stages.Options{Stages: []*kwok.Stage{parse(t, test.text)}}).Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: the error is %v, want %q", test.text, err, test.want)
		}
	}
}

// TestComeAndGo changes the stages of pods while these live: others take over from the simulation,
// and leave pods to it. A delay goes on when other stages change, and a Stage of a kind that does
// not exist has no effect.
func TestComeAndGo(t *testing.T) {
	crd, err := os.ReadFile(files(t, "kustomize/crd/bases/kwok.x-k8s.io_stages.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	never := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %s}\nspec: {resourceRef: {apiGroup: %s, kind: %s}, selector: {matchLabels: {never: %q}}, delay: {durationMilliseconds: 60000}, steps: [{patch: {root: metadata, template: 'labels: {done: now}'}}]}"
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		phase := func(p *corev1.Pod) corev1.PodPhase {
			env.Get(p)
			return p.Status.Phase
		}
		env.Create(newStage(t, string(crd)))
		time.Sleep(time.Second)
		env.Create(newStage(t, fmt.Sprintf(never, "nine", "v9", "Pod", "")), newStage(t, fmt.Sprintf(never, "kind", "v1", "Nothing", "")))
		one := newPod("one")
		env.Create(one)
		time.Sleep(time.Minute)
		if p := phase(one); p != corev1.PodRunning {
			t.Errorf("with a Stage of v9 the pod is %s", p)
		}
		for _, name := range []string{"nine", "kind"} {
			if events := eventsOf(t, env, "Stage", name); len(events) != 1 || !hasEvent(events, "no matches for kind") {
				t.Errorf("the events of stage %s are %q", name, events)
			}
		}
		pods := newStage(t, fmt.Sprintf(never, "pods", "v1", "pods", "x"))
		env.Create(pods)
		time.Sleep(time.Second)
		two, three := newPod("two"), newPod("three")
		three.Labels = map[string]string{"never": "x"}
		env.Create(two, three)
		for range 5 {
			time.Sleep(10 * time.Second)
			env.Update(pods, func() { pods.SetAnnotations(map[string]string{"at": time.Now().String()}) })
		}
		if p := phase(two); p != corev1.PodPending {
			t.Errorf("with a Stage for pods the pod is %s", p)
		}
		if env.Get(three); three.Labels["done"] != "" {
			t.Error("a delay of a minute is over after 50 seconds")
		}
		time.Sleep(12 * time.Second)
		if env.Get(three); three.Labels["done"] != "now" {
			t.Error("a delay of a minute is not over after 62 seconds")
		}
		if err := env.Client().Delete(env.Context(), pods); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if p := phase(two); p != corev1.PodRunning {
			t.Errorf("after the last Stage for pods the pod is %s", p)
		}
	}, with(stages.Options{Nodes: simulated.Options{Nodes: 1}}))
}

// TestRead checks that a stage with a mistake is an error that names file and field.
func TestRead(t *testing.T) {
	for spec, want := range map[string]string{
		`{next: {statusTemplate: "{{ .a"}}`:                                             "spec.next.statusTemplate: build template: ",
		`{next: {patches: [{template: "a: b"}, {template: "{{ Nothing }}"}]}}`:          `spec.next.patches[1].template: build template: template: _:1: function "Nothing" not defined`,
		`{next: {event: {type: Error, reason: A}}}`:                                     `spec.next.event.type is "Error": must be Normal or Warning`,
		`{steps: [{delete: true}, {event: {reason: A}}]}`:                               `spec.steps[1].event.type is "": must be Normal or Warning`,
		`{steps: [{patch: {template: "{{ end }}"}}]}`:                                   "spec.steps[0].patch.template: build template: ",
		`{steps: [{apply: {template: "{{ if }}"}}]}`:                                    "spec.steps[0].apply.template: build template: ",
		`{steps: [{patch: {template: "{{ .missing.field.x }}{{ NodeIP }}{{ Now }}"}}]}`: "",
	} {
		file := filepath.Join(t.TempDir(), "stage.yaml")
		text := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: wrong}\nspec: " + strings.TrimSuffix(spec, "}") + `, resourceRef: {kind: Pod}, selector: {matchLabels: {a: b}}}` + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := stages.Read(file)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", spec, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), file+": stage wrong: "+want)):
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// TestUnwatched checks that a stage for a kind which cannot be watched is reported.
func TestUnwatched(t *testing.T) {
	definition, err := os.ReadFile(files(t, "kustomize/crd/bases/kwok.x-k8s.io_stages.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(newStage(t, string(definition)))
		time.Sleep(time.Second)
		env.Create(newStage(t, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: reviews}\n"+
			"spec: {resourceRef: {apiGroup: authentication.k8s.io/v1, kind: TokenReview}, selector: {matchLabels: {a: b}}, steps: [{delete: true}]}\n"))
		time.Sleep(time.Minute)
		if events := eventsOf(t, env, "Stage", "reviews"); len(events) != 1 || !hasEvent(events, "spec.resourceRef: tokenreviews.authentication.k8s.io does not support the verb list") {
			t.Errorf("the events of the stage are %q", events)
		}
	}, with(stages.Options{}))
}

// TestUsages checks what pods use by KWOK's ResourceUsages.
func TestUsages(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(own, []byte(`{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ResourceUsage, metadata: {name: own, namespace: default}, spec: {usages: [
		{containers: [other], usage: {cpu: {value: 1}}},
		{usage: {cpu: {value: 7m}, memory: {expression: 'pod.metadata.name == "own" ? Quantity("3Mi") : Quantity("1Mi")'}}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	usages, err := stages.ReadUsages(files(t, "kustomize/metrics/usage"), own)
	if err != nil || usages == nil {
		t.Fatal(err)
	}
	served := &simulated.Metrics{}
	o := stages.Options{Nodes: simulated.Options{Nodes: 1, Metrics: served}, Usages: usages}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		web := newPod("web")
		web.Annotations = map[string]string{"kwok.x-k8s.io/usage-cpu": "300m", "kwok.x-k8s.io/usage-memory": "100Mi"}
		env.Create(web, newPod("idle"), newPod("own"))
		time.Sleep(10 * time.Second)
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods", nil))
		for _, want := range []string{
			`"name":"c","usage":{"cpu":"1m","memory":"1Mi"}`, `"name":"c","usage":{"cpu":"300m","memory":"100Mi"}`, `"name":"c","usage":{"cpu":"7m","memory":"3Mi"}`,
		} {
			if !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s is not in %s", want, answer.Body)
			}
		}
	}, with(o))
	for spec, want := range map[string]string{
		"{usage: {cpu: {expression: 'pod.nothing('}}}": "own: spec.usages[0].usage.cpu.expression: ",
		"{usage: {cpu: {}}}":                           "own: spec.usages[0].usage.cpu: value or expression must be set",
		"{usage: {memory: {value: -1}}}":               "own: spec.usages[0].usage.memory.value is -1: must not be negative",
	} {
		if err := os.WriteFile(own, []byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterResourceUsage\nmetadata: {name: own}\nspec: {usages: ["+spec+"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := stages.ReadUsages(own); err == nil || !strings.Contains(err.Error(), own+": "+want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
