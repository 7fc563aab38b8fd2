package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manage deletes pods that are too many, or creates those that are missing; never both in one pass.
func (p *pass) manage(ctx context.Context) error {
	if suspended(p.job) {
		p.action = deleting
		return p.remove(ctx, p.surplus(len(p.activePods)), releaseFirst)
	}
	want := p.wanted()
	if surplus := p.surplus(max(0, int(p.active-want))); len(surplus) > 0 {
		p.action = deleting
		return p.remove(ctx, surplus[:min(len(surplus), burst)], releaseFirst)
	}
	missing := want - p.active
	if replacesFailedOnly(p.job) {
		missing -= p.terminating
	}
	if missing <= 0 {
		p.action = tracking
		return nil
	}
	p.action = creating
	return p.create(ctx, int(min(missing, burst)))
}

// wanted returns how many pods should be active.
func (p *pass) wanted() int32 {
	spec := &p.job.Spec
	switch {
	case spec.Completions != nil:
		return max(0, min(*spec.Parallelism, *spec.Completions-p.succeeded))
	case p.succeeded > 0:
		return p.active // one success is enough; the others may end as they like
	}
	return *spec.Parallelism
}

// surplus returns the active pods to be deleted: at least n, and all that have no index of their
// own in an Indexed Job. Those that have done the least come first.
func (p *pass) surplus(n int) []*corev1.Pod {
	candidates := slices.Clone(p.activePods)
	pod.SortByProgress(candidates)
	if !indexed(p.job) {
		return candidates[:n]
	}
	var surplus, kept []*corev1.Pod
	taken := map[int]bool{}
	for _, one := range slices.Backward(candidates) { // of an index's pods the best one is kept
		if i := indexOf(one); !p.hasIndex(one) || taken[i] {
			surplus = append(surplus, one)
		} else {
			taken[i] = true
			kept = append(kept, one)
		}
	}
	slices.Reverse(kept)
	return append(surplus, kept[:max(0, n-len(surplus))]...)
}

// create creates n pods, unless the last failure was too recently.
func (p *pass) create(ctx context.Context, n int) error {
	next := func() int { return -1 }
	template := &p.job.Spec.Template
	if p.job.Spec.BackoffLimitPerIndex == nil {
		if wait := p.backoff.left(p.now); wait > 0 {
			p.later(max(wait, batchPeriod))
			return nil
		}
	}
	if indexed(p.job) {
		free := p.startable(n)
		n = len(free)
		var taken atomic.Int32
		next = func() int { return free[taken.Add(1)-1] }
		template = withIndexVariable(template)
	}
	var created atomic.Int32
	err := pod.SlowStart(n, func() error {
		err := p.createOne(ctx, p.newPod(template, next()))
		if err == nil {
			created.Add(1)
		}
		return err
	})
	p.active += created.Load()
	return err
}

func (p *pass) createOne(ctx context.Context, one *corev1.Pod) error {
	if len(one.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	switch err := p.client.Create(ctx, one); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // any further creation would fail, too, until the Job itself is deleted
	case err != nil:
		p.events.Eventf(p.job, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	}
	p.events.Eventf(p.job, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", one.Name)
	return nil
}

// startable returns up to n indexes that need a pod. With backoffLimitPerIndex those whose last
// failure was too recently are left out, and started by a later pass.
func (p *pass) startable(n int) []int {
	settled := union(p.done, p.failedIndexes, indexesOf(p.activePods))
	if replacesFailedOnly(p.job) {
		settled = union(settled, indexesOf(slices.DeleteFunc(slices.Clone(p.pods), func(one *corev1.Pod) bool { return !pod.Terminating(one) })))
	}
	free := settled.missing(n, int(*p.job.Spec.Completions))
	return slices.DeleteFunc(free, func(i int) bool {
		last := p.toReplace[i]
		if last == nil {
			return false
		}
		wait := backoff{failuresOf(last) + 1, endOf(last)}.left(p.now)
		if wait > 0 {
			p.later(max(wait, batchPeriod))
		}
		return wait > 0
	})
}

// newPod returns a pod for an index, or for none if index is -1.
func (p *pass) newPod(template *corev1.PodTemplateSpec, index int) *corev1.Pod {
	one := pod.FromTemplate(template, p.job, *metav1.NewControllerRef(p.job, gvk))
	if !tracked(one) {
		one.Finalizers = append(one.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index < 0 {
		return one
	}
	text := strconv.Itoa(index)
	setIn(&one.Labels, batchv1.JobCompletionIndexAnnotation, text)
	setIn(&one.Annotations, batchv1.JobCompletionIndexAnnotation, text)
	one.Spec.Hostname = p.job.Name + "-" + text
	one.GenerateName = indexPrefix(p.job.Name, text)
	if p.job.Spec.BackoffLimitPerIndex != nil {
		p.inheritFailures(one, p.toReplace[index])
	}
	return one
}

// indexPrefix returns NAME-INDEX-, with a shorter NAME if the server could not append to it.
func indexPrefix(name, index string) string {
	const most = 58 // the server cuts a longer generateName to this
	suffix := "-" + index + "-"
	return name[:min(len(name), most-len(suffix))] + suffix
}

// inheritFailures annotates a pod with the number of failures of its index: those that the pod
// before it was annotated with, and that one itself.
func (p *pass) inheritFailures(one, before *corev1.Pod) {
	failures, ignored := int32(0), int32(0)
	if before != nil {
		failures, ignored = number(before, batchv1.JobIndexFailureCountAnnotation), number(before, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if action, _ := verdict(p.job.Spec.PodFailurePolicy, before); action == batchv1.PodFailurePolicyActionIgnore {
			ignored++
		} else {
			failures++
		}
	}
	setIn(&one.Annotations, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(int(failures)))
	if ignored > 0 {
		setIn(&one.Annotations, batchv1.JobIndexIgnoredFailureCountAnnotation, strconv.Itoa(int(ignored)))
	}
}

// failuresOf returns how many pods of a pod's index failed before it.
func failuresOf(p *corev1.Pod) int32 {
	return number(p, batchv1.JobIndexFailureCountAnnotation) + number(p, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// number returns the value of an annotation; 0 if there is none, or none that is valid.
func number(p *corev1.Pod, annotation string) int32 {
	n, err := strconv.Atoi(p.Annotations[annotation])
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// withIndexVariable returns a copy of a template whose containers have the environment variable
// JOB_COMPLETION_INDEX. One that the template sets itself remains.
func withIndexVariable(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	const name = "JOB_COMPLETION_INDEX"
	template = template.DeepCopy()
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name }) {
				continue
			}
			c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation),
			}}})
		}
	}
	return template
}

func setIn(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}
