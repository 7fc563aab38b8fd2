package client_test

import (
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Owners of objects.
func TestOwners(t *testing.T) {
	owner := func(name, uid string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + uid)}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	s := scheme.Scheme
	if err := client.SetControllerReference(owner("a", "1"), pod, s); err != nil {
		t.Fatal(err)
	}
	want := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "a", UID: "uid-1", Controller: new(true), BlockOwnerDeletion: new(true)}
	if got := pod.OwnerReferences; len(got) != 1 || got[0].String() != want.String() {
		t.Errorf("owners %v, want %v", got, want)
	}
	if err := client.SetControllerReference(owner("a", "2"), pod, s, client.WithBlockOwnerDeletion(false)); err != nil || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != "uid-2" {
		t.Errorf("the same name again: %v, %v", pod.OwnerReferences, err)
	}
	var owned *client.AlreadyOwnedError
	if err := client.SetControllerReference(owner("b", "3"), pod, s); !errors.As(err, &owned) || owned.Owner.Name != "a" {
		t.Errorf("a second controller: %v", err)
	}
	if err := client.SetOwnerReference(owner("b", "3"), pod, s); err != nil || len(pod.OwnerReferences) != 2 || pod.OwnerReferences[1].Controller != nil {
		t.Errorf("a second owner: %v, %v", pod.OwnerReferences, err)
	}
	if has, err := client.HasOwnerReference(pod.OwnerReferences, owner("b", "9"), s); err != nil || !has {
		t.Errorf("b: %v, %v", has, err)
	}
	if err := client.RemoveControllerReference(owner("b", "3"), pod, s); err == nil {
		t.Error("b is no controller")
	}
	if err := client.RemoveControllerReference(owner("a", "2"), pod, s); err != nil || client.HasControllerReference(pod) {
		t.Errorf("a: %v, %v", pod.OwnerReferences, err)
	}
	if err := client.RemoveOwnerReference(owner("a", "2"), pod, s); err == nil {
		t.Error("a was removed twice")
	}
	if err := client.RemoveOwnerReference(owner("b", "2"), pod, s); err != nil || len(pod.OwnerReferences) != 0 {
		t.Errorf("b: %v, %v", pod.OwnerReferences, err)
	}
	elsewhere := owner("a", "1")
	elsewhere.Namespace = "kube-system"
	if err := client.SetOwnerReference(elsewhere, pod, s); err == nil {
		t.Error("an owner of another namespace")
	}
	if err := client.SetOwnerReference(owner("a", "1"), &corev1.Node{}, s); err == nil {
		t.Error("an owner in a namespace, of an object in none")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n"}}
	if err := client.SetOwnerReference(node, pod, s); err != nil {
		t.Error(err)
	}
	if err := client.SetOwnerReference(&gadget{}, pod, s); err == nil {
		t.Error("an owner of no known kind")
	}
}
