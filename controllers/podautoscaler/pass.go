package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/selected"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A pass is one look at an autoscaler. It changes hpa, its own copy, and writes the status once.
type pass struct {
	*reconciler
	hpa    *autoscalingv2.HorizontalPodAutoscaler
	before *autoscalingv2.HorizontalPodAutoscalerStatus
	memory *memory

	from, to int32 // the replicas before and after a change of the target; equal if there was none
}

// A plan is the decision of a pass about its target.
type plan struct {
	replicas int32
	reason   string // of a change
	statuses []autoscalingv2.MetricStatus
	write    bool  // the number of replicas, even if it is the present one
	err      error // of some metrics, where the others suffice
}

// run scales the target if it has to, and writes the status. Errors are those of the first step
// that fails.
func (p *pass) run(ctx context.Context) error {
	t, err := p.findTarget(ctx)
	if err != nil {
		p.events.Event(p.hpa, corev1.EventTypeWarning, "FailedGetScale", err.Error())
		p.set(condition(autoscalingv2.AbleToScale, false, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err)))
		return errors.Join(fmt.Errorf("get the scale of %s: %w", p.describe(), err), p.writeStatus(ctx))
	}
	p.set(condition(autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale"))
	current := t.scale.Spec.Replicas
	p.memory.begin(current, time.Now())
	p.memory.settle(current)

	next, err := p.plan(ctx, t.scale)
	if err != nil {
		p.setReplicas(current, p.hpa.Status.DesiredReplicas, next.statuses)
		err = errors.Join(fmt.Errorf("compute the replicas of %s: %w", p.describe(), err), p.writeStatus(ctx))
		return err
	}
	if !next.write {
		p.setReplicas(current, current, next.statuses)
		p.observed.desired.WithLabelValues(p.hpa.Namespace, p.hpa.Name).Set(float64(current))
		return errors.Join(next.err, p.writeStatus(ctx))
	}
	wasZero, least := current == 0, p.least()
	if err := p.rescale(ctx, t, next.replicas); err != nil {
		p.events.Eventf(p.hpa, corev1.EventTypeWarning, "FailedRescale", "New size: %d; reason: %s; error: %v", next.replicas, next.reason, err)
		p.set(condition(autoscalingv2.AbleToScale, false, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err)))
		p.setReplicas(current, p.hpa.Status.DesiredReplicas, next.statuses)
		if p.hpa.Spec.Behavior != nil {
			p.memory.tried = &attempt{current, next.replicas, time.Now()}
		}
		return errors.Join(fmt.Errorf("scale %s: %w", p.describe(), err), p.writeStatus(ctx))
	}
	p.set(condition(autoscalingv2.AbleToScale, true, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", next.replicas)))
	p.events.Eventf(p.hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", next.replicas, next.reason)
	now := time.Now()
	if p.hpa.Spec.Behavior != nil {
		p.memory.scaled(current, next.replicas, now)
	}
	if next.replicas == 0 && !wasZero && least == 0 && p.countsWithoutPods() {
		p.set(condition(autoscalingv2.ScaledToZero, true, "ScaledToZero", "the HPA controller scaled the workload to zero"))
	} else {
		p.set(condition(autoscalingv2.ScaledToZero, false, "NotScaledToZero", "the HPA controller did not scale the workload to zero"))
	}
	p.setReplicas(current, next.replicas, next.statuses)
	p.from, p.to = current, next.replicas
	p.observed.desired.WithLabelValues(p.hpa.Namespace, p.hpa.Name).Set(float64(next.replicas))
	p.hpa.Status.LastScaleTime = &metav1.Time{Time: now}
	return errors.Join(next.err, p.writeStatus(ctx))
}

// plan decides about the replicas of the target. After an error, only the statuses count.
func (p *pass) plan(ctx context.Context, scale *autoscalingv1.Scale) (plan, error) {
	current, least, most := scale.Spec.Replicas, p.least(), p.hpa.Spec.MaxReplicas
	const tooFew = "Current number of replicas below Spec.MinReplicas"
	// Only a target that this controller has scaled to zero is scaled up again.
	zero := find(p.hpa.Status.Conditions, autoscalingv2.ScaledToZero)
	ours := zero != nil && zero.Status == corev1.ConditionTrue
	switch {
	case current == 0 && (!ours || least == 0 && !p.countsWithoutPods()):
		p.set(condition(autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"))
		return plan{}, nil
	case current > most:
		return plan{replicas: most, reason: "Current number of replicas above Spec.MaxReplicas", write: true}, nil
	case current < least && current > 0:
		return plan{replicas: least, reason: tooFew, write: true}, nil
	}
	asked, metric, statuses, err := p.measure(ctx, scale)
	next := plan{statuses: statuses, err: err}
	if err != nil && metric == "" {
		p.events.Event(p.hpa, corev1.EventTypeWarning, "FailedComputeMetricsReplicas", err.Error())
		return next, err
	}
	asked = max(asked, 0)
	switch {
	case asked > current:
		next.reason = metric + " above target"
	case asked < current:
		next.reason = "All metrics below target"
	}
	l := limits{
		memory: p.memory, min: least, max: most, behavior: p.hpa.Spec.Behavior,
		downWindow: p.options.DownscaleStabilization, now: time.Now(),
	}
	b := l.apply(current, asked)
	p.set(b.able)
	p.set(b.limited)
	next.replicas = b.replicas
	if current == 0 && least != 0 && next.replicas < least {
		next.replicas = least
		if next.reason == "" {
			next.reason = tooFew
		}
	}
	next.write = next.replicas != current
	return next, nil
}

// measure returns the largest number of replicas that a metric asks for, the name of that metric,
// and the current values of all. Without a name, the error means that there is no number: no metric
// has a value, or some have none and the others would remove replicas.
func (p *pass) measure(ctx context.Context, scale *autoscalingv1.Scale) (replicas int32, metric string, statuses []autoscalingv2.MetricStatus, err error) {
	selector, err := p.selector(scale.Status.Selector)
	if err != nil {
		return 0, "", nil, err
	}
	pods, err := p.pods(ctx, selector)
	if err != nil {
		return 0, "", nil, err
	}
	if several := p.selectors.matching(p.hpa.Namespace, pods); len(several) > 1 {
		message := fmt.Sprintf("pods by selector %v are controlled by more than one HPA (e.g. %v)", scale.Status.Selector, several)
		p.events.Event(p.hpa, corev1.EventTypeWarning, "AmbiguousSelector", message)
		p.set(condition(autoscalingv2.ScalingActive, false, "AmbiguousSelector", message))
		return 0, "", nil, errors.New(message)
	}
	m := measurement{
		metrics: p.metrics, namespace: p.hpa.Namespace, selector: selector,
		calculation: calculation{
			pods: pods, spec: scale.Spec.Replicas, status: scale.Status.Replicas, tolerance: p.tolerance(), now: time.Now(),
			initialization: p.options.CPUInitializationPeriod, readiness: p.options.InitialReadinessDelay,
		},
	}
	if len(p.hpa.Spec.Metrics) == 0 {
		return 0, "", nil, errors.New("the autoscaler has no metrics") // the server sets a default
	}
	statuses = make([]autoscalingv2.MetricStatus, len(p.hpa.Spec.Metrics))
	failed := 0
	var first failure
	for i := range p.hpa.Spec.Metrics {
		began := time.Now()
		got, fail := m.of(ctx, &p.hpa.Spec.Metrics[i])
		p.observed.computed(p.hpa.Status.CurrentReplicas, p.hpa.Spec.Metrics[i].Type, began, got, fail)
		if fail != nil {
			// For each, whatever becomes of it.
			p.events.Event(p.hpa, corev1.EventTypeWarning, fail.reason, fail.cause.Error())
			if failed++; failed == 1 {
				first = *fail
			}
			continue
		}
		statuses[i] = got.status
		if replicas == 0 || got.replicas > replicas {
			replicas, metric = got.replicas, got.name
		}
	}
	if failed > 0 {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", failed, len(p.hpa.Spec.Metrics), first.err)
	}
	if failed == len(p.hpa.Spec.Metrics) || failed > 0 && replicas < scale.Spec.Replicas {
		p.set(condition(autoscalingv2.ScalingActive, false, first.reason, fmt.Sprintf("the HPA was unable to compute the replica count: %v", first.cause)))
		return 0, "", statuses, err
	}
	p.set(condition(autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+metric))
	return replicas, metric, statuses, err
}

// selector returns the selector of the target, and keeps it.
func (p *pass) selector(text string) (labels.Selector, error) {
	invalid := func(reason, message, told string) error {
		p.events.Event(p.hpa, corev1.EventTypeWarning, reason, message)
		p.set(condition(autoscalingv2.ScalingActive, false, "InvalidSelector", told))
		return errors.New(message)
	}
	if text == "" {
		return nil, invalid("SelectorRequired", "selector is required", "the HPA target's scale is missing a selector")
	}
	s, err := labels.Parse(text)
	if err != nil {
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return nil, invalid("InvalidSelector", message, message)
	}
	p.selectors.set(client.ObjectKeyFromObject(p.hpa), s)
	return s, nil
}

// pods returns the pods that a selector matches. They belong to the cache.
func (p *pass) pods(ctx context.Context, s labels.Selector) (pods []*corev1.Pod, err error) {
	var list corev1.PodList
	if err := selected.List(ctx, p.client, &list, p.hpa.Namespace, s); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// least returns the fewest replicas.
func (p *pass) least() int32 {
	if n := p.hpa.Spec.MinReplicas; n != nil {
		return *n
	}
	return 1
}

// countsWithoutPods reports whether a metric can have a value if there are no pods.
func (p *pass) countsWithoutPods() bool {
	for _, m := range p.hpa.Spec.Metrics {
		if m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

func (p *pass) tolerance() tolerance {
	t := tolerance{p.options.Tolerance, p.options.Tolerance}
	if b := p.hpa.Spec.Behavior; b != nil {
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
	}
	return t
}

// set sets a condition. The time of its last transition changes only if its status is not the one
// before the pass: otherwise, a target that cannot be scaled would cause a write in each pass.
func (p *pass) set(c autoscalingv2.HorizontalPodAutoscalerCondition) {
	c.LastTransitionTime = metav1.Now()
	if old := find(p.before.Conditions, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	if set := find(p.hpa.Status.Conditions, c.Type); set != nil {
		*set = c
	} else {
		p.hpa.Status.Conditions = append(p.hpa.Status.Conditions, c)
	}
}

// setReplicas sets the status except its conditions and the time of the last change.
func (p *pass) setReplicas(current, desired int32, statuses []autoscalingv2.MetricStatus) {
	p.hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: new(p.hpa.Generation), LastScaleTime: p.hpa.Status.LastScaleTime, Conditions: p.hpa.Status.Conditions,
		CurrentReplicas: current, DesiredReplicas: desired, CurrentMetrics: statuses,
	}
}

// writeStatus writes the status if it has changed.
func (p *pass) writeStatus(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.before, &p.hpa.Status) {
		return nil
	}
	if err := p.client.Status().Update(ctx, p.hpa); client.IgnoreNotFound(err) != nil {
		p.events.Event(p.hpa, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("failed to update status for %s: %w", p.hpa.Name, err)
	}
	return nil
}
