package client_test

import (
	"testing"

	"github.com/kapok-dev/kapok/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditions(t *testing.T) {
	var conditions []metav1.Condition
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Done"}
	if !client.SetCondition(&conditions, ready) || client.SetCondition(&conditions, ready) {
		t.Error("set")
	}
	if !client.IsConditionTrue(conditions, "Ready") || client.FindCondition(conditions, "Ready").Reason != "Done" || client.FindCondition(conditions, "Other") != nil {
		t.Errorf("conditions %v", conditions)
	}
}
