package scenarios

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/client"

	"github.com/cockroachdb/datadriven"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// play lets pods run as nodes would, until nothing changes any more.
func (s *scenario) play(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	for range 200 {
		acted := 0
		for _, act := range []string{"gone", "ready"} {
			n, err := s.pods(ctx, &datadriven.TestData{Cmd: "pods", CmdArgs: []datadriven.CmdArg{{Key: act}}})
			if err != nil {
				return err
			}
			acted += n
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
		if acted == 0 {
			return nil
		}
	}
	return errors.New("pods still change after 200 rounds")
}

// pods does what a node does to pods, and returns to how many.
func (s *scenario) pods(ctx context.Context, d *datadriven.TestData) (int, error) {
	if len(d.CmdArgs) == 0 {
		return 0, errors.New("pods needs what happens to them")
	}
	act, ok := acts[d.CmdArgs[0].Key]
	if !ok {
		return 0, fmt.Errorf("nothing called %q happens to pods", d.CmdArgs[0].Key)
	}
	var list corev1.PodList
	if err := s.client.List(ctx, &list, client.InNamespace(s.ns)); err != nil {
		return 0, err
	}
	// Of pods that a controller created at once, any may be the first; they are alike.
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	most := len(list.Items)
	if n, ok := argument(d, "n"); ok {
		var err error
		if most, err = strconv.Atoi(n); err != nil {
			return 0, err
		}
	}
	done := 0
	for i := range list.Items {
		p := &list.Items[i]
		if done == most {
			break
		}
		if !selects(d, p) {
			continue
		}
		acted, err := act(ctx, s, d, p)
		if err != nil && !apierrors.IsNotFound(err) {
			return done, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		if acted {
			done++
		}
	}
	return done, nil
}

// selects reports whether the arguments of a step select a pod.
func selects(d *datadriven.TestData, p *corev1.Pod) bool {
	for _, a := range d.CmdArgs[1:] {
		if len(a.Vals) == 0 {
			continue
		}
		switch value := a.Vals[0]; a.Key {
		case "n", "node", "code", "reason", "condition", "container", "sub", "family":
		case "index":
			if p.Labels[batchv1.JobCompletionIndexAnnotation] != value {
				return false
			}
		case "name":
			if p.Name != value {
				return false
			}
		case "on":
			if p.Spec.NodeName != value && (p.Spec.NodeName != "" || nodeOf(p) != value) {
				return false
			}
		default:
			if p.Labels[a.Key] != value {
				return false
			}
		}
	}
	return true
}

// An act changes a pod, and reports whether there was something to change.
type act func(ctx context.Context, s *scenario, d *datadriven.TestData, p *corev1.Pod) (bool, error)

var acts = map[string]act{
	"ready": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if p.DeletionTimestamp != nil || ended(p) || isReady(p) {
			return false
		}
		p.Status.Phase = corev1.PodRunning
		setCondition(p, corev1.PodReady, corev1.ConditionTrue, "")
		return true
	}),
	"unready": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if !isReady(p) {
			return false
		}
		setCondition(p, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")
		return true
	}),
	"running": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if p.Status.Phase == corev1.PodRunning || ended(p) {
			return false
		}
		p.Status.Phase = corev1.PodRunning
		return true
	}),
	"succeed": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if ended(p) {
			return false
		}
		end(p, corev1.PodSucceeded, 0)
		return true
	}),
	"fail": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if ended(p) {
			return false
		}
		code := 1
		if text, ok := argument(d, "code"); ok {
			code, _ = strconv.Atoi(text)
		}
		end(p, corev1.PodFailed, int32(code))
		if only, ok := argument(d, "container"); ok {
			for i := range p.Status.ContainerStatuses {
				if c := &p.Status.ContainerStatuses[i]; c.Name != only {
					c.State.Terminated.ExitCode = 0
				}
			}
		}
		reason, _ := argument(d, "reason")
		if condition, ok := argument(d, "condition"); ok {
			setCondition(p, corev1.PodConditionType(condition), corev1.ConditionTrue, reason)
		} else {
			p.Status.Reason = reason
		}
		return true
	}),
	"delete": func(ctx context.Context, s *scenario, _ *datadriven.TestData, p *corev1.Pod) (bool, error) {
		if p.DeletionTimestamp != nil {
			return false, nil
		}
		return true, s.client.Delete(ctx, p)
	},
	"evict": func(ctx context.Context, s *scenario, _ *datadriven.TestData, p *corev1.Pod) (bool, error) {
		if p.DeletionTimestamp != nil {
			return false, nil
		}
		return true, s.client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name}})
	},
	"gone": func(ctx context.Context, s *scenario, _ *datadriven.TestData, p *corev1.Pod) (bool, error) {
		if p.DeletionTimestamp == nil {
			return false, nil
		}
		return true, s.client.Delete(ctx, p, client.GracePeriodSeconds(0))
	},
	"patch": func(ctx context.Context, s *scenario, d *datadriven.TestData, p *corev1.Pod) (bool, error) {
		return true, s.send(ctx, d, p, strings.ReplaceAll(d.Input, "{ns}", s.ns))
	},
	"address": status(func(d *datadriven.TestData, p *corev1.Pod) bool {
		if p.Status.PodIP != "" {
			return false
		}
		host := 1
		if n, err := strconv.Atoi(strings.TrimLeft(p.Name, "abcdefghijklmnopqrstuvwxyz-")); err == nil {
			host = n
		}
		for _, ip := range families[value(d, "family")] {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: fmt.Sprintf(ip, host)})
		}
		p.Status.PodIP = p.Status.PodIPs[0].IP
		return true
	}),
	"bind": func(ctx context.Context, s *scenario, d *datadriven.TestData, p *corev1.Pod) (bool, error) {
		if p.Spec.NodeName != "" {
			return false, nil
		}
		node, ok := argument(d, "node")
		if !ok {
			node = nodeOf(p)
		}
		to := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		return true, s.client.SubResource("binding").Create(ctx, p, to)
	},
}

// families are the forms of the addresses of pods, by the argument family.
var families = map[string][]string{"": {"10.1.0.%d"}, "v6": {"fd01::%d"}, "both": {"10.1.0.%d", "fd01::%d"}}

// nodeOf returns the node to which the affinity of a pod binds it, as those of DaemonSets; n1 if
// there is none.
func nodeOf(p *corev1.Pod) string {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				if field.Key == metav1.ObjectNameField {
					return field.Values[0]
				}
			}
		}
	}
	return "n1"
}

// status is an act that changes the status, again where another client changes the pod meanwhile.
func status(change func(d *datadriven.TestData, p *corev1.Pod) bool) act {
	return func(ctx context.Context, s *scenario, d *datadriven.TestData, p *corev1.Pod) (bool, error) {
		for {
			if !change(d, p) {
				return false, nil
			}
			err := s.client.Status().Update(ctx, p)
			if !apierrors.IsConflict(err) {
				return err == nil, err
			}
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return false, err
			}
		}
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// end ends all containers of a pod.
func end(p *corev1.Pod, phase corev1.PodPhase, code int32) {
	p.Status.Phase = phase
	setCondition(p, corev1.PodReady, corev1.ConditionFalse, "PodCompleted")
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}},
		})
	}
}

func setCondition(p *corev1.Pod, of corev1.PodConditionType, is corev1.ConditionStatus, reason string) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: of, Status: is, Reason: reason, LastTransitionTime: metav1.Now()})
}
