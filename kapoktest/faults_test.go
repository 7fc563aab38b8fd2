package kapoktest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// TestFaults checks that the same seed causes the same faults, and that each kind of fault looks to
// clients as in a cluster.
func TestFaults(t *testing.T) {
	always := func(f kapoktest.Faults) (faults []kapoktest.Fault, there bool, err error) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			env.Create(configMap("a"))
			client, cerr := kubernetes.NewForConfig(env.Config())
			if cerr != nil {
				t.Fatal(cerr)
			}
			if f.Conflict > 0 {
				_, err = client.CoreV1().ConfigMaps("default").Update(t.Context(), configMap("a"), metav1.UpdateOptions{})
			} else {
				_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("b"), metav1.CreateOptions{})
			}
			faults, there = env.Faults(), env.Exists(configMap("b"))
		}, kapoktest.WithFaults(1, f))
		return faults, there, err
	}
	for _, tc := range []struct {
		name  string
		f     kapoktest.Faults
		is    func(error) bool
		there bool
	}{
		{"conflict", kapoktest.Faults{Conflict: 1}, apierrors.IsConflict, false},
		{"server error", kapoktest.Faults{ServerError: 1}, apierrors.IsInternalError, false},
		{"too many requests", kapoktest.Faults{TooManyRequests: 1}, apierrors.IsTooManyRequests, false},
		{"lost", kapoktest.Faults{Lost: 1}, func(err error) bool { return err != nil && !errors.As(err, new(apierrors.APIStatus)) }, true},
		{"unavailable", kapoktest.Faults{Unavailable: 1}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "connection refused") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, there, err := always(tc.f)
			if !tc.is(err) || there != tc.there || len(first) == 0 {
				t.Errorf("got %v, there %t, faults %v", err, there, first)
			}
			if again, _, _ := always(tc.f); fmt.Sprint(again) != fmt.Sprint(first) {
				t.Errorf("first %v, again %v", first, again)
			}
		})
	}
}

// TestTooManyRequestsTakesNoTime checks that in a bubble a rejected client retries at once, for a
// limited time; outside of bubbles it would wait a second.
func TestTooManyRequestsTakesNoTime(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		begin := time.Now()
		for _, ask := range []func() error{
			func() error {
				_, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
				return err
			},
			func() error { return env.Client().Create(t.Context(), configMap("a")) },
		} {
			before := len(env.Requests())
			if err := ask(); !apierrors.IsTooManyRequests(err) {
				t.Errorf("got %v", err)
			}
			if n := len(env.Requests()) - before; n != 11 {
				t.Errorf("%d requests of 11", n)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("it takes %v", took)
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{TooManyRequests: 1}))
}

