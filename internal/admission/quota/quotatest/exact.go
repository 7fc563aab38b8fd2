// Package quotatest tests that the used amounts of quotas are exact, with any number of servers on
// a store.
package quotatest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Exact has clients of each server create, change and delete objects and quotas at random, in one
// namespace of the store that the servers share. After each round it counts the objects and
// compares. The given seed makes the operations repeatable.
func Exact(t *testing.T, seed uint64, rounds, steps int, servers ...*rest.Config) {
	t.Helper()
	x := &exact{t: t}
	for _, config := range servers {
		config = rest.CopyConfig(config)
		config.QPS = -1
		x.clients = append(x.clients, kubernetes.NewForConfigOrDie(config))
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if _, err := x.clients[0].CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		var writers sync.WaitGroup
		for i := range 2 * len(x.clients) {
			w := &writer{
				exact: x, client: x.clients[i%len(x.clients)], name: fmt.Sprintf("w%d-%d", round, i),
				random: rand.New(rand.NewPCG(seed, uint64(round*100+i))),
			}
			writers.Go(func() {
				for range steps {
					w.step(t.Context())
				}
			})
		}
		writers.Wait()
		if t.Failed() {
			return
		}
		x.judge(round)
	}
	if x.created == 0 || x.refused == 0 {
		t.Errorf("%d objects were created and %d rejected: the test needs both", x.created, x.refused)
	}
}

const ns = "counted"

type exact struct {
	t       *testing.T
	clients []*kubernetes.Clientset

	mu               sync.Mutex
	created, refused int
}

// met counts the outcome of a request, and reports success. Errors caused by concurrent writers are
// no failure.
func (x *exact) met(what string, err error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		x.created++
	case apierrors.IsForbidden(err):
		x.refused++
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
		x.t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// A writer is a client that sends one request after another.
type writer struct {
	*exact
	client *kubernetes.Clientset
	name   string
	random *rand.Rand
	next   int
	pods   []string
	maps   []string
	others []string
}

func (w *writer) step(ctx context.Context) {
	core := w.client.CoreV1()
	w.next++
	name := fmt.Sprintf("%s-%d", w.name, w.next)
	meta := metav1.ObjectMeta{Name: name}
	switch n := w.random.IntN(20); {
	case n < 6:
		if _, err := core.Pods(ns).Create(ctx, w.pod(meta), metav1.CreateOptions{}); w.met("create a pod", err) {
			w.pods = append(w.pods, name)
		}
	case n < 9:
		if pod, ok := w.take(&w.pods); ok {
			grace := int64(0)
			w.met("delete a pod", core.Pods(ns).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		}
	case n < 11 && len(w.pods) > 0:
		end := []byte(`{"status":{"phase":"Succeeded"}}`)
		pod := w.pods[w.random.IntN(len(w.pods))]
		_, err := core.Pods(ns).Patch(ctx, pod, types.MergePatchType, end, metav1.PatchOptions{}, "status")
		w.met("end a pod", err)
	case n < 13:
		if _, err := core.ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{}); w.met("create a map", err) {
			w.maps = append(w.maps, name)
		}
	case n < 14:
		if m, ok := w.take(&w.maps); ok {
			w.met("delete a map", core.ConfigMaps(ns).Delete(ctx, m, metav1.DeleteOptions{}))
		}
	case n < 15:
		s := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := core.Services(ns).Create(ctx, s, metav1.CreateOptions{}); w.met("create a service", err) {
			w.others = append(w.others, name)
		}
	case n < 16 && len(w.others) > 0:
		kind := []string{"ClusterIP", "NodePort"}[w.random.IntN(2)]
		_, err := core.Services(ns).Patch(ctx, w.others[w.random.IntN(len(w.others))], types.MergePatchType,
			[]byte(`{"spec":{"type":"`+kind+`"}}`), metav1.PatchOptions{})
		w.met("change a service", err)
	default:
		w.changeQuota(ctx)
	}
}

func (w *writer) take(from *[]string) (string, bool) {
	if len(*from) == 0 {
		return "", false
	}
	i := w.random.IntN(len(*from))
	name := (*from)[i]
	*from = append((*from)[:i], (*from)[i+1:]...)
	return name, true
}

func (w *writer) pod(meta metav1.ObjectMeta) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if w.random.IntN(3) == 0 {
		deadline := int64(60)
		pod.Spec.ActiveDeadlineSeconds = &deadline
	}
	if w.random.IntN(4) > 0 {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(int64(100+w.random.IntN(900)), resource.DecimalSI),
		}
	}
	return pod
}

