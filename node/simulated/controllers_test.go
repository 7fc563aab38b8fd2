package simulated_test

import (
	"context"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// within returns a context that ends after a virtual time.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// template is that of a set's pods.
func template(simulation string) corev1.PodTemplateSpec {
	labels := map[string]string{"app": "a"}
	p := newPod("", "")
	if simulation != "" {
		simulating(p, simulation)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: p.Annotations}, Spec: p.Spec}
}

// TestDeployment rolls a Deployment out, and updates it to an image that cannot be pulled.
func TestDeployment(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 2)
		schedule(t, env, "node-0", "node-1")
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(5)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, Template: template(""),
		}}
		env.Create(d)
		env.WaitFor(t.Context(), d, func() bool { return d.Status.AvailableReplicas == 5 })
		env.Update(d, func() {
			d.Spec.Template.Annotations = map[string]string{simulated.SimulationAnnotation: "containers: {c: {pullError: true}}"}
		})
		time.Sleep(11 * time.Minute)
		env.Get(d)
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && c.Reason != "ProgressDeadlineExceeded" || c.Type == appsv1.DeploymentAvailable && c.Status != corev1.ConditionTrue {
				t.Errorf("%+v", c)
			}
		}
		env.Update(d, func() { d.Spec.Template.Annotations = nil; d.Spec.Template.Spec.Containers[0].Image = "i:2" })
		env.WaitFor(within(t, 10*time.Minute), d, func() bool {
			return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 5 && d.Status.AvailableReplicas == 5 && d.Status.Replicas == 5
		})
	}, kapoktest.Controllers(controllers.Options{}))
}

func TestJobs(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		start(t, env, 1)
		schedule(t, env, "node-0")
		job := func(name, simulation string, spec batchv1.JobSpec) *batchv1.Job {
			spec.Template = template(simulation)
			spec.Template.Labels = nil
			spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
		}
		good := job("good", "", batchv1.JobSpec{Completions: new(int32(4)), Parallelism: new(int32(2))})
		bad := job("bad", "containers: {c: {run: 3s, exit: 7}}", batchv1.JobSpec{BackoffLimit: new(int32(2))})
		stops := job("stops", "containers: {c: {run: 1h}}", batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(30))})
		codes := job("codes", "containers: {c: {run: 3s, exit: 42}}", batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
			},
		}}}})
		env.Create(good, bad, stops, codes)
		ended := func(j *batchv1.Job, of batchv1.JobConditionType) string {
			reason := ""
			env.WaitFor(within(t, 10*time.Minute), j, func() bool {
				for _, c := range j.Status.Conditions {
					if c.Type == of && c.Status == corev1.ConditionTrue {
						reason = c.Reason
						return true
					}
				}
				return false
			})
			return reason
		}
		if ended(good, batchv1.JobComplete); good.Status.Succeeded != 4 {
			t.Errorf("%+v", good.Status)
		}
		if reason := ended(bad, batchv1.JobFailed); reason != batchv1.JobReasonBackoffLimitExceeded || bad.Status.Failed != 3 {
			t.Errorf("%s, %+v", reason, bad.Status)
		}
		if reason := ended(stops, batchv1.JobFailed); reason != batchv1.JobReasonDeadlineExceeded {
			t.Errorf("%s, %+v", reason, stops.Status)
		}
		if reason := ended(codes, batchv1.JobFailed); reason != batchv1.JobReasonPodFailurePolicy {
			t.Errorf("%s, %+v", reason, codes.Status)
		}
	}, kapoktest.Controllers(controllers.Options{}))
}
