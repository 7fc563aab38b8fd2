package kapoktest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const period = 5 * time.Minute

// cronController starts a job every five minutes for each CronJob, and checks the time twice a
// minute. With naive it trusts its cache to have its own writes, and gives jobs random names.
type cronController struct {
	client kubernetes.Interface
	naive  bool
}

func (c *cronController) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	cronJobs := factory.Batch().V1().CronJobs().Lister()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for ctx.Err() == nil {
		all, err := cronJobs.List(labels.Everything())
		if err != nil {
			return err
		}
		for _, cj := range all {
			_ = c.reconcile(ctx, cj) // an error is retried at the next check
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
		}
	}
	return ctx.Err()
}

func (c *cronController) reconcile(ctx context.Context, cj *batchv1.CronJob) error {
	due := time.Now().Truncate(period)
	if last := cj.Status.LastScheduleTime; last != nil && !last.Time.Before(due) {
		return nil
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name:        fmt.Sprintf("%s-%d", cj.Name, due.Unix()),
		Annotations: map[string]string{"due": due.UTC().Format(time.RFC3339)},
	}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if c.naive {
		job.Name, job.GenerateName = "", cj.Name+"-"
	}
	if _, err := c.client.BatchV1().Jobs(cj.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	cj = cj.DeepCopy()
	cj.Status.LastScheduleTime = &metav1.Time{Time: due}
	_, err := c.client.BatchV1().CronJobs(cj.Namespace).UpdateStatus(ctx, cj, metav1.UpdateOptions{})
	return err
}

// onceEach is the scenario: for an hour, exactly one job for each scheduled time.
func onceEach(naive bool) func(testing.TB, *kapoktest.Env) {
	return func(t testing.TB, env *kapoktest.Env) {
		client, err := kubernetes.NewForConfig(env.Config())
		if err != nil {
			t.Fatal(err)
		}
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cj", Namespace: "default"}}
		cj.Spec.Schedule = "*/5 * * * *"
		cj.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		env.Create(cj)
		env.Go((&cronController{client: client, naive: naive}).run)
		time.Sleep(time.Hour - time.Second)
		env.EndFaults()
		jobs := &batchv1.JobList{}
		if err := env.Client().List(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		runs := map[string]int{}
		for _, j := range jobs.Items {
			runs[j.Annotations["due"]]++
		}
		for due, n := range runs {
			if n != 1 {
				t.Errorf("%d jobs for %s", n, due)
			}
		}
		if len(runs) < 11 {
			t.Errorf("jobs for %d times of 12", len(runs))
		}
	}
}

// replicas keeps three config maps of a set, and checks every ten seconds whether they exist, with
// cheap lists that may be stale. With naive it creates missing ones under random names.
func replicas(naive bool) func(testing.TB, *kapoktest.Env) {
	const wanted = 3
	return func(t testing.TB, env *kapoktest.Env) {
		cms := clientOf(t, env.Config()).CoreV1().ConfigMaps("default")
		reconcile := func(ctx context.Context) error {
			list, err := cms.List(ctx, metav1.ListOptions{LabelSelector: "set=s", ResourceVersion: "0"})
			if err != nil {
				return err
			}
			for n := len(list.Items); naive && n < wanted; n++ {
				if _, err := cms.Create(ctx, labelled(corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}), metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			for n := 0; !naive && n < wanted; n++ {
				_, err := cms.Create(ctx, labelled(corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s-", n)}}), metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
			return nil
		}
		env.Go(func(ctx context.Context) error { return every(ctx, 10*time.Second, reconcile) })
		time.Sleep(2 * time.Minute)
		env.EndFaults()
		time.Sleep(time.Minute)
		list := &corev1.ConfigMapList{}
		if err := env.Client().List(t.Context(), list, client.MatchingLabels{"set": "s"}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != wanted {
			t.Errorf("%d replicas, not %d", len(list.Items), wanted)
		}
	}
}

func labelled(cm corev1.ConfigMap) *corev1.ConfigMap {
	cm.Labels = map[string]string{"set": "s"}
	return &cm
}

// every repeats an operation; an error is retried the next time.
func every(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	for ctx.Err() == nil {
		_ = do(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	return ctx.Err()
}

// A follower lists and watches config maps without an informer.
type follower struct {
	cms      typedcorev1.ConfigMapInterface
	relists  bool // when the server has compacted its revision
	listed   func([]corev1.ConfigMap)
	changed  func(watch.EventType, *corev1.ConfigMap)
	revision string
}

// look lists, if necessary, and then watches for a while.
func (f *follower) look(ctx context.Context) error {
	if f.revision == "" {
		list, err := f.cms.List(ctx, metav1.ListOptions{LabelSelector: "set=s"})
		if err != nil {
			return err
		}
		f.listed(list.Items)
		f.revision = list.ResourceVersion
	}
	w, err := f.cms.Watch(ctx, metav1.ListOptions{LabelSelector: "set=s", ResourceVersion: f.revision, TimeoutSeconds: new(int64(20))})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			if f.relists && apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
				f.revision = ""
			}
			return apierrors.FromObject(event.Object)
		}
		cm := event.Object.(*corev1.ConfigMap)
		f.changed(event.Type, cm)
		f.revision = cm.ResourceVersion
	}
	return nil
}

// follows runs a follower while config maps change for some minutes.
func follows(t testing.TB, env *kapoktest.Env, f *follower) {
	f.cms = clientOf(t, env.Config()).CoreV1().ConfigMaps("default")
	for n := range 10 {
		env.Create(labelled(*configMap(fmt.Sprint("cm-", n))))
		if n == 0 {
			env.Go(func(ctx context.Context) error { return every(ctx, time.Second, f.look) })
		}
		time.Sleep(10 * time.Second)
		if n%3 == 2 {
			cm := configMap(fmt.Sprint("cm-", n-1))
			env.Update(cm, func() { cm.Data = map[string]string{"color": "red"} })
		}
	}
	env.EndFaults()
	time.Sleep(5 * time.Minute)
}

// A mirror has the contents of config maps. With naive it does not handle compacted revisions.
func mirror(naive bool) func(testing.TB, *kapoktest.Env) {
	return func(t testing.TB, env *kapoktest.Env) {
		var mu sync.Mutex
		known := map[string]string{}
		follows(t, env, &follower{relists: !naive,
			listed: func(all []corev1.ConfigMap) {
				mu.Lock()
				defer mu.Unlock()
				clear(known)
				for _, cm := range all {
					known[cm.Name] = cm.Data["color"]
				}
			},
			changed: func(_ watch.EventType, cm *corev1.ConfigMap) {
				mu.Lock()
				defer mu.Unlock()
				known[cm.Name] = cm.Data["color"]
			},
		})
		mu.Lock()
		defer mu.Unlock()
		if len(known) != 10 || known["cm-1"] != "red" || known["cm-7"] != "red" {
			t.Errorf("the mirror shows %v", known)
		}
	}
}

// A tally counts created config maps. With naive it counts repeated events.
func tally(naive bool) func(testing.TB, *kapoktest.Env) {
	return func(t testing.TB, env *kapoktest.Env) {
		var mu sync.Mutex
		count, seen := 0, map[types.UID]bool{}
		made := func(cm *corev1.ConfigMap) {
			if naive || !seen[cm.UID] {
				count++
			}
			seen[cm.UID] = true
		}
		follows(t, env, &follower{relists: true,
			listed: func(all []corev1.ConfigMap) {
				mu.Lock()
				defer mu.Unlock()
				count = 0
				clear(seen)
				for i := range all {
					made(&all[i])
				}
			},
			changed: func(event watch.EventType, cm *corev1.ConfigMap) {
				mu.Lock()
				defer mu.Unlock()
				if event == watch.Added {
					made(cm)
				}
			},
		})
		mu.Lock()
		defer mu.Unlock()
		if count != 10 {
			t.Errorf("it has counted %d of 10", count)
		}
	}
}

// subjects are controllers, each with the bug in its name, and the faults that reveal it.
var subjects = []struct {
	name     string
	faults   kapoktest.Faults
	scenario func(naive bool) func(testing.TB, *kapoktest.Env)
	found    string // regular expression of the report
}{
	{
		"trusts its cache to know what it has done", kapoktest.Faults{DelayWatch: 0.2, MaxDelay: time.Minute, ServerError: 0.01}, onceEach,
		`: [1-3] of the \d+ faults (?:is|are) enough:\n(  DelayWatch: event \d+ of \S+ WATCH /apis/batch/v1/cronjobs\n)+2 jobs for 2000-01-01T`,
	},
	{
		"takes any list for the newest", kapoktest.Faults{StaleList: 0.2, MaxStale: 30 * time.Second, ServerError: 0.1}, replicas,
		`: 1 of the \d+ faults (?:is|are) enough:\n  StaleList: request \d+ of \S+ GET /api/v1/namespaces/default/configmaps\n[45678] replicas, not 3$`,
	},
	{
		"does not list again", kapoktest.Faults{Restart: 0.2, MaxOutage: 20 * time.Second, ServerError: 0.05}, mirror,
		`: [1-3] of the \d+ faults (?:is|are) enough:\n(.*\n)*  Restart: request \d+ of \S+ WATCH .*\n(.*\n)*the mirror shows map`,
	},
	{
		"counts events", kapoktest.Faults{Duplicate: 0.1, CutWatch: 0.1, ServerError: 0.05}, tally,
		`: [1-3] of the \d+ faults (?:is|are) enough:\n(.*\n)*  Duplicate: request \d+ of \S+ WATCH .*\n(.*\n)*it has counted 1[1-9] of 10$`,
	},
}

// TestExploreFinds checks that Explore finds the bugs of controllers, and minimizes the schedules.
func TestExploreFinds(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if found := kapoktest.Exploration(t, 30, s.faults, s.scenario(true)); !regexp.MustCompile(s.found).MatchString(found) {
				t.Errorf("found:\n%s", found)
			} else {
				t.Log(found)
			}
			if found := kapoktest.Exploration(t, 1, kapoktest.Faults{}, s.scenario(true)); found != "" {
				t.Errorf("without faults it fails, too:\n%s", found)
			}
		})
	}
}

// The same controllers without the bugs pass.
func TestExploreLeavesAloneWhatIsRight(t *testing.T) {
	n := 10
	if testing.Short() {
		n = 2
	}
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			kapoktest.Explore(t, n, kapoktest.Faults{
				Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.05, Lost: 0.05, Unavailable: 0.02,
				DelayWatch: 0.2, MaxDelay: 30 * time.Second, CutWatch: 0.1, Duplicate: 0.2, Forget: 0.05,
				StaleList: 0.2, StaleGet: 0.2, MaxStale: 30 * time.Second, Restart: 0.02, MaxOutage: 10 * time.Second,
			}, s.scenario(false))
		})
	}
}

