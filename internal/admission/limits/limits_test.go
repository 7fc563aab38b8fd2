package limits

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestFill checks that present values stay, that absent ones are set and annotated, and that later
// LimitRanges see what earlier ones have set.
func TestFill(t *testing.T) {
	pod := *parse[resource.Tree](t, `{spec: {containers: [{name: a}, {name: b, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}], initContainers: [{name: i, resources: {requests: {memory: 1Gi}}}]}}`)
	for _, limits := range []string{
		`{spec: {limits: [{type: Pod, default: {cpu: "9"}}, {type: Container, default: {cpu: "2"}, defaultRequest: {cpu: 100m, memory: 2Gi}}]}}`,
		`{spec: {limits: [{type: Container, default: {cpu: "7"}}]}}`,
		`{spec: {}}`,
	} {
		fill(pod, parse[corev1.LimitRange](t, limits))
	}
	want := *parse[resource.Tree](t, `
metadata: {annotations: {kubernetes.io/limit-ranger: "LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a; memory request for container b; cpu request for init container i; cpu limit for init container i"}}
spec:
  containers:
  - {name: a, resources: {limits: {cpu: "2"}, requests: {cpu: 100m, memory: 2Gi}}}
  - {name: b, resources: {limits: {cpu: "1"}, requests: {cpu: "1", memory: 2Gi}}}
  initContainers: [{name: i, resources: {limits: {cpu: "2"}, requests: {cpu: 100m, memory: 1Gi}}}]`)
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct{ limit, container, want string }{
		{`{min: {cpu: 1}}`, `{}`, "minimum cpu usage per Container is 1.  No request is specified"},
		{`{max: {cpu: 1}}`, `{}`, "maximum cpu usage per Container is 1.  No limit is specified"},
		{`{max: {cpu: 1}}`, `{limits: {cpu: 1}, requests: {cpu: 1}}`, ""},
		{`{max: {cpu: 1}}`, `{limits: {cpu: 1001m}}`, "maximum cpu usage per Container is 1, but limit is 1001m"},
		{`{min: {memory: 1Gi}}`, `{requests: {memory: 1Gi}, limits: {memory: 1Mi}}`, "minimum memory usage per Container is 1Gi, but limit is 1Mi"},
		// Values that do not fit into thousandths are compared as whole numbers.
		{`{max: {example.com/x: 9E}}`, `{limits: {example.com/x: 8E}}`, ""},
		{`{max: {example.com/x: 8E}}`, `{limits: {example.com/x: 9E}}`, "maximum example.com/x usage per Container is 8E, but limit is 9E"},
		{`{maxLimitRequestRatio: {cpu: 2}}`, `{limits: {cpu: 2}}`, "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{`{maxLimitRequestRatio: {cpu: 2}}`, `{requests: {cpu: 2}, limits: {cpu: 0}}`, "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		{`{maxLimitRequestRatio: {cpu: 1500m}}`, `{requests: {cpu: 2}, limits: {cpu: 3}}`, ""},
		{`{maxLimitRequestRatio: {cpu: 1500m}}`, `{requests: {cpu: 2}, limits: {cpu: 4}}`, "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"},
	} {
		limit := parse[corev1.LimitRangeItem](t, tc.limit)
		limit.Type = corev1.LimitTypeContainer
		limits := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{*limit}}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: *parse[corev1.ResourceRequirements](t, tc.container)}}}}
		got := ""
		if err := judgePod(limits, pod); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s of %s: got %q, want %q", tc.container, tc.limit, got, tc.want)
		}
	}
}
