package deployment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of ReplicaSets. The first is also one of Deployments; kubectl rollout reads it.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history" // earlier revisions with the same template
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas" // of the Deployment, when the set was scaled last
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"     // the same with its surge
)

// maxHistory is the maximum length of the value of historyAnnotation, in bytes.
const maxHistory = 2000

// ofOne are the annotations that are not copied between a Deployment and its ReplicaSets.
func ofOne(annotation string) bool {
	switch annotation {
	case corev1.LastAppliedConfigAnnotation, revisionAnnotation, historyAnnotation, desiredAnnotation, maxAnnotation, appsv1.DeprecatedRollbackTo:
		return true
	}
	return false
}

// sameTemplate compares templates without the label that the controller adds to those of
// ReplicaSets.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	without := func(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
		bare := *t
		bare.Labels = maps.Clone(t.Labels)
		delete(bare.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		return bare
	}
	return equality.Semantic.DeepEqual(without(a), without(b))
}

func byCreation(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// revision returns the revision of a ReplicaSet, or an error if its annotation is not a number.
func revision(rs *appsv1.ReplicaSet) (int64, error) {
	text, ok := rs.Annotations[revisionAnnotation]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// nextRevision returns the revision behind those of the old ReplicaSets.
func (o *rollout) nextRevision() int64 {
	var last int64
	for _, rs := range o.old {
		if v, err := revision(rs); err == nil {
			last = max(last, v)
		}
	}
	return last + 1
}

// updateCurrent brings the annotations and minReadySeconds of the current ReplicaSet up to date,
// or, if they are, the revision of the Deployment.
func (o *rollout) updateCurrent(ctx context.Context) error {
	if o.current == nil {
		return nil
	}
	annotations := o.annotations(o.current.Annotations)
	if !maps.Equal(annotations, o.current.Annotations) || o.current.Spec.MinReadySeconds != o.d.Spec.MinReadySeconds {
		rs := o.current.DeepCopy()
		rs.Annotations, rs.Spec.MinReadySeconds = annotations, o.d.Spec.MinReadySeconds
		if err := o.client.Update(ctx, rs); err != nil {
			return err
		}
		o.current = rs
		return nil
	}
	status := o.d.Status.DeepCopy()
	if o.hasDeadline() && condition(status, appsv1.DeploymentProgressing) == nil {
		// The deadline counts from when the controller first saw the set of a Deployment that had no
		// deadline before.
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", o.current.Name))
	}
	return o.writeRevision(ctx, o.current.Annotations[revisionAnnotation], *status)
}

// writeRevision writes the revision of the Deployment together with a status, if one of them
// differs.
func (o *rollout) writeRevision(ctx context.Context, revision string, status appsv1.DeploymentStatus) error {
	if o.d.Annotations[revisionAnnotation] == revision && equality.Semantic.DeepEqual(o.d.Status, status) {
		return nil
	}
	if o.d.Annotations == nil {
		o.d.Annotations = map[string]string{}
	}
	o.d.Annotations[revisionAnnotation] = revision
	o.d.Status = status
	return o.client.Status().Update(ctx, o.d)
}

// annotations returns those of the current ReplicaSet, which had some of them: the Deployment's,
// and the next revision, behind all others.
func (o *rollout) annotations(had map[string]string) map[string]string {
	next := maps.Clone(had)
	if next == nil {
		next = map[string]string{}
	}
	for name, value := range o.d.Annotations {
		if !ofOne(name) {
			next[name] = value
		}
	}
	before, ok := had[revisionAnnotation]
	number, err := strconv.ParseInt(before, 10, 64)
	if err != nil && before != "" {
		return next // the user's own revisions are left alone
	}
	if latest := o.nextRevision(); number < latest {
		next[revisionAnnotation] = strconv.FormatInt(latest, 10)
		if ok {
			next[historyAnnotation] = addToHistory(had[historyAnnotation], before)
		}
	}
	return next
}

// addToHistory appends a revision, and drops the oldest ones beyond maxHistory.
func addToHistory(history, revision string) string {
	if history == "" {
		return revision
	}
	history += "," + revision
	for len(history) > maxHistory {
		_, rest, more := strings.Cut(history, ",")
		if !more {
			break
		}
		history = rest
	}
	return history
}

// create creates the current ReplicaSet, with as many replicas as the strategy allows at once.
func (o *rollout) create(ctx context.Context) error {
	rs := o.newReplicaSet()
	err := o.client.Create(ctx, rs)
	switch {
	case apierrors.IsAlreadyExists(err):
		return o.collides(ctx, rs, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		message := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)
		o.events.Event(o.d, corev1.EventTypeWarning, "ReplicaSetCreateError", message)
		if o.hasDeadline() {
			status := o.d.Status.DeepCopy()
			setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", message)
			_ = o.writeStatus(ctx, *status) // err is the error to report
		}
		return err
	}
	o.current = rs
	if n := *rs.Spec.Replicas; n > 0 {
		o.events.Eventf(o.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", rs.Name, n)
	}
	status := o.d.Status.DeepCopy()
	if o.hasDeadline() {
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", rs.Name))
	}
	return o.writeRevision(ctx, rs.Annotations[revisionAnnotation], *status)
}

// newReplicaSet returns the ReplicaSet of the current template. Its name is the template's hash, so
// that two controllers that create it create one.
func (o *rollout) newReplicaSet() *appsv1.ReplicaSet {
	template := o.d.Spec.Template.DeepCopy()
	hash := pod.TemplateHash(template, o.d.Status.CollisionCount)
	template.Labels = withHash(template.Labels, hash)
	selector := o.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withHash(selector.MatchLabels, hash)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            replicaSetName(o.d.Name, hash),
			Namespace:       o.d.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     o.annotations(nil),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), MinReadySeconds: o.d.Spec.MinReadySeconds, Selector: selector, Template: *template},
	}
	*rs.Spec.Replicas = o.roomFor(0, replicas(o.old))
	o.annotateReplicas(rs)
	return rs
}