// clientOf returns a client with faults.
func clientOf(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func older(t testing.TB, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return order < 0
}

func names(list *corev1.ConfigMapList) string {
	var all []string
	for _, cm := range list.Items {
		all = append(all, cm.Name)
	}
	return strings.Join(all, " ")
}

// TestStaleList checks that lists that accept any revision can be stale, and no others.
func TestStaleList(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(configMap("a"))
		time.Sleep(time.Minute)
		b, labelled := configMap("b"), map[string]string{"test": "stale"}
		b.Labels = labelled
		env.Create(b)
		protobuf := env.Config()
		protobuf.ContentType = runtime.ContentTypeProtobuf
		for _, config := range []*rest.Config{env.Config(), protobuf} {
			cms := clientOf(t, config).CoreV1().ConfigMaps("default")
			for _, tc := range []struct {
				options metav1.ListOptions
				want    string
			}{
				{metav1.ListOptions{}, "a b"},
				{metav1.ListOptions{ResourceVersion: "0"}, "a"},
				{metav1.ListOptions{ResourceVersion: "0", Limit: 1}, "a"},
				{metav1.ListOptions{ResourceVersion: "0", LabelSelector: "test=stale"}, ""},
				{metav1.ListOptions{ResourceVersion: b.ResourceVersion}, "a b"},
				{metav1.ListOptions{ResourceVersion: b.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, "a b"},
				{metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, "a"},
			} {
				tc.options.FieldSelector = "metadata.name!=kube-root-ca.crt"
				list, err := cms.List(t.Context(), tc.options)
				if err != nil || names(list) != tc.want {
					t.Errorf("list with %+v: %q, %v", tc.options, names(list), err)
				}
				if err == nil && tc.options.ResourceVersion == "0" && !older(t, list.ResourceVersion, b.ResourceVersion) {
					t.Errorf("a list of before is of resourceVersion %s, the last change of %s", list.ResourceVersion, b.ResourceVersion)
				}
			}
		}
		if faults := env.Faults(); len(faults) != 8 || faults[0].What != "StaleList" {
			t.Errorf("faults %v", faults)
		}
		time.Sleep(time.Minute)
		list, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || len(list.Items) != 2 {
			t.Errorf("after a while: %q, %v", names(list), err)
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{StaleList: 1, MaxStale: 30 * time.Second}), kapoktest.Server(func(o *kapok.Options) { o.Accounts.None = true }))
}

// TestStaleGet checks the same for gets.
func TestStaleGet(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(configMap("a"))
		time.Sleep(time.Minute)
		a := configMap("a")
		env.Update(a, func() { a.Data = map[string]string{"new": "yes"} })
		env.Create(configMap("b"))
		protobuf := env.Config()
		protobuf.ContentType = runtime.ContentTypeProtobuf
		any := metav1.GetOptions{ResourceVersion: "0"}
		for _, config := range []*rest.Config{env.Config(), protobuf} {
			cms := clientOf(t, config).CoreV1().ConfigMaps("default")
			if got, err := cms.Get(t.Context(), "a", any); err != nil || got.Data != nil || !older(t, got.ResourceVersion, a.ResourceVersion) || got.UID != a.UID {
				t.Errorf("got %+v, %v", got, err)
			}
			if got, err := cms.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || got.Data == nil {
				t.Errorf("without resourceVersion: got %+v, %v", got, err)
			}
			if got, err := cms.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: a.ResourceVersion}); err != nil || got.Data == nil {
				t.Errorf("not older than now: got %+v, %v", got, err)
			}
			if got, err := cms.Get(t.Context(), "b", any); !apierrors.IsNotFound(err) {
				t.Errorf("what was not there: %+v, %v", got, err)
			}
		}
		meta, err := metadata.NewForConfig(env.Config())
		if err != nil {
			t.Fatal(err)
		}
		got, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default").Get(t.Context(), "a", any)
		if err != nil || !older(t, got.ResourceVersion, a.ResourceVersion) {
			t.Errorf("metadata: got %+v, %v", got, err)
		}
		if _, err := clientOf(t, env.As("eve")).CoreV1().ConfigMaps("default").Get(t.Context(), "a", any); !apierrors.IsForbidden(err) {
			t.Errorf("who may not: %v", err)
		}
		env.Delete(a)
		if got, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "a", any); err != nil || got.Name != "a" {
			t.Errorf("what was there: %+v, %v", got, err)
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{StaleGet: 1}))
}

// TestDuplicate checks that a watch that resumes repeats events before it continues, and that a new
// watch does not.
func TestDuplicate(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		cms := clientOf(t, env.Config()).CoreV1().ConfigMaps("default")
		list, err := cms.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		env.Create(configMap("a"), configMap("b"))
		at := list.ResourceVersion
		watch := func(n int) (heard []string) {
			w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: at})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for range n {
				cm := (<-w.ResultChan()).Object.(*corev1.ConfigMap)
				at = cm.ResourceVersion
				heard = append(heard, cm.Name)
			}
			return heard
		}
		if first := watch(2); fmt.Sprint(first) != "[a b]" || len(env.Faults()) != 0 {
			t.Fatalf("first %v, faults %v", first, env.Faults())
		}
		env.Create(configMap("c"))
		switch again := fmt.Sprint(watch(2)); {
		case again != "[a b]" && again != "[b c]", len(env.Faults()) != 1, env.Faults()[0].What != "Duplicate":
			t.Errorf("heard again %s, faults %v", again, env.Faults())
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{Duplicate: 1}), kapoktest.Server(func(o *kapok.Options) { o.Accounts.None = true }))
}

// TestDelayBunches checks that events behind a delayed one are delivered together with it.
func TestDelayBunches(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			config := env.Config()
			config.ContentType = contentType
			cms := clientOf(t, config).CoreV1().ConfigMaps("default")
			list, err := cms.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			created := make(chan error, 120)
			go func() {
				for n := range 120 {
					time.Sleep(time.Second)
					env.Create(configMap(fmt.Sprint("c-", n)))
					created <- nil
				}
			}()
			begin := time.Now()
			arrived := map[time.Duration]int{}
			for range 120 {
				if err := <-created; err != nil {
					t.Fatal(err)
				}
				event, ok := <-w.ResultChan()
				if _, is := event.Object.(*corev1.ConfigMap); !ok || !is {
					t.Fatalf("got %+v", event)
				}
				arrived[time.Since(begin)]++
			}
			most, held := 0, 0
			for _, n := range arrived {
				most = max(most, n)
			}
			for _, f := range env.Faults() {
				if f.What == "DelayWatch" && f.Event > 0 {
					held++
				}
			}
			if held == 0 || most < 5 || len(arrived) < 20 {
				t.Errorf("%s: %d events were held back, at most %d came at once, at %d times", contentType, held, most, len(arrived))
			}
		}, kapoktest.WithFaults(1, kapoktest.Faults{DelayWatch: 0.05, MaxDelay: 20 * time.Second}))
	}
}

