package pods

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podsTable is the table of pods.
func podsTable() kind.Table[*corev1.Pod] {
	return kind.Table[*corev1.Pod]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
		kind.Column("Status", "The aggregate status of the containers in this pod."),
		kind.Column("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
		kind.AgeColumn(),
		kind.Wide(kind.FieldColumn("IP", corev1.PodStatus{}, "podIP")),
		kind.Wide(kind.FieldColumn("Node", corev1.PodSpec{}, "nodeName")),
		kind.Wide(kind.FieldColumn("Nominated Node", corev1.PodStatus{}, "nominatedNodeName")),
		kind.Wide(kind.FieldColumn("Readiness Gates", corev1.PodSpec{}, "readinessGates")),
	}, Cells: podCells, Conditions: podConditions}
}

// podConditions mark finished pods, which clients can leave out.
func podConditions(pod *corev1.Pod) []metav1.TableRowCondition {
	done := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase)}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		done.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		done.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{done}
}

func podCells(pod *corev1.Pod, now time.Time) []any {
	s := summarise(pod)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts += " (" + kind.Since(s.lastRestart, now) + " ago)"
	}
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.containers), s.reason, restarts, kind.Age(pod.ObjectMeta, now),
		kind.OrNone(ip), kind.OrNone(pod.Spec.NodeName), kind.OrNone(pod.Status.NominatedNodeName), readinessGates(pod),
	}
}

// podSummary is the state of a pod's containers in one row. Sidecars, the init containers that keep
// running, count as containers.
type podSummary struct {
	reason            string
	ready, containers int
	restarts          int
	lastRestart       time.Time
}

func summarise(pod *corev1.Pod) podSummary {
	s := podSummary{reason: string(pod.Status.Phase), containers: len(pod.Spec.Containers)}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonSchedulingGated {
		s.reason = corev1.PodReasonSchedulingGated
	}
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.containers++
		}
	}
	initialising, ofSidecars := s.addInit(pod, sidecars)
	if initialized := podCondition(pod, corev1.PodInitialized); !initialising || initialized != nil && initialized.Status == corev1.ConditionTrue {
		// From here on, restarts are those of containers that keep running.
		s.restarts, s.lastRestart = ofSidecars.restarts, ofSidecars.lastRestart
		s.addContainers(pod)
	}
	switch {
	case pod.DeletionTimestamp == nil:
	case pod.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

func (s *podSummary) count(status *corev1.ContainerStatus) {
	s.restarts += int(status.RestartCount)
	if t := status.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(t.FinishedAt.Time) {
		s.lastRestart = t.FinishedAt.Time
	}
}

// addInit summarizes init containers up to the first that is not done, and reports whether there is
// one. Restarts of sidecars are counted apart.
func (s *podSummary) addInit(pod *corev1.Pod, sidecars map[string]bool) (initialising bool, ofSidecars podSummary) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		s.count(status)
		if sidecars[status.Name] {
			ofSidecars.count(status)
		}
		terminated, waiting := status.State.Terminated, status.State.Waiting
		switch {
		case terminated != nil && terminated.ExitCode == 0:
			continue
		case sidecars[status.Name] && ptr.Deref(status.Started, false):
			if status.Ready {
				s.ready++
			}
			continue
		case terminated != nil:
			s.reason = "Init:" + endOf(terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return true, ofSidecars
	}
	return false, ofSidecars
}

// addContainers takes the reason from the first container that has one.
func (s *podSummary) addContainers(pod *corev1.Pod) {
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.count(status)
		terminated, waiting := status.State.Terminated, status.State.Waiting
		switch {
		case waiting != nil && waiting.Reason != "":
			s.reason = waiting.Reason
		case terminated != nil:
			s.reason = endOf(terminated)
			if terminated.ExitCode != 0 {
				failure = s.reason
			}
		case status.Ready && status.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason != "Completed" {
		return
	}
	ready := podCondition(pod, corev1.PodReady)
	switch {
	case running && ready != nil && ready.Status == corev1.ConditionTrue:
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case running:
		s.reason = "NotReady"
	}
}

func endOf(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func podCondition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if c := podCondition(pod, gate.ConditionType); c != nil && c.Status == corev1.ConditionTrue {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}