func withHash(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}

func replicaSetName(deployment, hash string) string {
	longest := validation.DNS1123SubdomainMaxLength - len("-") - len(hash)
	return deployment[:min(len(deployment), longest)] + "-" + hash
}

// collides handles the existence of a ReplicaSet with the name of the one to create. If that is
// another one, the next reconcile creates one with another hash.
func (o *rollout) collides(ctx context.Context, rs *appsv1.ReplicaSet, err error) error {
	live := &appsv1.ReplicaSet{}
	if err := o.live.Get(ctx, client.ObjectKeyFromObject(rs), live); err != nil {
		return err
	}
	if metav1.IsControlledBy(live, o.d) && sameTemplate(&live.Spec.Template, &o.d.Spec.Template) {
		o.current = live
		return o.writeRevision(ctx, rs.Annotations[revisionAnnotation], o.d.Status)
	}
	status := o.d.Status.DeepCopy()
	if status.CollisionCount == nil {
		status.CollisionCount = new(int32)
	}
	*status.CollisionCount++
	if err := o.writeStatus(ctx, *status); err != nil {
		return err
	}
	return err
}

// cleanUp deletes the oldest ReplicaSets beyond revisionHistoryLimit that have no pods.
func (o *rollout) cleanUp(ctx context.Context) error {
	limit := o.d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(o.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	slices.SortStableFunc(kept, func(a, b *appsv1.ReplicaSet) int {
		revA, errA := revision(a)
		revB, errB := revision(b)
		if errA != nil || errB != nil {
			return byCreation(a, b)
		}
		return cmp.Or(cmp.Compare(revA, revB), byCreation(a, b))
	})
	for _, rs := range kept[:max(0, len(kept)-int(*limit))] {
		if rs.Status.Replicas != 0 || *rs.Spec.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration {
			continue
		}
		gone := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: rs.Namespace, Name: rs.Name}}
		if err := o.client.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