// TestExploreOneSeed checks that a report has the seed, and that a run with the seed in the
// environment runs nothing else.
func TestExploreOneSeed(t *testing.T) {
	runs := 0
	scenario := func(t testing.TB, env *kapoktest.Env) {
		runs++
		if _, err := clientOf(t, env.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error("no list")
		}
	}
	faults := kapoktest.Faults{ServerError: 0.2, Begin: kapoktest.BeginAtOnce}
	found := kapoktest.Exploration(t, 100, faults, scenario)
	match := regexp.MustCompile(`^seed (\d+) \(KAPOKTEST_SEED=(\d+) runs it alone\): 1 of the 1 faults is enough:\n  ServerError: request 1 of \S+ GET /api/v1/namespaces\nno list$`).
		FindStringSubmatch(found)
	if match == nil || match[1] != match[2] || runs < 3 {
		t.Fatalf("after %d runs: %s", runs, found)
	}
	t.Setenv("KAPOKTEST_SEED", match[1])
	runs = 0
	if again := kapoktest.Exploration(t, 100, faults, scenario); again != found || runs > 2 {
		t.Errorf("after %d runs: %s", runs, again)
	}
	t.Setenv("KAPOKTEST_SEED", "one")
	if wrong := kapoktest.Exploration(t, 100, faults, scenario); !strings.Contains(wrong, "KAPOKTEST_SEED=one") {
		t.Error(wrong)
	}
}

