package versions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestConverter checks that every field of every version has a conversion or a rule that drops it.
func TestConverter(t *testing.T) {
	if _, err := Converter(); err != nil {
		t.Fatal(err)
	}
}

// TestEveryKind converts every kind to all of its versions and back, without loss.
func TestEveryKind(t *testing.T) {
	c, err := Converter()
	if err != nil {
		t.Fatal(err)
	}
	for gvk := range Scheme().AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" {
			continue
		}
		obj, err := Decode([]byte(`{"apiVersion":"`+gvk.GroupVersion().String()+`","kind":"`+gvk.Kind+`"}`), nil)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		for _, target := range c.Versions(obj) {
			out, err := c.To(obj, target.GroupVersion())
			if err != nil {
				t.Errorf("%s to %s: %v", gvk, target, err)
			} else if got := out.GetObjectKind().GroupVersionKind(); got != target {
				t.Errorf("%s to %s: is %s", gvk, target, got)
			}
		}
		if _, err := c.To(obj, schema.GroupVersion{}); err != nil {
			t.Errorf("%s: %v", gvk, err)
		}
	}
}

// TestForgotten compares the conversions of versions that k8s.io/api no longer has with recorded
// ones of Kubernetes.
func TestForgotten(t *testing.T) {
	const (
		target = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"
		status = "status: {currentReplicas: 1, desiredReplicas: 2"
	)
	for _, test := range []struct {
		name, in, target, want string
	}{
		{"v2beta1 to v2", `
apiVersion: autoscaling/v2beta1
kind: HorizontalPodAutoscaler
metadata:
  name: web
  annotations:
    autoscaling.alpha.kubernetes.io/behavior: '{"ScaleDown":{"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":2}]}}'
spec:
  ` + target + `
  maxReplicas: 5
  metrics:
  - type: Resource
    resource: {name: cpu, targetAverageUtilization: 50}
  - type: Pods
    pods: {metricName: rps, targetAverageValue: 10}
  - type: External
    external: {metricName: q, targetValue: 3}
` + status + `, currentMetrics: [{type: Resource, resource: {name: cpu, currentAverageValue: 5m}}], conditions: []}
`, "autoscaling/v2", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  ` + target + `
  minReplicas: 1
  maxReplicas: 5
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
  - type: Pods
    pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "10"}}
  - type: External
    external: {metric: {name: q}, target: {type: Value, value: "3"}}
  behavior:
    scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 2}]}
` + status + `, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageValue: 5m}}}]}
`},
		{"v2beta1 without metrics has the default", `
apiVersion: autoscaling/v2beta1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {` + target + `, maxReplicas: 5}
`, "autoscaling/v1", `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {` + target + `, maxReplicas: 5, minReplicas: 1, targetCPUUtilizationPercentage: 80}
status: {currentReplicas: 0, desiredReplicas: 0}
`},
		{"v2 to v2beta1", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  ` + target + `
  maxReplicas: 5
  metrics:
  - type: Object
    object: {describedObject: {kind: Service, name: s}, metric: {name: m}, target: {type: Value, value: 7}}
  behavior:
    scaleUp: {selectPolicy: Disabled, policies: []}
`, "autoscaling/v2beta1", `
apiVersion: autoscaling/v2beta1
kind: HorizontalPodAutoscaler
metadata:
  name: web
  annotations:
    autoscaling.alpha.kubernetes.io/behavior: '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Disabled","Policies":[],"Tolerance":null},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}'
spec:
  ` + target + `
  minReplicas: 1
  maxReplicas: 5
  metrics:
  - type: Object
    object: {target: {kind: Service, name: s}, metricName: m, targetValue: "7"}
status: {currentReplicas: 0, desiredReplicas: 0, currentMetrics: null, conditions: null}
`},
		{"v2beta2 to v2", `
apiVersion: autoscaling/v2beta2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {` + target + `, maxReplicas: 5, metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Mi}}}]}
`, "autoscaling/v2", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {` + target + `, minReplicas: 1, maxReplicas: 5, metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Mi}}}]}
status: {desiredReplicas: 0, currentMetrics: null}
`},
		{"v2alpha1 to v1", `
apiVersion: batch/v2alpha1
kind: CronJobList
items:
- metadata: {name: c}
  spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never}}}}}
