package statefulset

import (
	"bytes"
	"context"
	"maps"

	"github.com/kapok-dev/kapok/controllers/internal/history"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A revision is a ControllerRevision with its template.
type revision struct {
	*appsv1.ControllerRevision
	template *corev1.PodTemplateSpec
}

// revisions returns the sorted revisions of a set, and adopts those that no controller owns.
func (r *reconciler) revisions(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	all, err := history.List(ctx, r.client, set)
	if err != nil {
		return nil, err
	}
	var matching []*appsv1.ControllerRevision
	for _, v := range all {
		if selector.Matches(labels.Set(v.Labels)) {
			matching = append(matching, v)
		}
	}
	claim := owned.Claim[*appsv1.ControllerRevision]{Client: r.client, Live: r.live, Owner: set, Kind: kind, Selector: selector}
	matching, err = claim.All(ctx, matching)
	history.Sort(matching)
	return matching, err
}

// findRevisions finds the revision of the set's template, which it creates if there is none, and
// the current one, from which an update starts.
func (o *round) findRevisions(ctx context.Context) error {
	if n := o.set.Status.CollisionCount; n != nil {
		o.collisions = *n
	}
	data, err := history.Data(&o.set.Spec.Template)
	if err != nil {
		return err
	}
	found, err := o.find(ctx, data)
	if err != nil {
		return err
	}
	if found == nil {
		next := o.newRevision(data)
		if o.set.DeletionTimestamp == nil { // otherwise it would be a new dependent of a set that ends
			if next, err = history.Create(ctx, o.client, o.live, o.set, next, &o.collisions); err != nil {
				return err
			}
		}
		found = next
	}
	o.update = &revision{found, &o.set.Spec.Template}
	o.current = o.update
	for _, v := range o.revisions {
		if v.Name != o.set.Status.CurrentRevision || v.Name == found.Name {
			continue
		}
		template, err := history.Template(v)
		if err != nil {
			return err
		}
		o.current = &revision{v, template}
		break
	}
	return nil
}

// find returns the revision with these data, or nil. An earlier one becomes the latest again.
func (o *round) find(ctx context.Context, data []byte) (*appsv1.ControllerRevision, error) {
	if len(o.revisions) == 0 {
		return nil, nil
	}
	latest := o.revisions[len(o.revisions)-1]
	for i := len(o.revisions) - 1; i >= 0; i-- {
		v := o.revisions[i]
		if !bytes.Equal(v.Data.Raw, data) {
			continue
		}
		if v == latest || bytes.Equal(latest.Data.Raw, data) {
			return latest, nil
		}
		return history.Renumber(ctx, o.client, v, latest.Revision+1)
	}
	if restores(latest, data) {
		return latest, nil
	}
	return nil, nil
}

// restores reports whether a revision has the template of these data in another form: Kubernetes
// before 1.34 wrote fields that it leaves out now.
func restores(v *appsv1.ControllerRevision, data []byte) bool {
	template, err := history.Template(v)
	if err != nil {
		return false
	}
	restored, err := history.Data(template)
	return err == nil && bytes.Equal(restored, data)
}

// newRevision returns the revision of the template, as it is to be created.
func (o *round) newRevision(data []byte) *appsv1.ControllerRevision {
	v := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Labels:          maps.Clone(o.set.Spec.Template.Labels),
			Annotations:     maps.Clone(o.set.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.set, kind)},
		},
		Revision: history.Last(o.revisions) + 1,
	}
	v.Data.Raw = data
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	hash := history.Hash(data, o.collisions)
	v.Labels[history.HashLabel] = hash
	v.Name = history.Name(o.set.Name, hash)
	return v
}

// truncate deletes the oldest revisions beyond revisionHistoryLimit that no pod has.
func (o *round) truncate(ctx context.Context) error {
	limit := o.set.Spec.RevisionHistoryLimit
	if limit == nil || *limit < 0 || len(o.revisions) <= int(*limit) {
		return nil
	}
	live := map[string]bool{}
	for _, v := range []*revision{o.current, o.update} {
		if v != nil {
			live[v.Name] = true
		}
	}
	for _, p := range o.pods {
		live[revisionOf(p)] = true
	}
	var old []*appsv1.ControllerRevision
	for _, v := range o.revisions {
		if !live[v.Name] {
			old = append(old, v)
		}
	}
	for _, v := range old[:max(0, len(old)-int(*limit))] {
		if err := history.Delete(ctx, o.client, v); err != nil {
			return err
		}
	}
	return nil
}
