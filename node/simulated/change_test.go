package simulated

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNeeds(t *testing.T) {
	l := newLife(t, "", nil)
	l.needs = needs{volumes: []string{`MountVolume.SetUp failed for volume "v" : configmap "m" not found`}}
	l.look(0)
	l.needs = needs{claims: "fetch ResourceClaim r"}
	l.look(time.Second)
	l.needs = needs{config: map[string]string{"c": `configmap "m" not found`}}
	l.look(2 * time.Second)
	if got := l.pod.Status.ContainerStatuses[0].State.Waiting.Message; got != `configmap "m" not found` {
		t.Errorf("message %q", got)
	}
	l.needs = needs{}
	l.look(3*time.Second).want(
		"0s Pending c:ContainerCreating | FailedMount",
		"1s Pending c:ContainerCreating | FailedPrepareDynamicResources",
		"2s Pending c:CreateContainerConfigError | Failed",
		"3s Running c:running ready | Pulled Created Started",
	)
}

func TestReadinessGates(t *testing.T) {
	l := newLife(t, "", func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	}).until(0)
	want := `corresponding condition of pod readiness gate "example.com/gate" does not exist.`
	if c := podstatus.Condition(&l.pod.Status, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" || c.Message != want {
		t.Errorf("%+v", c)
	}
	l.pod.Status.Conditions = append(l.pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	l.look(5 * time.Second)
	if c := podstatus.Condition(&l.pod.Status, corev1.PodReady); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(epoch.Add(5*time.Second)) {
		t.Errorf("%+v", c)
	}
	if l.pod.Status.Conditions[0].Type != "example.com/gate" {
		t.Errorf("the conditions of others do not come first: %v", l.pod.Status.Conditions)
	}
}

func TestEphemeralContainers(t *testing.T) {
	l := newLife(t, "containers: {debug: {run: 5s}}", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}}}
	})
	l.until(time.Hour).want(
		"0s Running c:running debug:running ready | Pulled Created Started Pulled Created Started",
		"5s Running c:running debug:Completed(0) ready",
	)
}

func TestImageChange(t *testing.T) {
	l := newLife(t, "", nil).until(0)
	l.pod.Spec.Containers[0].Image, l.pod.Generation = "i:2", 2
	l.look(time.Minute)
	s := l.pod.Status.ContainerStatuses[0]
	if s.Image != "docker.io/library/i:2" || s.RestartCount != 1 || l.pod.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", s)
	}
	l.want("0s Running c:running ready | Pulled Created Started", "1m0s Running c:runningx1 ready | Killing Pulled Created Started")
}

func TestResize(t *testing.T) {
	cpu := func(n string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
	}
	l := newLife(t, "", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1") }).until(0)
	l.pod.Spec.Containers[0].Resources, l.pod.Generation = cpu("2"), 2
	l.look(time.Minute)
	if got := l.pod.Status.ContainerStatuses[0].AllocatedResources.Cpu().String(); got != "2" {
		t.Errorf("allocated %s", got)
	}
	if got := l.pod.Status.AllocatedResources.Cpu().String(); got != "2" {
		t.Errorf("allocated for the pod %s", got)
	}
	l.pod.Spec.Containers[0].Resources, l.pod.Generation = cpu("5"), 3
	l.look(2 * time.Minute)
	c := podstatus.Condition(&l.pod.Status, corev1.PodResizePending)
	if c == nil || c.Reason != corev1.PodReasonInfeasible || c.Message != "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000" {
		t.Errorf("%+v", c)
	}
	l.pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	l.pod.Spec.Containers[0].Resources, l.pod.Generation = cpu("3"), 4
	l.look(3 * time.Minute)
	if c := podstatus.Condition(&l.pod.Status, corev1.PodResizePending); c != nil {
		t.Errorf("%+v remains", c)
	}
	l.want(
		"0s Running c:running ready | Pulled Created Started",
		"1m0s Running c:running ready | ResizeStarted ResizeCompleted",
		"2m0s Running c:running ready | ResizeInfeasible",
		"3m0s Running c:runningx1 ready | ResizeStarted Killing Pulled Created Started ResizeCompleted",
	)
}

// TestEndedByOthers stops the containers of a pod that another client has declared to have failed.
func TestEndedByOthers(t *testing.T) {
	l := newLife(t, "", nil).until(0)
	l.pod.Status.Phase, l.pod.Status.Reason = corev1.PodFailed, "Evicted"
	l.look(time.Minute).want("0s Running c:running ready | Pulled Created Started", "1m0s Failed(Evicted) c:Error(137) | Killing")
}

// TestLateLooks looks at a pod after a long time in which its process did not run.
func TestLateLooks(t *testing.T) {
	l := newLife(t, "containers: {c: {run: 1m, exit: 1}}", job).until(0)
	l.look(time.Hour)
	end := l.pod.Status.ContainerStatuses[0].State.Terminated
	if end == nil || !end.FinishedAt.Time.Equal(epoch.Add(time.Minute)) {
		t.Errorf("%+v", end)
	}
}
