package podautoscaler

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/client"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A target is the object that an autoscaler scales. Its kind needs nothing but a scale.
type target struct {
	object *unstructured.Unstructured // its kind and name
	scale  *autoscalingv1.Scale       // as it was read last
}

// findTarget reads the scale of the target of an autoscaler.
func (p *pass) findTarget(ctx context.Context) (*target, error) {
	ref := &p.hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, specError{err}
	}
	// The version of the reference does not matter.
	mapping, err := p.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return nil, err
	}
	t := &target{object: &unstructured.Unstructured{}, scale: &autoscalingv1.Scale{}}
	t.object.SetGroupVersionKind(mapping.GroupVersionKind)
	t.object.SetNamespace(p.hpa.Namespace)
	t.object.SetName(ref.Name)
	if err := p.client.SubResource("scale").Get(ctx, t.object, t.scale); err != nil {
		return nil, err
	}
	if t.scale.Status.Selector, err = canonical(t.scale.Status.Selector); err != nil {
		return nil, fmt.Errorf("received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to parse target selector: %w", err)
	}
	return t, nil
}

// canonical returns a selector in the form in which Kubernetes writes it, if it is one of labels.
func canonical(selector string) (string, error) {
	if selector == "" {
		return "", nil
	}
	parsed, err := metav1.ParseToLabelSelector(selector)
	if err != nil {
		return "", err
	}
	s, err := metav1.LabelSelectorAsSelector(parsed)
	if err != nil {
		return "", err
	}
	return s.String(), nil
}

// rescale writes the number of replicas of a target.
func (p *pass) rescale(ctx context.Context, t *target, replicas int32) error {
	scales := p.client.SubResource("scale")
	return client.RetryOnConflict(ctx, func() error {
		next := t.scale.DeepCopy()
		next.Spec.Replicas = replicas
		err := scales.Update(ctx, t.object, client.WithSubResourceBody(next))
		if err == nil {
			return nil
		}
		latest := &autoscalingv1.Scale{}
		if err := scales.Get(ctx, t.object, latest); err == nil {
			t.scale = latest
		}
		return err
	})
}

// describe returns the reference of a target for errors.
func (p *pass) describe() string {
	ref := &p.hpa.Spec.ScaleTargetRef
	return fmt.Sprintf("%s/%s/%s", ref.Kind, p.hpa.Namespace, ref.Name)
}
