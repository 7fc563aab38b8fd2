package apps

import (
	"fmt"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ScaleConversions are the conversions of Scale. The selector was a map, then a map and a string,
// and now is a string.
func ScaleConversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[autoscalingv1.Scale, autoscalingv1.Scale](),
		kind.Same[autoscalingv1.Scale, appsv1beta2.Scale](),
		kind.Same[autoscalingv1.Scale, appsv1beta1.Scale](),
		kind.Same[autoscalingv1.Scale, extensionsv1beta1.Scale](),
		kind.Both(
			func(in *appsv1beta2.ScaleStatus, hub *autoscalingv1.ScaleStatus) error {
				hub.Selector = selectorIn(in.Selector, in.TargetSelector)
				return nil
			},
			func(hub *autoscalingv1.ScaleStatus, out *appsv1beta2.ScaleStatus) (err error) {
				out.Selector, out.TargetSelector, err = selectorOut(hub.Selector)
				return err
			},
		),
		kind.Both(
			func(in *appsv1beta1.ScaleStatus, hub *autoscalingv1.ScaleStatus) error {
				hub.Selector = selectorIn(in.Selector, in.TargetSelector)
				return nil
			},
			func(hub *autoscalingv1.ScaleStatus, out *appsv1beta1.ScaleStatus) (err error) {
				out.Selector, out.TargetSelector, err = selectorOut(hub.Selector)
				return err
			},
		),
		kind.Both(
			func(in *extensionsv1beta1.ScaleStatus, hub *autoscalingv1.ScaleStatus) error {
				hub.Selector = selectorIn(in.Selector, in.TargetSelector)
				return nil
			},
			func(hub *autoscalingv1.ScaleStatus, out *extensionsv1beta1.ScaleStatus) (err error) {
				out.Selector, out.TargetSelector, err = selectorOut(hub.Selector)
				return err
			},
		),
	}
}

func selectorIn(set map[string]string, text string) string {
	if text != "" || set == nil {
		return text
	}
	return labels.SelectorFromSet(set).String()
}

// selectorOut returns the selector as a map, if it is one, and as a string.
func selectorOut(text string) (map[string]string, string, error) {
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, "", fmt.Errorf("failed to parse selector: %v", err)
	}
	if len(selector.MatchExpressions) > 0 {
		return nil, text, nil
	}
	return selector.MatchLabels, text, nil
}
