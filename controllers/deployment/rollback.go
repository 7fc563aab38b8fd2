package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// rollbackTo returns the revision that the annotation names by which extensions/v1beta1 asked for a
// rollback, which is 0 for the one before; nil if there is none, or it is not a number. kubectl
// rollout undo does without it.
func rollbackTo(d *appsv1.Deployment) *int64 {
	to, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	if err != nil {
		return nil
	}
	return &to
}

// rollBack copies the template of a revision to the Deployment, and removes the annotation that
// asked for it.
func (o *rollout) rollBack(ctx context.Context, to int64) error {
	if o.current == nil {
		if err := o.create(ctx); err != nil {
			return err
		}
	} else if err := o.updateCurrent(ctx); err != nil {
		return err
	}
	if to == 0 {
		if to = o.lastRevision(); to == 0 {
			return o.endRollback(ctx, corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
		}
	}
	for _, rs := range o.all() {
		if v, err := revision(rs); err != nil || v != to {
			continue
		}
		if sameTemplate(&rs.Spec.Template, &o.d.Spec.Template) {
			return o.endRollback(ctx, corev1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", o.d.Name))
		}
		o.takeTemplate(rs)
		return o.endRollback(ctx, corev1.EventTypeNormal, "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", o.d.Name, to))
	}
	return o.endRollback(ctx, corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
}

// lastRevision returns the revision before the latest one, 0 if there is none.
func (o *rollout) lastRevision() (last int64) {
	var latest int64
	for _, rs := range o.all() {
		switch v, err := revision(rs); {
		case err != nil:
		case v >= latest:
			last, latest = latest, v
		case v > last:
			last = v
		}
	}
	return last
}

// takeTemplate gives the Deployment the template of a ReplicaSet, and the annotations that the
// Deployment had with it: its change cause, for one.
func (o *rollout) takeTemplate(rs *appsv1.ReplicaSet) {
	rs.Spec.Template.DeepCopyInto(&o.d.Spec.Template)
	delete(o.d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	maps.DeleteFunc(o.d.Annotations, func(name, _ string) bool { return !ofOne(name) })
	for name, value := range rs.Annotations {
		if !ofOne(name) {
			o.d.Annotations[name] = value
		}
	}
}

func (o *rollout) endRollback(ctx context.Context, eventType, reason, message string) error {
	delete(o.d.Annotations, appsv1.DeprecatedRollbackTo)
	if eventType == corev1.EventTypeWarning {
		o.events.Event(o.d, eventType, reason, message)
		return o.client.Update(ctx, o.d)
	}
	if err := o.client.Update(ctx, o.d); err != nil {
		return err
	}
	o.events.Event(o.d, eventType, reason, message)
	return nil
}
