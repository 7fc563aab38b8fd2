package daemonset

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/history"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hashOf returns the label by which the pods of a revision are found.
func hashOf(v *appsv1.ControllerRevision) string {
	return v.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
}

// findRevisions finds the revision of the template, which it creates if there is none, and the
// others. An earlier revision becomes the latest again.
func (o *round) findRevisions(ctx context.Context) error {
	data, err := history.ExactData(&o.set.Spec.Template)
	if err != nil {
		return err
	}
	all, err := o.claimRevisions(ctx)
	if err != nil {
		return err
	}
	var same []*appsv1.ControllerRevision
	for _, v := range all {
		if v, err = o.label(ctx, v); err != nil {
			return err
		}
		if bytes.Equal(v.Data.Raw, data) {
			same = append(same, v)
		} else {
			o.old = append(o.old, v)
		}
	}
	history.Sort(o.old)
	next := history.Last(o.old) + 1
	var current *appsv1.ControllerRevision
	if len(same) == 0 {
		current, err = o.createRevision(ctx, data, next)
	} else if current, err = o.merge(ctx, same); err == nil && current.Revision < next {
		_, err = history.Renumber(ctx, o.client, current, next)
	}
	if err != nil {
		return err
	}
	o.hash = hashOf(current)
	return nil
}

func (o *round) claimRevisions(ctx context.Context) ([]*appsv1.ControllerRevision, error) {
	all, err := history.List(ctx, o.client, o.set)
	if err != nil {
		return nil, err
	}
	claim := owned.Claim[*appsv1.ControllerRevision]{Client: o.client, Live: o.live, Owner: o.set, Kind: kind, Selector: o.selector}
	return claim.All(ctx, all)
}

// label gives a revision without the label of its hash its name in this place: pods of it have
// none.
func (o *round) label(ctx context.Context, v *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if _, ok := v.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; ok {
		return v, nil
	}
	next := v.DeepCopy()
	next.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = v.Name
	return next, o.client.Update(ctx, next)
}

// merge returns the one with the highest number of the revisions with the same template. The others
// are deleted, after their pods have become its own.
func (o *round) merge(ctx context.Context, same []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	history.Sort(same)
	keep, others := same[len(same)-1], same[:len(same)-1]
	if len(others) == 0 {
		return keep, nil
	}
	pods, err := o.claimPods(ctx)
	if err != nil {
		return nil, err
	}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, appsv1.DefaultDaemonSetUniqueLabelKey, hashOf(keep))
	for _, p := range pods {
		if p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == hashOf(keep) {
			continue
		}
		labeled := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		if err := o.client.Patch(ctx, labeled, client.RawPatch(types.MergePatchType, label)); err != nil {
			return nil, err
		}
	}
	for _, v := range others {
		if err := history.Delete(ctx, o.client, v); err != nil {
			return nil, err
		}
	}
	return keep, nil
}

// createRevision creates the revision of the template. If another has its name, the set counts the
// collision, which gives the revision another name.
func (o *round) createRevision(ctx context.Context, data []byte, number int64) (*appsv1.ControllerRevision, error) {
	for {
		hash := pod.TemplateHash(&o.set.Spec.Template, o.set.Status.CollisionCount)
		v := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       o.set.Namespace,
				Name:            o.set.Name + "-" + hash,
				Labels:          maps.Clone(o.set.Spec.Template.Labels),
				Annotations:     maps.Clone(o.set.Annotations),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.set, kind)},
			},
			Revision: number,
		}
		v.Data.Raw = data
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		v.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
		err := o.client.Create(ctx, v)
		if !apierrors.IsAlreadyExists(err) {
			return v, err
		}
		had := &appsv1.ControllerRevision{}
		if err := o.live.Get(ctx, client.ObjectKeyFromObject(v), had); err != nil {
			return nil, err
		}
		if bytes.Equal(had.Data.Raw, data) {
			return had, nil
		}
		if err := o.countCollision(ctx); err != nil {
			return nil, err
		}
	}
}

// countCollision increments the number of collisions in the status of the set. It fails if the
// cache has an older one.
func (o *round) countCollision(ctx context.Context) error {
	next := *o.set
	next.Status.CollisionCount = new(int32(1))
	if n := o.set.Status.CollisionCount; n != nil {
		*next.Status.CollisionCount += *n
	}
	if err := o.client.Status().Update(ctx, &next); err != nil {
		return err
	}
	o.set = &next
	return nil
}

// truncate deletes the oldest revisions beyond revisionHistoryLimit that no pod has.
func (o *round) truncate(ctx context.Context) error {
	limit := o.set.Spec.RevisionHistoryLimit
	if limit == nil {
		return nil
	}
	tooMany := len(o.old) - int(*limit)
	if tooMany <= 0 {
		return nil
	}
	live := map[string]bool{}
	for _, p := range o.all {
		live[p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] = true
	}
	for _, v := range o.old {
		if tooMany == 0 {
			break
		}
		if live[hashOf(v)] {
			continue
		}
		if err := history.Delete(ctx, o.client, v); err != nil {
			return err
		}
		tooMany--
	}
	return nil
}
