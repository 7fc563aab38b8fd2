package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/at/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AtReconciler runs the commands of Ats when they are due.
type AtReconciler struct {
	ctrl.Client
	Live     ctrl.Reader // of the server, rather than of a cache
	Recorder ctrl.EventRecorder
}

// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats,verbs=get;list;watch
// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update

// Reconcile advances one At: PENDING until its time, RUNNING with a pod, DONE when the pod has
// ended.
func (r *AtReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)

	var at v1alpha1.At
	if err := r.Get(ctx, req.NamespacedName, &at); err != nil {
		return ctrl.Result{}, ctrl.IgnoreNotFound(err)
	}
	if !at.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	pod, err := r.pod(ctx, &at)
	if err != nil {
		return ctrl.Result{}, err
	}
	step, err := next(&at, pod, time.Now())
	if err != nil {
		// Do not retry: only a new schedule helps, and that is a change of the At.
		log.Error(err, "unable to schedule")
		r.Recorder.Eventf(&at, nil, corev1.EventTypeWarning, "InvalidSchedule", "Schedule", "%v", err)
		return ctrl.Result{}, nil
	}

	if step.start {
		// The pod may be gone because the At is deleted: the server deletes both, and the event for
		// the pod may come first.
		if going, err := r.going(ctx, &at); going || err != nil {
			return ctrl.Result{}, err
		}
		pod := newPod(&at)
		if err := ctrl.SetControllerReference(&at, pod, r.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Create(ctx, pod); err != nil {
			return ctrl.Result{}, err
		}
		log.Info("pod launched", "pod", pod.Name, "command", at.Spec.Command)
	}
	if step.phase != at.Status.Phase {
		log.Info("phase changes", "from", at.Status.Phase, "to", step.phase, "schedule", at.Spec.Schedule)
		at.Status.Phase = step.phase
		if err := r.Status().Update(ctx, &at); err != nil {
			return ctrl.Result{}, ctrl.IgnoreNotFound(err)
		}
	}
	return ctrl.Result{RequeueAfter: step.wait}, nil
}

// going reports whether an At has been deleted, or is being deleted.
func (r *AtReconciler) going(ctx context.Context, at *v1alpha1.At) (bool, error) {
	var now v1alpha1.At
	if err := r.Live.Get(ctx, ctrl.ObjectKeyFromObject(at), &now); err != nil {
		return true, ctrl.IgnoreNotFound(err)
	}
	return now.UID != at.UID || !now.DeletionTimestamp.IsZero(), nil
}

// pod returns the pod of an At, or nil. It returns an error if a pod of that name has another
// controller.
func (r *AtReconciler) pod(ctx context.Context, at *v1alpha1.At) (*corev1.Pod, error) {
	key := types.NamespacedName{Namespace: at.Namespace, Name: podName(at)}
	var pod corev1.Pod
	if err := r.Get(ctx, key, &pod); err != nil {
		return nil, ctrl.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(&pod, at) {
		return nil, fmt.Errorf("pod %s exists and does not belong to At %s", key, at.Name)
	}
	return &pod, nil
}

// SetupWithManager adds the controller to a manager. It reconciles an At when the At or its pod
// changes.
func (r *AtReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.At{}).
		Owns(&corev1.Pod{}).
		Complete(r)
}