// TestSameSeedSameFaults checks that a sequential client gets the same faults in each run.
func TestSameSeedSameFaults(t *testing.T) {
	faults := kapoktest.Faults{
		Conflict: 0.1, ServerError: 0.1, TooManyRequests: 0.1, Lost: 0.1, Unavailable: 0.1, Forget: 0.1,
		StaleList: 0.5, StaleGet: 0.5, MaxStale: time.Minute, Restart: 0.05, Duplicate: 0.5, CutWatch: 0.2, DelayWatch: 0.2,
	}
	run := func(seed uint64) (met []kapoktest.Fault) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			config := env.Config()
			config.UserAgent = "single/1"
			cms := clientOf(t, config).CoreV1().ConfigMaps("default")
			at := "" // revision of the previous list
			for range 20 {
				cm, err := cms.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}}, metav1.CreateOptions{})
				if err == nil {
					_, _ = cms.Get(t.Context(), cm.Name, metav1.GetOptions{ResourceVersion: "0"})
					cm.Data = map[string]string{"k": "v"}
					_, _ = cms.Update(t.Context(), cm, metav1.UpdateOptions{})
				}
				list, err := cms.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
				if err == nil {
					w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: at, TimeoutSeconds: new(int64(1))})
					if err == nil {
						for range w.ResultChan() {
						}
					}
					at = list.ResourceVersion
				}
				time.Sleep(10 * time.Second)
			}
			met = env.Faults()
		}, kapoktest.WithFaults(seed, faults))
		return met
	}
	first := run(7)
	kinds := map[string]bool{}
	for _, f := range first {
		kinds[f.What] = true
	}
	if len(kinds) < 10 {
		t.Errorf("only %v", kinds)
	}
	times := 20
	if testing.Short() {
		times = 3
	}
	for range times {
		if again := run(7); !slices.Equal(again, first) {
			for n := range min(len(first), len(again)) {
				if first[n] != again[n] {
					t.Fatalf("first\n%v\nthen\n%v", first[n:min(n+5, len(first))], again[n:min(n+5, len(again))])
				}
			}
			t.Fatalf("%d faults, then %d", len(first), len(again))
		}
	}
	if slices.Equal(run(8), first) {
		t.Error("another seed brings the same")
	}
}

// TestClientMeetsFaults checks that the test's own client has faults, and is recorded.
func TestClientMeetsFaults(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		err := env.Client().Create(t.Context(), configMap("a"))
		if !apierrors.IsInternalError(err) {
			t.Errorf("got %v", err)
		}
		if all := env.Writes(); len(all) != 1 || all[0].UserAgent != "test" || len(env.Requests()) != 1 {
			t.Errorf("recorded: %v", env.Requests())
		}
		env.Create(configMap("b")) // requests of the Env have no faults
		env.EndFaults()
		if err := env.Client().Create(t.Context(), configMap("a")); err != nil {
			t.Error(err)
		}
	}, kapoktest.WithFaults(1, kapoktest.Faults{ServerError: 1}))
}

// TestEndFaultsUnderWay checks that EndFaults ends a present outage, and the delay of an event.
func TestEndFaultsUnderWay(t *testing.T) {
	t.Run("outage", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			cms := clientOf(t, env.Config()).CoreV1().ConfigMaps("default")
			if _, err := cms.List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("there is no outage")
			}
			begin := time.Now()
			env.EndFaults()
			if _, err := cms.List(t.Context(), metav1.ListOptions{}); err != nil || time.Since(begin) > time.Second {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		}, kapoktest.WithFaults(1, kapoktest.Faults{Restart: 1, MaxOutage: 24 * time.Hour}))
	})
	t.Run("delay", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			w, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			begin := time.Now()
			env.Create(configMap("a"))
			synctest.Wait()
			env.EndFaults()
			<-w.ResultChan()
			if took := time.Since(begin); took > time.Second {
				t.Errorf("it comes after %v", took)
			}
		}, kapoktest.WithFaults(1, kapoktest.Faults{DelayWatch: 1, MaxDelay: 24 * time.Hour}))
	})
}