// TestExplorePanic checks that a panic in another goroutine of a scenario is a failure like any
// other.
func TestExplorePanic(t *testing.T) {
	found := kapoktest.Exploration(t, 1, kapoktest.Faults{}, func(t testing.TB, env *kapoktest.Env) {
		env.Go(func(context.Context) error { panic("oh") })
		time.Sleep(time.Second)
	})
	if !strings.Contains(found, "panic: oh") || !strings.Contains(found, "explore_test.go") {
		t.Errorf("it found %q", found)
	}
}

// TestExploreCleanup checks that a failure during a scenario's cleanup counts, and that the
// remaining cleanup runs.
func TestExploreCleanup(t *testing.T) {
	for name, fail := range map[string]func(testing.TB, *kapoktest.Env){
		"end":   func(_ testing.TB, env *kapoktest.Env) { env.Get(configMap("nothing")) },
		"panic": func(testing.TB, *kapoktest.Env) { panic(`"nothing" not found`) },
	} {
		rest := 0
		found := kapoktest.Exploration(t, 1, kapoktest.Faults{}, func(t testing.TB, env *kapoktest.Env) {
			t.Cleanup(func() { rest++ })
			t.Cleanup(func() { fail(t, env) })
		})
		if !strings.HasPrefix(found, "seed 1 ") || !strings.Contains(found, `"nothing" not found`) || rest != 1 {
			t.Errorf("%s: cleaned up %d times, it found %q", name, rest, found)
		}
	}
}

