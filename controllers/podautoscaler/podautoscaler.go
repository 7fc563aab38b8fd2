// Package podautoscaler scales workloads by metrics according to HorizontalPodAutoscalers, as
// Kubernetes' controller of this kind does.
//
//	err := podautoscaler.Options{SyncPeriod: 5 * time.Second}.Add(mgr)
//
// # Parts
//
// The arithmetic is pure, and reads no clock: a calculation proposes replicas for one metric, and a
// memory limits the largest proposal by stabilization windows and scaling policies. A pass reads
// scale, pods and metrics, and writes scale and status.
//
// # Promises
//
// A target is never scaled beyond minReplicas and maxReplicas, and never faster than the policies
// of its autoscaler allow. Recommendations and changes of replicas are kept in memory, as in
// Kubernetes: windows and periods start again when the controller restarts.
//
// An autoscaler is evaluated once per period, because metrics have no events, and immediately when
// its spec changes. A pass without a change writes nothing.
//
// # Goroutines and locks
//
// The package starts no goroutine. One lock guards the map of memories, one the selectors of
// autoscalers, one the discovered version of custom metrics. None is held during a request, and
// none is held while another one is taken.
package podautoscaler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/controllers/internal/selected"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Options configure the controller. They are flags of kube-controller-manager.
type Options struct {
	// SyncPeriod is the time between two looks at an autoscaler. Default 15 s.
	SyncPeriod time.Duration
	// DownscaleStabilization is the window in which the highest recommendation counts, for
	// autoscalers that do not set spec.behavior.scaleDown.stabilizationWindowSeconds. Default 5 min.
	DownscaleStabilization time.Duration
	// Tolerance is the smallest difference from 1 of the ratio of a metric to its target that changes
	// the number of replicas, for autoscalers that do not set one. Default 0.1.
	Tolerance float64
	// CPUInitializationPeriod is the time after the start of a pod in which its use of CPU counts only
	// if it was measured completely while the pod was ready. Default 5 min.
	CPUInitializationPeriod time.Duration
	// InitialReadinessDelay is the time after the start of a pod in which a change to unready means
	// that the pod has not been ready yet. Default 30 s.
	InitialReadinessDelay time.Duration
	// ConcurrentSyncs is the number of autoscalers that are evaluated concurrently. Default 5.
	ConcurrentSyncs int
}

// Validate returns an error for a negative value.
func (o Options) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"SyncPeriod", o.SyncPeriod}, {"DownscaleStabilization", o.DownscaleStabilization},
		{"CPUInitializationPeriod", o.CPUInitializationPeriod}, {"InitialReadinessDelay", o.InitialReadinessDelay},
	} {
		if d.value < 0 {
			return fmt.Errorf("podautoscaler.Options.%s %v is negative", d.name, d.value)
		}
	}
	if !(o.Tolerance >= 0) {
		return fmt.Errorf("podautoscaler.Options.Tolerance %v is not a positive number", o.Tolerance)
	}
	if o.ConcurrentSyncs < 0 {
		return fmt.Errorf("podautoscaler.Options.ConcurrentSyncs %d is negative", o.ConcurrentSyncs)
	}
	return nil
}

// Complete returns the options with defaults in place of zero values.
func (o Options) Complete() Options {
	set := func(value *time.Duration, otherwise time.Duration) {
		if *value == 0 {
			*value = otherwise
		}
	}
	set(&o.SyncPeriod, 15*time.Second)
	set(&o.DownscaleStabilization, 5*time.Minute)
	set(&o.CPUInitializationPeriod, 5*time.Minute)
	set(&o.InitialReadinessDelay, 30*time.Second)
	if o.Tolerance == 0 {
		o.Tolerance = 0.1
	}
	if o.ConcurrentSyncs == 0 {
		o.ConcurrentSyncs = 5
	}
	return o
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.Complete()
	metrics, err := newMetrics(m, o.SyncPeriod)
	if err != nil {
		return err
	}
	seen, err := newObserved(m.GetMetricsRegistry())
	if err != nil {
		return err
	}
	if err := selected.IndexLabels(m, &corev1.Pod{}); err != nil {
		return err
	}
	r := &reconciler{
		options: o, client: m.GetClient(), mapper: m.GetRESTMapper(), metrics: metrics, observed: seen,
		events: m.GetEventRecorderFor("horizontal-pod-autoscaler"), selectors: newSelectors(),
		memories: map[types.NamespacedName]*memory{},
	}
	return controller.NewControllerManagedBy(m).Named("horizontal-pod-autoscaler-controller").
		For(&autoscalingv2.HorizontalPodAutoscaler{}, controller.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.ConcurrentSyncs,
			// After an error, the next look is at the usual time.
			RateLimiter: workqueue.ExponentialBackoff[controller.Request](o.SyncPeriod, o.SyncPeriod),
		}).
		Complete(r)
}

// reconciler is the Reconciler of autoscalers.
type reconciler struct {
	options   Options
	client    client.Client
	mapper    meta.RESTMapper
	metrics   *metrics
	observed  observed
	events    record.EventRecorder
	selectors *selectors

	mu       sync.Mutex // guards the map, not the memories: each belongs to the worker that has its key
	memories map[types.NamespacedName]*memory
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var hpa autoscalingv2.HorizontalPodAutoscaler
	if err := r.client.Get(ctx, req.NamespacedName, &hpa); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
			return controller.Result{}, nil
		}
		return controller.Result{}, err
	}
	p := &pass{reconciler: r, hpa: &hpa, before: hpa.Status.DeepCopy(), memory: r.memoryOf(&hpa)}
	began := time.Now()
	err := p.run(ctx)
	r.observed.passed(p.from, p.to, began, err)
	return controller.Result{RequeueAfter: r.options.SyncPeriod}, err
}

// memoryOf returns the memory of an autoscaler. One that was deleted and created again has a new
// one.
func (r *reconciler) memoryOf(hpa *autoscalingv2.HorizontalPodAutoscaler) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(hpa)
	m := r.memories[key]
	if m == nil || m.uid != hpa.UID {
		m = &memory{uid: hpa.UID}
		r.memories[key] = m
		r.observed.autoscalers.Set(float64(len(r.memories)))
	}
	return m
}

// forget drops the state of a deleted autoscaler.
func (r *reconciler) forget(key types.NamespacedName) {
	r.selectors.drop(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, key)
	r.observed.autoscalers.Set(float64(len(r.memories)))
	r.observed.desired.DeleteLabelValues(key.Namespace, key.Name)
}
