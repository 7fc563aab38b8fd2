package kapoktest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/webhook"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// TestServerFollowsVirtualTime checks that the server's timers use the clock of the bubble.
func TestServerFollowsVirtualTime(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, env *kapoktest.Env, c *clock)
		opts []kapoktest.Option
	}{
		{name: "creation, changes and deletion are stamped", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			time.Sleep(3 * day)
			cm := configMap("a")
			cm.Finalizers = []string{"example.com/f"}
			env.Create(cm)
			c.is("created", cm.CreationTimestamp.Time, 3*day)
			c.is("managed", cm.ManagedFields[0].Time.Time, 3*day)
			time.Sleep(day)
			env.Update(cm, func() { cm.Data = map[string]string{"k": "v"} })
			c.is("managed after an update", cm.ManagedFields[0].Time.Time, 4*day)
			time.Sleep(day)
			env.Delete(cm)
			env.Get(cm)
			c.is("deleted", cm.DeletionTimestamp.Time, 5*day)
			c.is("created, still", cm.CreationTimestamp.Time, 3*day)
		}},
		{name: "a pod has its grace", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			bound, free := somePod("bound"), somePod("free")
			bound.Spec.NodeName = "n"
			env.Create(bound, free)
			time.Sleep(day)
			env.Delete(bound, free)
			if env.Exists(free) {
				t.Error("a pod without a node still exists")
			}
			env.Get(bound)
			c.is("the end of the grace", bound.DeletionTimestamp.Time, day+30*time.Second)
			if err := env.Client().Delete(t.Context(), bound, client.GracePeriodSeconds(10)); err != nil {
				t.Error(err)
			}
			env.Get(bound)
			c.is("a shorter one", bound.DeletionTimestamp.Time, day+10*time.Second)
		}},
		{name: "events end an hour after the last word of them", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			once, again := someEvent("once"), someEvent("again")
			env.Create(once, again)
			time.Sleep(30 * time.Minute)
			env.Update(again, func() { again.Count = 2 })
			c.there(once, true, 59*time.Minute)
			c.there(once, false, 61*time.Minute)
			c.there(again, true, 89*time.Minute)
			c.there(again, false, 91*time.Minute)
		}},
		{name: "a namespace keeps what is in it for a while", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
			cm := configMap("a")
			cm.Namespace = ns.Name
			env.Create(ns, cm)
			time.Sleep(day)
			env.Delete(ns)
			c.there(cm, true, day+4*time.Second)
			c.there(cm, false, day+6*time.Second)
			c.there(ns, false, day+6*time.Second)
		}, opts: []kapoktest.Option{kapoktest.Server(func(o *kapok.Options) { o.NamespaceGrace = 5 * time.Second })}},
		{name: "leases are whose they are", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "default"}}
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			env.Create(lease)
			time.Sleep(day)
			env.Get(lease)
			c.is("renewed", lease.Spec.RenewTime.Time, 0)
		}},
		{name: "tokens of service accounts expire", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			time.Sleep(day)
			typed := clientset(t, env.Config())
			request, err := typed.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.is("expires", request.Status.ExpirationTimestamp.Time, day+time.Hour)
			valid := func() bool {
				review, err := typed.AuthenticationV1().TokenReviews().Create(t.Context(),
					&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: request.Status.Token}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return review.Status.Authenticated
			}
			c.until(day + 59*time.Minute)
			if !valid() {
				t.Error("it is not valid for an hour")
			}
			c.until(day + time.Hour + 2*time.Minute) // clocks may differ by a minute
			if valid() {
				t.Error("it does not expire")
			}
		}},
		{name: "a watch has a bookmark a minute, and ends", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			cm := configMap("a")
			env.Create(cm)
			w, err := clientset(t, env.Config()).CoreV1().ConfigMaps("").Watch(t.Context(),
				metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: new(int64(600)), ResourceVersion: cm.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			bookmarks := 0
			for e := range w.ResultChan() {
				if e.Type == watch.Bookmark {
					bookmarks++
				}
			}
			if bookmarks != 10 { // one a minute, and the last one before the end
				t.Errorf("%d bookmarks in ten minutes", bookmarks)
			}
			c.is("its end", time.Now(), 10*time.Minute)
		}},
		{name: "a watch without a limit ends within the hour", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			w, err := clientset(t, env.Config()).CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for range w.ResultChan() {
			}
			if took := c.passed(); took < 30*time.Minute || took > time.Hour {
				t.Errorf("it ends after %v", took)
			}
		}},
		// Kubernetes compacts history older than five minutes at some time; here only history that
		// does not fit in memory is dropped, or on request.
		{name: "history is there until it is compacted", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			all := clientset(t, env.Config()).CoreV1().ConfigMaps("default")
			for n := range 3 {
				env.Create(configMap(fmt.Sprint("c", n)))
			}
			page, err := all.List(t.Context(), metav1.ListOptions{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			env.Create(configMap("late"))
			time.Sleep(2 * day)
			next := metav1.ListOptions{Limit: 100, Continue: page.Continue}
			if rest, err := all.List(t.Context(), next); err != nil || rest.ResourceVersion != page.ResourceVersion {
				t.Errorf("the next page: %v", err)
			}
			since := metav1.ListOptions{ResourceVersion: page.ResourceVersion, TimeoutSeconds: new(int64(1))}
			first := func() watch.Event {
				w, err := all.Watch(t.Context(), since)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				return <-w.ResultChan()
			}
			if e := first(); e.Type != watch.Added {
				t.Errorf("a watch that resumes gets %v", e)
			}
			if err := env.Server().Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := all.List(t.Context(), next); !apierrors.IsResourceExpired(err) {
				t.Errorf("the next page, after compaction: %v", err)
			}
			if e := first(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("a watch that resumes after compaction gets %v", e)
			}
		}},
		{name: "tables tell ages", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			env.Create(configMap("old"))
			time.Sleep(3 * day)
			text, err := clientset(t, env.Config()).CoreV1().RESTClient().Get().Resource("configmaps").Namespace("default").Name("old").
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
			if err != nil || !strings.Contains(string(text), `"3d"`) {
				t.Errorf("%s, %v", text, err)
			}
		}},
		{name: "conditions are stamped", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			time.Sleep(day)
			env.Create(widgets(t))
			time.Sleep(time.Minute)
			crd := widgets(t)
			env.Get(crd)
			conditions := crd.Object["status"].(map[string]any)["conditions"].([]any)
			for _, condition := range conditions {
				at, err := time.Parse(time.RFC3339, condition.(map[string]any)["lastTransitionTime"].(string))
				if err != nil {
					t.Fatal(err)
				}
				c.is(fmt.Sprint(condition), at, day)
			}
			if len(conditions) < 2 {
				t.Errorf("conditions are %v", conditions)
			}
		}},
		{name: "requests wait for a seat for a quarter of their time", run: func(t *testing.T, env *kapoktest.Env, c *clock) {
			time.Sleep(day)
			// The only seat is used by a request that waits for a webhook.
			answer, taken := make(chan struct{}), make(chan struct{})
			env.WebhookMux().Handle("/slow", &webhook.Webhook{Handler: webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
				<-answer
				return webhook.Denied("after a long time")
			})})
			go func() {
				defer close(taken)
				b := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
				_, err := clientset(t, env.As("eve")).CoreV1().ConfigMaps("default").Create(t.Context(), &b, metav1.CreateOptions{})
				if !apierrors.IsForbidden(err) {
					t.Errorf("a request that was denied: %v", err)
				}
			}()
			time.Sleep(time.Second)
			begin := time.Now()
			read := clientset(t, env.As("eve")).CoreV1().RESTClient().Get().Resource("configmaps").Namespace("default").Name("a").MaxRetries(0)
			if err := read.Do(t.Context()).Error(); !apierrors.IsTooManyRequests(err) || time.Since(begin) != 15*time.Second {
				t.Errorf("refused after %v: %v", time.Since(begin), err)
			}
			close(answer)
			<-taken
			if err := read.Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
				t.Errorf("with a seat: %v", err)
			}
		}, opts: []kapoktest.Option{
			kapoktest.Server(func(o *kapok.Options) {
				o.Fairness = kapok.FairnessOptions{MaxRequestsInFlight: 1, MaxMutatingRequestsInFlight: -1}
			}),
			kapoktest.Webhooks(write(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
- name: slow.example.com
  clientConfig: {service: {name: slow, namespace: default, path: /slow}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
`)),
			kapoktest.YAML(`
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: one}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 1, borrowingLimitPercent: 0, limitResponse: {type: Queue, queuing: {queues: 1, handSize: 1, queueLengthLimit: 9}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: one}
spec:
  priorityLevelConfiguration: {name: one}
  matchingPrecedence: 2
  rules:
  - subjects: [{kind: User, user: {name: eve}}]
    resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: eve}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: eve}]
