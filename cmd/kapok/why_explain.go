package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
)

const (
	newestEvents = 3 // of an object
	mostUnready  = 3 // dependents of an object that are explained
	deepest      = 4 // levels of dependents
)

// dependentKinds are the kinds that are searched for dependents of an object.
var dependentKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
}

// An explanation prints why objects are in their state.
type explanation struct {
	client client.Client
	now    time.Time
	out    io.Writer
	config *rest.Config // for the metrics of the server; nil leaves them out

	metrics map[string]*dto.MetricFamily
	lists   map[string][]*unstructured.Unstructured // dependents of all objects, by namespace and uid
}

// explain explains an object, its owners up to the first, and its dependents that are not ready.
func (x *explanation) explain(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) error {
	o := objectOf(gvk)
	if err := x.client.Get(ctx, key, o); err != nil {
		return err
	}
	if err := x.object(ctx, o, ""); err != nil {
		return err
	}
	if err := x.owners(ctx, o); err != nil {
		return err
	}
	return x.dependents(ctx, o, 1)
}

// object prints the explanation of one object.
func (x *explanation) object(ctx context.Context, o *unstructured.Unstructured, relation string) error {
	if relation != "" {
		relation += " "
	}
	fmt.Fprintf(x.out, "%s%s\n", relation, described(o))
	for _, line := range x.changes(o) {
		x.line("changed", line)
	}
	if cause, err := x.cause(ctx, o); err != nil {
		return err
	} else if cause != "" {
		x.line("after", cause)
	}
	for _, c := range conditionsOf(o) {
		x.line("condition", c.text(x.now))
	}
	events, err := x.events(ctx, o)
	if err != nil {
		return err
	}
	for _, line := range events {
		x.line("event", line)
	}
	for _, line := range waitsOf(o) {
		x.line("waits for", line)
	}
	if line := x.queueOf(ctx, o); line != "" {
		x.line("queue", line)
	}
	return nil
}

func (x *explanation) line(label, text string) { fmt.Fprintf(x.out, "  %-10s %s\n", label, text) }

func described(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// changes returns the newest change of an object's status, and that of all else.
func (x *explanation) changes(o *unstructured.Unstructured) (lines []string) {
	seen := map[string]bool{}
	for _, m := range newestFirst(o) {
		if seen[m.Subresource] {
			continue
		}
		seen[m.Subresource] = true
		line := x.ago(m.Time.Time) + " by " + writer(o, &m)
		if m.Subresource != "" {
			line += ", its " + m.Subresource
		}
		lines = append(lines, line)
	}
	return lines
}

// newestFirst returns the managed fields of an object that have a time, the newest first.
func newestFirst(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	all := slices.DeleteFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Time == nil })
	slices.SortStableFunc(all, func(a, b metav1.ManagedFieldsEntry) int { return b.Time.Compare(a.Time.Time) })
	return all
}

// cause returns the change of another object, or of the object's own specification, that the last
// change of the object probably follows: the newest one before it, by another manager.
func (x *explanation) cause(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	own := newestFirst(o)
	if len(own) == 0 {
		return "", nil
	}
	var best metav1.ManagedFieldsEntry
	var of *unstructured.Unstructured
	related, err := x.dependentsOf(ctx, o)
	if err != nil {
		return "", err
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		up := objectOf(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
		if err := x.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: owner.Name}, up); err == nil {
			related = append(slices.Clip(related), up)
		}
	}
	for _, other := range append(slices.Clip(related), o) {
		for _, m := range newestFirst(other) {
			if m.Manager != own[0].Manager && !m.Time.After(own[0].Time.Time) && (of == nil || m.Time.After(best.Time.Time)) {
				best, of = m, other
			}
		}
	}
	if of == nil {
		return "", nil
	}
	what := described(of)
	if of == o {
		what = "the object itself"
	}
	if best.Subresource != "" {
		what += ", its " + best.Subresource + ","
	}
	return fmt.Sprintf("%s was changed %s by %s", what, x.ago(best.Time.Time), writer(of, &best)), nil
}

func (x *explanation) ago(t time.Time) string { return duration.HumanDuration(x.now.Sub(t)) + " ago" }

// A condition is an entry of status.conditions.
type condition struct {
	kind, status, reason, message string
	since                         time.Time
}

func conditionsOf(o *unstructured.Unstructured) (all []condition) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		m, ok := c.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { s, _ := m[name].(string); return s }
		since, _ := time.Parse(time.RFC3339, text("lastTransitionTime")) // zero if there is none
		all = append(all, condition{text("type"), text("status"), text("reason"), text("message"), since})
	}
	return all
}

func (c condition) text(now time.Time) string {
	line := c.kind + "=" + c.status
	if !c.since.IsZero() {
		line += " for " + duration.HumanDuration(now.Sub(c.since))
	}
	if c.reason != "" {
		line += ", " + c.reason
	}
	if c.message != "" {
		line += ": " + c.message
	}
	return line
}

