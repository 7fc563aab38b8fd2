package replicas

import (
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAccounts checks that a token of one server is valid on the others as long as its account
// exists, and that objects that one server maintains for all exist on all.
func TestAccounts(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	with := func(o *kapok.Options) { o.Accounts.None = false }
	servers := []*server{c.startServer(t, with), c.startServer(t, with)}
	admins := []kubernetes.Interface{kubernetes.NewForConfigOrDie(servers[0].config(t)), kubernetes.NewForConfigOrDie(servers[1].config(t))}
	ctx := t.Context()
	for i, admin := range admins {
		other := 1 - i
		namespace := fmt.Sprintf("lab%d", i)
		if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// Pods wait for their account, whichever server creates it.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		request, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(servers[other].config(t))
		config.BearerToken = request.Status.Token
		bearer := kubernetes.NewForConfigOrDie(config)
		list := func() error {
			_, err := bearer.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
			return err
		}
		// The other server may not have seen the pod yet.
		if _, err := admins[other].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list(); !apierrors.IsForbidden(err) {
			t.Errorf("server %d, token of server %d: %v", other, i, err)
		}
		grace := int64(0)
		if err := admin.CoreV1().Pods(namespace).Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
		if _, err := admins[other].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := list(); !apierrors.IsUnauthorized(err) {
			t.Errorf("server %d, token of server %d without its pod: %v", other, i, err)
		}
	}
}