`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				tc.run(t, env, &clock{t: t, env: env, begin: time.Now()})
			}, tc.opts...)
		})
	}
}

// A clock returns the time since its start.
type clock struct {
	t     *testing.T
	env   *kapoktest.Env
	begin time.Time
}

func (c *clock) passed() time.Duration { return time.Since(c.begin) }

// until sleeps until a time of the clock.
func (c *clock) until(passed time.Duration) { time.Sleep(passed - c.passed()) }

// is compares a timestamp, which may lack its fraction of a second.
func (c *clock) is(what string, at time.Time, want time.Duration) {
	c.t.Helper()
	if off := at.Sub(c.begin) - want; off < -time.Second || off > time.Second {
		c.t.Errorf("%s: %v after the beginning, want %v", what, at.Sub(c.begin), want)
	}
}

// there checks whether an object exists after some time.
func (c *clock) there(obj client.Object, want bool, after time.Duration) {
	c.t.Helper()
	c.until(after)
	if c.env.Exists(obj) != want {
		c.t.Errorf("%s exists after %v: %v", obj.GetName(), after, !want)
	}
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func somePod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	return pod
}

func someEvent(name string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: "a"}}
}

// widgets returns the definition of widgets.
func widgets(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	text, err := os.ReadFile("testdata/crd/widget.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	return crd
}
