package bench_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BenchmarkRoleChurn measures the latency of gets at a fixed rate, with 5,000 role bindings:
// without load, and while the admin of another namespace patches an empty role as fast as possible.
// Run it with -benchtime 1x.
func BenchmarkRoleChurn(b *testing.B) {
	const (
		bindings = 5000
		every    = 10 * time.Millisecond
		gets     = 500
	)
	server, err := kapok.Start(b.Context(), kapok.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	admin, ctx := clientOf(server, "root", "system:masters"), b.Context()
	for i := range bindings {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: fmt.Sprint("user", i), APIGroup: rbacv1.GroupName}},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin", APIGroup: rbacv1.GroupName},
		}
		namespace := fmt.Sprint("team", i%10)
		if i < 10 {
			if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	attacker, user := clientOf(server, "user0", "system:authenticated"), clientOf(server, "user1", "system:authenticated")
	if _, err := attacker.RbacV1().Roles("team0").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps("team1").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	paced := func(b *testing.B) {
		took := make([]time.Duration, gets)
		begin := time.Now()
		for i := range took {
			due := begin.Add(time.Duration(i) * every)
			<-time.After(time.Until(due))
			if _, err := user.CoreV1().ConfigMaps("team1").Get(ctx, "c", metav1.GetOptions{}); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(due)
		}
		slices.Sort(took)
		b.ReportMetric(took[gets/2].Seconds()*1e3, "p50-ms")
		b.ReportMetric(took[gets*99/100].Seconds()*1e3, "p99-ms")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("alone", func(b *testing.B) {
		for range b.N {
			paced(b)
		}
	})
	b.Run("churn", func(b *testing.B) {
		for range b.N {
			churning, stop := context.WithCancel(ctx)
			var churn sync.WaitGroup
			patches := 0
			churn.Go(func() {
				for churning.Err() == nil {
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, patches)
					if _, err := attacker.RbacV1().Roles("team0").Patch(churning, "empty", types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
						patches++
					}
				}
			})
			begin := time.Now()
			paced(b)
			b.ReportMetric(float64(patches)/time.Since(begin).Seconds(), "patches/s")
			stop()
			churn.Wait()
		}
	})
}

// clientOf returns a client that acts as another user.
func clientOf(server *kapok.Server, user string, groups ...string) *kubernetes.Clientset {
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return kubernetes.NewForConfigOrDie(config)
}
