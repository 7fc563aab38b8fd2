// Package autoscaling defines horizontal pod autoscalers.
package autoscaling