// changeQuota creates, changes or deletes one of a few quotas, which all writers share.
func (w *writer) changeQuota(ctx context.Context) {
	quotas := w.client.CoreV1().ResourceQuotas(ns)
	most := fmt.Sprint(3 + w.random.IntN(12))
	all := []corev1.ResourceQuotaSpec{
		{Hard: hard("pods", most, "count/pods", "100")},
		{Hard: hard("requests.cpu", most, "count/configmaps", most)},
		{Hard: hard("pods", most), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}},
		{Hard: hard("services", "50", "services.nodeports", most, "configmaps", "20", "resourcequotas", "20")},
		{Hard: hard("pods", "20"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}},
	}
	i := w.random.IntN(len(all))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("q", i)}, Spec: all[i]}
	switch w.random.IntN(4) {
	case 0:
		w.met("delete a quota", quotas.Delete(ctx, quota.Name, metav1.DeleteOptions{}))
	case 1, 2:
		_, err := quotas.Create(ctx, quota, metav1.CreateOptions{})
		w.met("create a quota", err)
	default:
		if stored, err := quotas.Get(ctx, quota.Name, metav1.GetOptions{}); err == nil {
			stored.Spec.Hard = quota.Spec.Hard
			_, err := quotas.Update(ctx, stored, metav1.UpdateOptions{})
			w.met("change a quota", err)
		}
	}
}

func hard(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// judge waits until every quota shows the counted use. Only the servers write meanwhile.
func (x *exact) judge(round int) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 20*time.Second)
	defer cancel()
	var wrong string
	for _, client := range x.clients {
		for {
			list, err := client.CoreV1().ResourceQuotas(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				x.t.Fatalf("round %d: %s: %v", round, wrong, err)
			}
			used, err := recount(ctx, client)
			if err != nil {
				x.t.Fatalf("round %d: %v", round, err)
			}
			if wrong = differs(list.Items, used); wrong == "" {
				break
			}
			if !x.change(ctx, client, list.ResourceVersion) {
				x.t.Fatalf("round %d: %s", round, wrong)
			}
		}
	}
}

// change waits for a change of a quota, and reports whether one came.
func (x *exact) change(ctx context.Context, client *kubernetes.Clientset, since string) bool {
	watch, err := client.CoreV1().ResourceQuotas(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: since})
	if err != nil {
		return false
	}
	defer watch.Stop()
	select {
	case _, ok := <-watch.ResultChan():
		return ok
	case <-ctx.Done():
		return false
	}
}

// recount counts what the quotas of changeQuota bound, by scope.
func recount(ctx context.Context, client *kubernetes.Clientset) (map[corev1.ResourceQuotaScope]corev1.ResourceList, error) {
	core := client.CoreV1()
	pods, err := core.Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	maps, err := core.ConfigMaps(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	services, err := core.Services(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	quotas, err := core.ResourceQuotas(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	n := map[string]int{}
	var cpu resource.Quantity
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		n["pods"]++
		requests := p.Spec.Containers[0].Resources.Requests
		cpu.Add(requests[corev1.ResourceCPU])
		if len(requests) == 0 {
			n["idle"]++
		}
		if p.Spec.ActiveDeadlineSeconds != nil {
			n["ending"]++
		}
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			n["ports"]++
		}
	}
	text := func(n int) string { return fmt.Sprint(n) }
	return map[corev1.ResourceQuotaScope]corev1.ResourceList{
		"": hard("pods", text(n["pods"]), "count/pods", text(len(pods.Items)), "requests.cpu", cpu.String(),
			"count/configmaps", text(len(maps.Items)), "configmaps", text(len(maps.Items)),
			"services", text(len(services.Items)), "services.nodeports", text(n["ports"]), "resourcequotas", text(len(quotas.Items))),
		corev1.ResourceQuotaScopeTerminating: hard("pods", text(n["ending"])),
		corev1.ResourceQuotaScopeBestEffort:  hard("pods", text(n["idle"])),
	}, nil
}

// differs describes a quota whose used amount is wrong, "" if none is.
func differs(quotas []corev1.ResourceQuota, used map[corev1.ResourceQuotaScope]corev1.ResourceList) string {
	for _, q := range quotas {
		scope := corev1.ResourceQuotaScope("")
		if len(q.Spec.Scopes) > 0 {
			scope = q.Spec.Scopes[0]
		}
		for name, most := range q.Spec.Hard {
			want := used[scope][name]
			got, ok := q.Status.Used[name]
			shown := q.Status.Hard[name]
			if !ok || got.Cmp(want) != 0 || shown.Cmp(most) != 0 {
				return fmt.Sprintf("quota %s shows %s of %s %s used, want %s of %s", q.Name, got.String(), shown.String(), name, want.String(), most.String())
			}
		}
	}
	return ""
}
