package extender

import (
	"context"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Preempt returns the candidates that remain, perhaps with other victims. podsOn returns the pods
// on a node, and whether there is such a node: victims are among them.
func (e *Extender) Preempt(ctx context.Context, p *corev1.Pod, all []place.Candidate, podsOn func(node string) ([]*corev1.Pod, bool)) ([]place.Candidate, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: p}
	if e.config.NodeCacheCapable {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
		for _, c := range all {
			victims := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: int64(c.Violations)}
			for _, v := range c.Victims {
				victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: string(v.UID)})
			}
			args.NodeNameToMetaVictims[c.Node] = victims
		}
	} else {
		args.NodeNameToVictims = map[string]*extenderv1.Victims{}
		for _, c := range all {
			args.NodeNameToVictims[c.Node] = &extenderv1.Victims{Pods: c.Victims, NumPDBViolations: int64(c.Violations)}
		}
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := e.send(ctx, e.config.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	var kept []place.Candidate
	for node, victims := range result.NodeNameToMetaVictims {
		c, err := e.candidateOf(node, victims, podsOn)
		if err != nil {
			return nil, err
		}
		if len(c.Victims) > 0 {
			kept = append(kept, c)
		} else if !e.Ignorable() {
			return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
		}
	}
	return kept, nil
}

// candidateOf returns a candidate of a response.
func (e *Extender) candidateOf(node string, victims *extenderv1.MetaVictims, podsOn func(string) ([]*corev1.Pod, bool)) (c place.Candidate, err error) {
	pods, exists := podsOn(node)
	if !exists {
		return c, fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	if c.Node = node; victims == nil {
		return c, nil
	}
	c.Violations = int(victims.NumPDBViolations)
	for _, v := range victims.Pods {
		i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return v != nil && string(p.UID) == v.UID })
		if i < 0 {
			return c, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", e.Name(), v, node)
		}
		if !slices.Contains(c.Victims, pods[i]) {
			c.Victims = append(c.Victims, pods[i])
		}
	}
	return c, nil
}
