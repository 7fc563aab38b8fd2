package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"

	"github.com/google/go-cmp/cmp"
	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// job makes a job that was made for a time and has a condition that is true, if any.
func job(name, scheduled string, ended kbatch.JobConditionType) kbatch.Job {
	j := kbatch.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if scheduled != "" {
		j.Annotations = map[string]string{scheduledTimeAnnotation: scheduled}
	}
	if ended != "" {
		j.Status.Conditions = []kbatch.JobCondition{{Type: ended, Status: corev1.ConditionTrue}}
	}
	return j
}

func names(jobs []*kbatch.Job) string {
	var s []string
	for _, j := range jobs {
		s = append(s, j.Name)
	}
	return strings.Join(s, " ")
}

func TestSortJobs(t *testing.T) {
	undecided := job("f", "", "")
	undecided.Status.Conditions = []kbatch.JobCondition{
		{Type: kbatch.JobComplete, Status: corev1.ConditionFalse}, {Type: kbatch.JobFailed, Status: corev1.ConditionUnknown}}
	var bad []string
	got := sortJobs([]kbatch.Job{
		undecided,
		job("e", "yesterday", kbatch.JobFailed),
		job("d", "2026-03-02T14:00:00Z", kbatch.JobFailed),
		job("c", "2026-03-02T16:30:00+02:00", kbatch.JobComplete), // later than d
		job("b", "", ""),
		job("a", "2026-03-02T13:00:00Z", kbatch.JobSuspended),
	}, func(j *kbatch.Job, err error) { bad = append(bad, j.Name+": "+err.Error()) })

	if s := names(got.active); s != "a b f" {
		t.Errorf("active are %s", s)
	}
	if s := names(got.successful); s != "c" {
		t.Errorf("successful are %s", s)
	}
	if s := names(got.failed); s != "d e" {
		t.Errorf("failed are %s", s)
	}
	if got.newest == nil || got.newest.Name != "c" || !got.lastSchedule.Equal(at(t, "2026-03-02T14:30:00Z")) {
		t.Errorf("the newest is %v of %v", got.newest, got.lastSchedule)
	}
	if len(bad) != 1 || !strings.HasPrefix(bad[0], "e: parsing time") {
		t.Errorf("bad are %q", bad)
	}
	if none := sortJobs(nil, nil); none.newest != nil {
		t.Errorf("of no jobs, the newest is %v", none.newest)
	}
}

func TestSurplus(t *testing.T) {
	started := func(name string, minute int) kbatch.Job {
		j := job(name, "", kbatch.JobComplete)
		if minute >= 0 {
			j.Status.StartTime = new(metav1.NewTime(time.Date(2026, 3, 2, 12, minute, 0, 0, time.UTC)))
		}
		return j
	}
	for _, tt := range []struct {
		name   string
		jobs   []kbatch.Job
		newest string
		limit  *int32
		want   string
	}{
		{name: "no limit keeps all", jobs: []kbatch.Job{started("a", 1), started("b", 2)}},
		{name: "below the limit", jobs: []kbatch.Job{started("a", 1), started("b", 2)}, limit: new(int32(3))},
		{name: "at the limit", jobs: []kbatch.Job{started("a", 1), started("b", 2)}, limit: new(int32(2))},
		{name: "the oldest go", jobs: []kbatch.Job{started("a", 3), started("b", 1), started("c", 2)}, limit: new(int32(1)), want: "b c"},
		{name: "those that never started go first", jobs: []kbatch.Job{started("a", 1), started("b", -1), started("c", 2), started("d", -1)},
			limit: new(int32(1)), want: "b d a"},
		{name: "none is kept", jobs: []kbatch.Job{started("a", 1), started("b", 2)}, limit: new(int32(0)), want: "a b"},
		{name: "except the newest of all", jobs: []kbatch.Job{started("a", 1), started("b", 2)}, newest: "b", limit: new(int32(0)), want: "a"},
		{name: "below zero is zero", jobs: []kbatch.Job{started("a", 1)}, limit: new(int32(-1)), want: "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			js := sortJobs(tt.jobs, nil)
			for _, j := range js.successful {
				if j.Name == tt.newest {
					js.newest = j
				}
			}
			before := slices.Clone(js.successful)
			if got := names(js.surplus(js.successful, tt.limit)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if !slices.Equal(before, js.successful) {
				t.Error("the jobs were put into another order")
			}
		})
	}
}

func TestNewJob(t *testing.T) {
	cronJob := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "office"}}
	cronJob.Spec.JobTemplate = kbatch.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "report"}, Annotations: map[string]string{"paper": "blue"}},
		Spec:       kbatch.JobSpec{BackoffLimit: new(int32(4)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}},
	}
	template := cronJob.Spec.JobTemplate.DeepCopy()
	got := newJob(cronJob, time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	want := &kbatch.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "report-1772452800", Namespace: "office",
			Labels:      map[string]string{"app": "report"},
			Annotations: map[string]string{"paper": "blue", "batch.tutorial.kubebuilder.io/scheduled-at": "2026-03-02T12:00:00Z"},
		},
		Spec: template.Spec,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got.Labels["app"], *got.Spec.BackoffLimit = "other", 0
	if diff := cmp.Diff(*template, cronJob.Spec.JobTemplate); diff != "" {
		t.Errorf("the template changed with the job: %s", diff)
	}
}

func TestCronJobOf(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "batch.tutorial.kubebuilder.io/v1", Kind: "CronJob", Name: "report", Controller: new(true)}
	for _, tt := range []struct {
		name   string
		change func(*metav1.OwnerReference)
		want   []string
	}{
		{"its own", func(*metav1.OwnerReference) {}, []string{"report"}},
		{"no controller", func(o *metav1.OwnerReference) { o.Controller = nil }, nil},
		{"a CronJob of Kubernetes", func(o *metav1.OwnerReference) { o.APIVersion = "batch/v1" }, nil},
		{"another version", func(o *metav1.OwnerReference) { o.APIVersion = "batch.tutorial.kubebuilder.io/v2" }, nil},
		{"another kind", func(o *metav1.OwnerReference) { o.Kind = "Report" }, nil},
	} {
		o := owner
		tt.change(&o)
		got := cronJobOf(&kbatch.Job{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{o}}})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
	if got := cronJobOf(&kbatch.Job{}); got != nil {
		t.Errorf("job without an owner: got %q", got)
	}
}
