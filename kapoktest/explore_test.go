package kapoktest_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

const period = 5 * time.Minute

// cronController starts a job every five minutes for each CronJob, and looks twice a minute whether it is time. With naive it
// trusts its cache to know what it has done itself, and gives jobs names that tell nothing.
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
			_ = c.reconcile(ctx, cj) // what fails is tried again at the next look
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

// onceEach is the scenario: an hour, in which each time must have one job and no more.
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

// Explore finds the schedule of faults under which a controller that trusts its cache starts a job twice.
func TestExploreFindsStaleCache(t *testing.T) {
	faults := kapoktest.Faults{DelayWatch: 0.2, MaxDelay: time.Minute, ServerError: 0.01}
	found := kapoktest.Exploration(t, 20, faults, onceEach(true))
	if !regexp.MustCompile(`: [1-3] of the \d+ faults are enough:\n  DelayWatch: event \d+ of .* WATCH /apis/batch/v1/cronjobs`).MatchString(found) ||
		!strings.Contains(found, "2 jobs for 2000-01-01T") {
		t.Errorf("found:\n%s", found)
	}
	if found := kapoktest.Exploration(t, 1, kapoktest.Faults{}, onceEach(true)); found != "" {
		t.Errorf("without faults it fails, too:\n%s", found)
	}
}

// The same controller with jobs that are named for their time stands all of it.
func TestExploreLeavesAloneWhatIsRight(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 3
	}
	kapoktest.Explore(t, n, kapoktest.Faults{
		Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.05, Lost: 0.05, Unavailable: 0.02,
		DelayWatch: 0.2, MaxDelay: 30 * time.Second, CutWatch: 0.1, Forget: 0.05,
	}, onceEach(false))
}