// events returns the newest events of an object, the oldest of them first.
func (x *explanation) events(ctx context.Context, o *unstructured.Unstructured) (lines []string, err error) {
	var list corev1.EventList
	namespace := cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)
	if err := x.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(o.GetUID())}); err != nil {
		return nil, fmt.Errorf("events of %s: %w", described(o), err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	for i := range list.Items[max(0, len(list.Items)-newestEvents):] {
		e := &list.Items[max(0, len(list.Items)-newestEvents)+i]
		line := fmt.Sprintf("%s %s, %s: %s", x.ago(lastSeen(e)), e.Type, e.Reason, strings.TrimSpace(e.Message))
		if n := timesSeen(e); n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		lines = append(lines, line+" ["+cmp.Or(e.ReportingController, e.Source.Component)+"]")
	}
	return lines, nil
}

func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

func timesSeen(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return e.Count
}

// owners explains the controller of an object, the controller of that, and so on.
func (x *explanation) owners(ctx context.Context, o *unstructured.Unstructured) error {
	for {
		ref := metav1.GetControllerOf(o)
		if ref == nil {
			return nil
		}
		up := objectOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		err := x.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, up)
		if apierrors.IsNotFound(err) || err == nil && up.GetUID() != ref.UID {
			fmt.Fprintf(x.out, "owner %s %s does not exist: garbage collection is going to delete the object\n", ref.Kind, ref.Name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("owner %s %s: %w", ref.Kind, ref.Name, err)
		}
		if err := x.object(ctx, up, "owner"); err != nil {
			return err
		}
		o = up
	}
}

// dependents explains the controlled objects that are not ready.
func (x *explanation) dependents(ctx context.Context, o *unstructured.Unstructured, depth int) error {
	all, err := x.dependentsOf(ctx, o)
	if err != nil || len(all) == 0 || depth > deepest {
		return err
	}
	unready := slices.DeleteFunc(slices.Clone(all), isReady)
	for _, d := range unready[:min(len(unready), mostUnready)] {
		if err := x.object(ctx, d, "dependent"); err != nil {
			return err
		}
		if err := x.dependents(ctx, d, depth+1); err != nil {
			return err
		}
	}
	if more := len(unready) - mostUnready; more > 0 {
		fmt.Fprintf(x.out, "%d more dependents of %s are not ready\n", more, described(o))
	}
	return nil
}

// dependentsOf returns the objects that an object controls.
func (x *explanation) dependentsOf(ctx context.Context, o *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if o.GetNamespace() == "" {
		return nil, nil
	}
	if x.lists == nil {
		x.lists = map[string][]*unstructured.Unstructured{}
	}
	if _, listed := x.lists[o.GetNamespace()]; !listed {
		x.lists[o.GetNamespace()] = nil
		for _, gvk := range dependentKinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err := x.client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
				return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
			}
			for i := range list.Items {
				if by := metav1.GetControllerOf(&list.Items[i]); by != nil {
					key := uidKey(o.GetNamespace(), by.UID)
					x.lists[key] = append(x.lists[key], &list.Items[i])
				}
			}
		}
	}
	return x.lists[uidKey(o.GetNamespace(), o.GetUID())], nil
}

func uidKey(namespace string, uid types.UID) string { return namespace + "/" + string(uid) }

// isReady reports whether a dependent has its desired state.
func isReady(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(o.Object, fields...); return n }
	is := func(kind string) bool {
		return slices.ContainsFunc(conditionsOf(o), func(c condition) bool { return c.kind == kind && c.status == "True" })
	}
	switch o.GetKind() {
	case "Pod":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return phase == string(corev1.PodSucceeded) || is("Ready")
	case "Deployment":
		return is("Available") && number("status", "updatedReplicas") >= number("spec", "replicas")
	case "ReplicaSet", "StatefulSet":
		return number("status", "readyReplicas") >= number("spec", "replicas")
	case "DaemonSet":
		return number("status", "numberReady") >= number("status", "desiredNumberScheduled")
	case "Job":
		return is("Complete")
	case "PersistentVolumeClaim":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return phase == string(corev1.ClaimBound)
	}
	return true
}

// waitsOf returns the events that an object waits for, as far as its fields show them.
func waitsOf(o *unstructured.Unstructured) (lines []string) {
	if o.GetDeletionTimestamp() != nil {
		if f := o.GetFinalizers(); len(f) > 0 {
			lines = append(lines, "removal of the finalizers "+strings.Join(f, ", ")+", before the object is deleted")
		}
		if s := o.GetDeletionGracePeriodSeconds(); s != nil && *s > 0 {
			lines = append(lines, fmt.Sprintf("the end of its containers, for which it has %d s, before the object is deleted", *s))
		}
	}
	observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if found && observed < o.GetGeneration() {
		lines = append(lines, fmt.Sprintf("a controller that sees generation %d: it has seen %d", o.GetGeneration(), observed))
	}
	for _, field := range []string{"paused", "suspend"} {
		if on, _, _ := unstructured.NestedBool(o.Object, "spec", field); on {
			lines = append(lines, fmt.Sprintf("spec.%s to become false", field))
		}
	}
	lines = append(lines, replicasWait(o)...)
	if o.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Pod") {
		var p corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p) == nil {
			lines = append(lines, podWaits(&p)...)
		}
	}
	return lines
}

func podWaits(p *corev1.Pod) (lines []string) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
		return nil
	}
	for _, g := range p.Spec.SchedulingGates {
		lines = append(lines, "removal of the scheduling gate "+g.Name)
	}
	switch {
	case p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0:
		return append(lines, "a node: the scheduler "+cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)+" has not bound it to one")
	case p.Spec.NodeName != "" && p.Status.StartTime == nil && p.Status.Phase == corev1.PodPending:
		return append(lines, "the kubelet of the node "+p.Spec.NodeName)
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("the container %s, %s: %s", s.Name, w.Reason, w.Message), ": "))
		}
	}
	for _, g := range p.Spec.ReadinessGates {
		if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == g.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			lines = append(lines, "the condition "+string(g.ConditionType)+" of its readiness gate")
		}
	}
	return lines
}
