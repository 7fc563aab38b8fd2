package podautoscaler

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// condition returns a condition without a time.
func condition(of autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, reason, message string) autoscalingv2.HorizontalPodAutoscalerCondition {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	return autoscalingv2.HorizontalPodAutoscalerCondition{Type: of, Status: status, Reason: reason, Message: message}
}

// find returns the condition of a type, or nil.
func find(all []autoscalingv2.HorizontalPodAutoscalerCondition, of autoscalingv2.HorizontalPodAutoscalerConditionType) *autoscalingv2.HorizontalPodAutoscalerCondition {
	for i := range all {
		if all[i].Type == of {
			return &all[i]
		}
	}
	return nil
}
