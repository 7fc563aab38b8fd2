package podautoscaler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// TestWritesAtRest counts the writes of a virtual hour in which nothing happens, for autoscalers
// that work and for those that cannot.
func TestWritesAtRest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "horizontalpodautoscaling")
		idle, unknown, unmeasured := newTarget("idle", 0), newAutoscaler("unknown", "web", 1, 9), newAutoscaler("unmeasured", "web", 1, 9)
		unknown.Spec.ScaleTargetRef.Kind = "Unknown"
		unmeasured.Spec.Metrics = nil // CPU, which has no API
		one := newTarget("one", 3)
		env.Create(newQueue(30), idle, one,
			newAutoscaler("works", "one", 1, 9), newAutoscaler("disabled", "idle", 1, 9), newAutoscaler("missing", "nothing", 1, 9), unknown, unmeasured)
		env.UpdateStatus(one, func() { one.Status.Replicas = 3 })
		time.Sleep(10 * time.Minute)
		if n := controllertest.Writes(env, time.Hour); n > 0 {
			t.Errorf("%d writes, want none: %v", n, env.Writes())
		}
		works := &autoscalingv2.HorizontalPodAutoscaler{}
		works.Namespace, works.Name = "default", "works"
		if env.Get(works); works.Status.CurrentReplicas != 3 || works.Status.DesiredReplicas != 3 {
			t.Errorf("status %+v, want 3 replicas", works.Status)
		}
	}, withQueues)
}

// TestRefusedScale counts the writes of a virtual hour in which an admission policy refuses every
// change of the scale: one attempt in a period, and no status that says the same again.
func TestRefusedScale(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "horizontalpodautoscaling")
		web := newTarget("web", 3)
		env.Create(newQueue(90), web, newAutoscaler("web", "web", 1, 9))
		env.UpdateStatus(web, func() { web.Status.Replicas = 3 })
		time.Sleep(10 * time.Minute)
		before := len(env.Writes())
		time.Sleep(time.Hour)
		scales, others := 0, 0
		for _, w := range env.Writes()[before:] {
			switch {
			case strings.HasSuffix(w.Path, "/scale"):
				scales++
			case !strings.Contains(w.Path, "/events"):
				others++
			}
		}
		if scales < 235 || scales > 245 || others > 0 {
			t.Errorf("%d attempts and %d other writes in an hour, want 240 and none", scales, others)
		}
	}, withQueues, kapoktest.YAML(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: scale}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [replicasets/scale]}]}
  validations: [{expression: "false", message: "no"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: scale}
spec: {policyName: scale, validationActions: [Deny]}
`))
}

// TestReadOnly counts the writes of a virtual hour in which the controller may write nothing.
func TestReadOnly(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "horizontalpodautoscaling")
		env.Create(newQueue(90), newTarget("web", 3), newAutoscaler("web", "web", 1, 9))
		time.Sleep(10 * time.Minute)
		if n := controllertest.Writes(env, time.Hour); n < 470 || n > 490 {
			t.Errorf("%d writes in an hour, want 480: of the scale and of the status, every 15 seconds", n)
		}
	}, withQueues)
}

// TestNoMetricsAPI checks the conditions and events of an autoscaler without metrics APIs.
func TestNoMetricsAPI(t *testing.T) {
	for name, tc := range map[string]struct {
		metric autoscalingv2.MetricSpec
		want   string
	}{
		"resource": {autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
		}}, "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"},
		"pods": {autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "requests"},
			Target: newAutoscaler("", "", 0, 0).Spec.Metrics[0].External.Target,
		}}, "unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"},
		"external": {newAutoscaler("", "", 0, 0).Spec.Metrics[0], "unable to get external metric default/queue/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)"},
	} {
		t.Run(name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				controllertest.Run(t, env, "horizontalpodautoscaling")
				h := newAutoscaler("web", "web", 1, 9)
				h.Spec.Metrics = []autoscalingv2.MetricSpec{tc.metric}
				env.Create(newTarget("web", 3), h)
				env.Settle()
				env.Get(h)
				for _, c := range h.Status.Conditions {
					if c.Type == autoscalingv2.ScalingActive {
						if want := "the HPA was unable to compute the replica count: " + tc.want; c.Status != "False" || c.Message != want {
							t.Errorf("ScalingActive is %s: %s\nwant False: %s", c.Status, c.Message, want)
						}
						return
					}
				}
				t.Errorf("no condition ScalingActive: %+v", h.Status)
			})
		})
	}
}

// TestRecreated checks that an autoscaler which is deleted and created again has forgotten what was
// recommended before.
func TestRecreated(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "horizontalpodautoscaling")
		web, queue, h := newTarget("web", 9), newQueue(90), newAutoscaler("web", "web", 1, 9)
		env.Create(queue, web, h)
		env.UpdateStatus(web, func() { web.Status.Replicas = 9 })
		time.Sleep(time.Minute)
		env.Update(queue, func() { queue.Object["value"] = "30" })
		env.Update(web, func() { web.Spec.Replicas = new(int32(3)) }) // by a user
		env.UpdateStatus(web, func() { web.Status.Replicas = 3 })
		env.Delete(h)
		env.Create(newAutoscaler("web", "web", 1, 9))
		time.Sleep(time.Minute)
		if env.Get(web); *web.Spec.Replicas != 3 {
			t.Errorf("%d replicas, want 3: the recommendation of 9 is the deleted autoscaler's", *web.Spec.Replicas)
		}
	}, withQueues)
}
