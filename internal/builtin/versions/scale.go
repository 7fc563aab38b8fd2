package versions

import (
	"fmt"

	"github.com/kapok-dev/kapok/convert"

	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// scale: the selector was a map, and then a map and a text, before it was a text.
func scale() []convert.Rule {
	return []convert.Rule{
		same[autoscalingv1.Scale, autoscalingv1.Scale](),
		same[autoscalingv1.Scale, appsv1beta2.Scale](),
		same[autoscalingv1.Scale, appsv1beta1.Scale](),
		same[autoscalingv1.Scale, extensionsv1beta1.Scale](),
		both(
			func(in *appsv1beta2.ScaleStatus, hub *autoscalingv1.ScaleStatus) error {
				hub.Selector = selectorIn(in.Selector, in.TargetSelector)
				return nil
			},
			func(hub *autoscalingv1.ScaleStatus, out *appsv1beta2.ScaleStatus) (err error) {
				out.Selector, out.TargetSelector, err = selectorOut(hub.Selector)
				return err
			},
		),
		both(
			func(in *appsv1beta1.ScaleStatus, hub *autoscalingv1.ScaleStatus) error {
				hub.Selector = selectorIn(in.Selector, in.TargetSelector)
				return nil
			},
			func(hub *autoscalingv1.ScaleStatus, out *appsv1beta1.ScaleStatus) (err error) {
				out.Selector, out.TargetSelector, err = selectorOut(hub.Selector)
				return err
			},
		),
		both(
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

// selectorOut returns the selector as a map, if it is one, and as a text.
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