// TestExploreSkip checks that a scenario that is skipped with every seed skips the test.
func TestExploreSkip(t *testing.T) {
	const fails = "seed 1 (KAPOKTEST_SEED=1 runs it alone): the scenario fails without any fault:\noh"
	for name, tc := range map[string]struct {
		scenario func(run int, t testing.TB)
		runs     int
		said     string
		skipped  bool
	}{
		"all":           {func(_ int, t testing.TB) { t.Skip("needs", "a cluster") }, 3, "needs a cluster", true},
		"without words": {func(_ int, t testing.TB) { t.SkipNow() }, 3, "", true},
		"some": {func(run int, t testing.TB) {
			if run != 2 {
				t.Skipf("needs %d clusters", run)
			}
		}, 3, "", false},
		"after a failure": {func(_ int, t testing.TB) { t.Error("oh"); t.SkipNow() }, 1, fails, false},
		"fails later": {func(run int, t testing.TB) {
			if run == 1 {
				t.SkipNow()
			}
			t.Fatal("oh")
		}, 2, strings.ReplaceAll(fails, "1", "2"), false},
	} {
		runs := 0
		said, skipped := kapoktest.ExplorationSkipped(t, 3, kapoktest.Faults{}, func(t testing.TB, _ *kapoktest.Env) {
			runs++
			tc.scenario(runs, t)
			t.Log("after all")
		})
		if tc.said != said || skipped != tc.skipped || runs != tc.runs {
			t.Errorf("%s: after %d runs it says %q, skipped is %t", name, runs, said, skipped)
		}
	}
}

// TestExploreLastSeed runs the largest possible seed.
func TestExploreLastSeed(t *testing.T) {
	t.Setenv("KAPOKTEST_SEED", "18446744073709551615")
	n := 0
	kapoktest.Exploration(t, 1, kapoktest.Faults{}, func(t testing.TB, env *kapoktest.Env) {
		if n++; n > 1 {
			t.Fatal("another one")
		}
	})
	if n != 1 {
		t.Errorf("run %d times", n)
	}
}