`, "", `
apiVersion: batch/v1
kind: CronJobList
metadata: {}
items:
- metadata: {name: c}
  spec:
    schedule: "* * * * *"
    concurrencyPolicy: Allow
    suspend: false
    successfulJobsHistoryLimit: 3
    failedJobsHistoryLimit: 1
    jobTemplate:
      metadata: {}
      spec:
        template:
          metadata: {}
          spec:
            containers: null
            dnsPolicy: ClusterFirst
            restartPolicy: Never
            schedulerName: default-scheduler
            securityContext: {}
            terminationGracePeriodSeconds: 30
  status: {}
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			target, err := schema.ParseGroupVersion(test.target)
			if err != nil {
				t.Fatal(err)
			}
			data, err := yaml.YAMLToJSON([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Convert(data, target, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tree(t, test.want), tree(t, string(text))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func tree(t *testing.T, text string) (v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKnows(t *testing.T) {
	for _, test := range []struct{ apiVersion, kind, want string }{
		{"apps/v1", "Deployment", ""},
		{"v1", "List", ""},
		{"", "Pod", "apiVersion must not be empty"},
		{"v1", "", "kind must not be empty"},
		{"apps/__internal", "WatchEvent", "kind WatchEvent has no version apps/__internal, but "},
		{"settings.k8s.io/v1alpha1", "PodPreset", "settings.k8s.io/v1alpha1, Kind=PodPreset has no successor: Kubernetes 1.20 removed it"},
		{"example.com/v1", "Foo", "no kind Foo is known in example.com/v1"},
		{"storage.k8s.io/v2", "CSINode", "kind CSINode has no version storage.k8s.io/v2, but storage.k8s.io/v1 or storage.k8s.io/v1beta1"},
	} {
		err := Knows(schema.FromAPIVersionAndKind(test.apiVersion, test.kind))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s %s: %v, want %s", test.apiVersion, test.kind, err, test.want)
		}
	}
}

// TestPreferred checks that, without a target, an object stays in its group if that has a stable
// version.
func TestPreferred(t *testing.T) {
	for _, test := range []struct{ apiVersion, kind, want, fail string }{
		{"events.k8s.io/v1", "Event", "events.k8s.io/v1", ""},
		{"events.k8s.io/v1beta1", "Event", "events.k8s.io/v1", ""},
		{"v1", "Event", "v1", ""},
		{"v1", "EventList", "v1", ""},
		{"extensions/v1beta1", "Deployment", "apps/v1", ""},
		{"extensions/v1beta1", "DaemonSetList", "apps/v1", ""},
		{"extensions/v1beta1", "Ingress", "networking.k8s.io/v1", ""},
		{"apps/v1beta1", "Scale", "autoscaling/v1", ""},
		{"autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling/v2", ""},
		{"v1", "List", "v1", ""},
		{"apps/v1beta1", "DeploymentRollback", "", `apps/v1beta1, Kind=DeploymentRollback has no successor: Kubernetes 1.16 removed it in favour of "kubectl rollout undo"`},
		{"extensions/v1beta1", "DeploymentRollback", "", `extensions/v1beta1, Kind=DeploymentRollback has no successor: Kubernetes 1.16 removed it in favour of "kubectl rollout undo"`},
	} {
		obj, err := Convert([]byte(`{"apiVersion":"`+test.apiVersion+`","kind":"`+test.kind+`"}`), schema.GroupVersion{}, nil)
		if err != nil {
			if err.Error() != test.fail {
				t.Errorf("%s %s: %v", test.apiVersion, test.kind, err)
			}
			continue
		}
		if got := obj.GetObjectKind().GroupVersionKind().GroupVersion().String(); got != test.want {
			t.Errorf("%s %s becomes %s, want %s", test.apiVersion, test.kind, got, test.want)
		}
	}
}

// TestStrict checks the errors of unknown and duplicate fields.
func TestStrict(t *testing.T) {
	var found []error
	_, err := Convert([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","nam":"b"},
		"spec":{"replcas":3,"replicas":1,"replicas":2,"template":{"spec":{"containers":[{"imag":"x"}]}}}}`), schema.GroupVersion{}, &found)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, err := range found {
		got = append(got, err.Error())
	}
	want := []string{`unknown field "metadata.nam"`, `unknown field "spec.replcas"`, `duplicate field "spec.replicas"`, `unknown field "spec.template.spec.containers[0].imag"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// FuzzConvert checks that any input is converted to the target or returns an error.
func FuzzConvert(f *testing.F) {
	f.Add(`{"apiVersion":"apps/v1beta1","kind":"Deployment","spec":{"rollbackTo":{}}}`, "apps/v1")
	f.Add(`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{}]"}}}`, "")
	f.Add(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"version":"v1"}}`, "apiextensions.k8s.io/v1")
	f.Add(`{"apiVersion":"v1","kind":"List","items":[{},{"apiVersion":"v1","kind":"Pod"}]}`, "v1")
	f.Fuzz(func(t *testing.T, data, version string) {
		target, err := schema.ParseGroupVersion(version)
		if err != nil {
			return
		}
		out, err := Convert([]byte(data), target, nil)
		if err != nil {
			return
		}
		if got := out.GetObjectKind().GroupVersionKind().GroupVersion(); !target.Empty() && got != target && !strings.HasSuffix(out.GetObjectKind().GroupVersionKind().Kind, "List") {
			t.Errorf("%s is in %s, want %s", data, got, target)
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	data := []byte(`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"c:1","ports":[{"containerPort":80}]}]}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Convert(data, schema.GroupVersion{Group: "apps", Version: "v1"}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
