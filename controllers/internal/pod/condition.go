package pod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition sets a condition of p, which it changes, and reports whether that is a change. The
// time of the transition is that of the status, as in Kubernetes.
func SetCondition(p *corev1.Pod, c corev1.PodCondition) bool {
	c.LastTransitionTime = metav1.Now()
	was := Condition(p, c.Type)
	if was == nil {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return true
	}
	if was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	changed := was.Status != c.Status || was.Reason != c.Reason || was.Message != c.Message
	*was = c
	return changed
}