// TestExploreBegin checks that faults begin when the test calls for them; by default when the first
// cache has synced, or when a client without a cache writes.
func TestExploreBegin(t *testing.T) {
	list := func(t testing.TB, env *kapoktest.Env) error {
		_, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	informs := func(t testing.TB, env *kapoktest.Env) {
		factory := informers.NewSharedInformerFactory(clientOf(t, env.Config()), 0)
		factory.Core().V1().Secrets().Informer()
		factory.Start(t.Context().Done())
		t.Cleanup(factory.Shutdown)
		factory.WaitForCacheSync(t.Context().Done())
		time.Sleep(time.Second)
	}
	create := func(t testing.TB, env *kapoktest.Env) {
		_, err := clientOf(t, env.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("cm"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		begin kapoktest.FaultsBegin
		do    func(testing.TB, *kapoktest.Env)
		fails bool
	}{
		{"default: nothing yet", 0, nil, false},
		{"default: the test's client", 0, func(t testing.TB, env *kapoktest.Env) {
			if err := env.Client().Create(t.Context(), configMap("cm")); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"default: a cache", 0, informs, true},
		{"default: a write", 0, create, true},
		{"default: told", 0, func(_ testing.TB, env *kapoktest.Env) { env.BeginFaults() }, true},
		{"at once", kapoktest.BeginAtOnce, nil, true},
		{"manually: not yet", kapoktest.BeginManually, create, false},
		{"manually", kapoktest.BeginManually, func(_ testing.TB, env *kapoktest.Env) { env.BeginFaults() }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := kapoktest.Exploration(t, 2, kapoktest.Faults{ServerError: 1, Begin: tc.begin}, func(t testing.TB, env *kapoktest.Env) {
				if tc.do != nil {
					tc.do(t, env)
				}
				if err := list(t, env); err != nil {
					t.Error("no list:", err)
				}
			})
			if failed := strings.Contains(found, "no list"); failed != tc.fails {
				t.Errorf("found %q", found)
			}
			if !tc.fails && !strings.Contains(found, "set Faults.Begin") {
				t.Errorf("the message does not say that nothing was tried, but %q", found)
			}
		})
	}
}

// TestSpareDiscovery checks that with SpareDiscovery a client can discover the kinds while other
// requests fail.
func TestSpareDiscovery(t *testing.T) {
	for _, spare := range []bool{false, true} {
		faults := kapoktest.Faults{ServerError: 1, SpareDiscovery: spare, Begin: kapoktest.BeginAtOnce}
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			c := clientOf(t, env.Config())
			if _, _, err := c.Discovery().ServerGroupsAndResources(); (err == nil) != spare {
				t.Errorf("SpareDiscovery %t: %v", spare, err)
			}
			if _, err := c.Discovery().OpenAPIV3().Paths(); (err == nil) != spare {
				t.Errorf("SpareDiscovery %t: %v", spare, err)
			}
			if _, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
				t.Errorf("SpareDiscovery %t: a list says %v", spare, err)
			}
		}, kapoktest.WithFaults(1, faults))
	}
}

// TestExploreLogs checks that a scenario's log is written to the test's log with the seed, for each
// seed, but not again while a failure is minimized.
func TestExploreLogs(t *testing.T) {
	if os.Getenv("KAPOKTEST_EXPLORE_LOGS") != "" {
		kapoktest.Explore(t, 3, kapoktest.Faults{ServerError: 0.5, Begin: kapoktest.BeginAtOnce}, func(t testing.TB, env *kapoktest.Env) {
			t.Log("it begins")
			for range 5 {
				_, _ = clientOf(t, env.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			}
			if len(env.Faults()) > 0 {
				t.Errorf("it has met %s", "faults")
			}
			env.Go(func(ctx context.Context) error { <-ctx.Done(); t.Logf("it %s", "ends"); return nil })
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExploreLogs$", "-test.v")
	cmd.Env = append(os.Environ(), "KAPOKTEST_EXPLORE_LOGS=1", "KAPOKTEST_SEED=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("it passes")
	}
	for _, line := range []string{"seed 1: it begins", "seed 1: it has met faults", "seed 1: it ends"} {
		if n := len(regexp.MustCompile(`(?m)^    explore_test.go:\d+: `+line+`$`).FindAll(out, -1)); n != 1 {
			t.Errorf("%d times %q in\n%s", n, line, out)
		}
	}
}
