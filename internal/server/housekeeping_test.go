package server

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kept returns the parts of housekeeping that a server does, of those that need no socket.
func kept(t *testing.T, o Options) []string {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Create work for each part.
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}, metav1.CreateOptions{})
	must(err)
	must(client.CoreV1().Namespaces().Delete(ctx, "ends", metav1.DeleteOptions{}))
	cms := client.CoreV1().ConfigMaps("default")
	_, err = cms.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "garbage", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "1"}}}}, metav1.CreateOptions{})
	must(err)
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"kubernetes.io/pvc-protection"}}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	_, err = claims.Create(ctx, claim, metav1.CreateOptions{})
	must(err)
	must(claims.Delete(ctx, "c", metav1.DeleteOptions{}))
	secrets := client.CoreV1().Secrets("default")
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	must(err)
	roles := client.RbacV1().ClusterRoles()
	_, err = roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "part", Labels: map[string]string{"a": "b"}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}, metav1.CreateOptions{})
	must(err)
	_, err = roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}}, metav1.CreateOptions{})
	must(err)
	events := client.CoreV1().Events("default")
	_, err = events.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{})
	must(err)

	time.Sleep(2 * time.Hour)
	gone := func(err error) bool {
		t.Helper()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil
	}
	did := map[string]bool{}
	_, err = client.CoreV1().Namespaces().Get(ctx, "ends", metav1.GetOptions{})
	did[emptyNamespaces] = gone(err)
	_, err = cms.Get(ctx, "garbage", metav1.GetOptions{})
	did[collectGarbage] = gone(err)
	_, err = claims.Get(ctx, "c", metav1.GetOptions{})
	did[releaseStorage] = gone(err)
	_, err = events.Get(ctx, "e", metav1.GetOptions{})
	did[endEvents] = gone(err)
	_, err = client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	did[keepAccounts] = !gone(err)
	secret, err := secrets.Get(ctx, "s", metav1.GetOptions{})
	must(err)
	did[fillTokens] = len(secret.Data[corev1.ServiceAccountTokenKey]) > 0
	role, err := roles.Get(ctx, "whole", metav1.GetOptions{})
	must(err)
	did[gatherRules] = len(role.Rules) > 0
	maps.DeleteFunc(did, func(_ string, done bool) bool { return !done })
	return slices.Sorted(maps.Keys(did))
}

// TestHousekeepingLeavesParts checks that each part can be switched off by itself, and that the
// others run.
func TestHousekeepingLeavesParts(t *testing.T) {
	all := []string{keepAccounts, gatherRules, collectGarbage, emptyNamespaces, releaseStorage, fillTokens, endEvents}
	for _, c := range []struct {
		name    string
		options Options
		want    []string
	}{
		{"nothing", Options{}, all},
		{"all", Options{Housekeeping: []string{"-*"}}, nil},
		{"all but one", Options{Housekeeping: []string{"-*", "gc"}}, []string{collectGarbage}},
		{"the last counts", Options{Housekeeping: []string{"-gc", "*"}}, all},
		{"garbage", Options{KeepGarbage: true, Housekeeping: []string{"*"}}, nil},
		{"no accounts", Options{Accounts: serviceaccount.Options{None: true}}, without(all, keepAccounts, fillTokens)},
		{"three", Options{Housekeeping: []string{"-gc", "-namespace", "-root-ca"}}, without(all, collectGarbage, emptyNamespaces)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := kept(t, c.options); !slices.Equal(got, c.want) {
					t.Errorf("the server does %q, want %q", got, c.want)
				}
			})
		})
	}
	for _, part := range all {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got, want := kept(t, Options{Housekeeping: []string{"-" + part}}), without(all, part); !slices.Equal(got, want) {
					t.Errorf("the server does %q, want %q", got, want)
				}
			})
		})
	}
}

func without(all []string, parts ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(part string) bool { return slices.Contains(parts, part) })
}

// TestHousekeepingRootCA checks that a server with a socket publishes its authority unless that
// part is switched off. Namespaces are processed one after another: when the second has its
// account, the first is complete.
func TestHousekeepingRootCA(t *testing.T) {
	for _, left := range []bool{false, true} {
		o := Options{Listen: "127.0.0.1:0"}
		if left {
			o.Housekeeping = []string{"-root-ca"}
		}
		s, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range []string{"first", "second"} {
			if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err = client.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
					break
				}
			}
		}
		_, err = client.CoreV1().ConfigMaps("first").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if apierrors.IsNotFound(err) != left || err != nil && !left {
			t.Errorf("switched off %t: %v", left, err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestHousekeepingNames checks that the error for an unknown name lists the known ones.
func TestHousekeepingNames(t *testing.T) {
	for _, entry := range []string{"-garbage", "", "-", "gc ", "--gc"} {
		_, err := Start(t.Context(), Options{Housekeeping: []string{"-gc", entry}})
		if err == nil || !strings.Contains(err.Error(), strings.Join(Housekeeping(), ", ")) {
			t.Errorf("%q: %v", entry, err)
		}
	}
	if !slices.IsSorted(Housekeeping()) {
		t.Errorf("not sorted: %q", Housekeeping())
	}
}
