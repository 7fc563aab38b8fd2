package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/ctrl"
	v1 "github.com/kapok-dev/kapok/examples/network/api/v1"
	"github.com/kapok-dev/kapok/examples/network/provider"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +kubebuilder:rbac:groups=samplecrd.k8s.io,resources=networks,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=samplecrd.k8s.io,resources=networks/status,verbs=patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// A NetworkReconciler makes the networks of a provider match the Network objects.
type NetworkReconciler struct {
	client.Client
	Provider provider.Provider
	// Period is the interval at which an unchanged Network is compared with its network. 0: never.
	Period time.Duration
}

// SetupWithManager adds the controller to a manager. It reconciles a Network when its generation
// changes.
func (r *NetworkReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		// Neither a resync, which brings an object of the same resourceVersion, nor a change of the
		// status changes the generation.
		For(&v1.Network{}, ctrl.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(ctrl.ControllerOptions{
			MaxConcurrentReconciles: 2,
			CacheSyncTimeout:        -1, // no end: until the kind is there
		}).
		Complete(r)
}

// Reconcile compares the desired with the actual state of a network, and applies the difference.
func (r *NetworkReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	again, err := r.sync(ctx, req.NamespacedName)
	switch {
	case errors.Is(err, ctrl.TerminalError(nil)):
		return ctrl.Result{}, fmt.Errorf("error syncing '%s': %w", req, err)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("error syncing '%s': %w, requeuing", req, err)
	}
	ctrl.LoggerFrom(ctx).Info(fmt.Sprintf("Successfully synced '%s'", req))
	return ctrl.Result{RequeueAfter: again}, nil
}

// sync also returns the delay of the next reconcile. 0: when the Network changes.
func (r *NetworkReconciler) sync(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	log := ctrl.LoggerFrom(ctx)
	network := &v1.Network{}
	switch err := r.Get(ctx, key, network); {
	case apierrors.IsNotFound(err):
		log.Info(fmt.Sprintf("Network: %s does not exist in local cache, will delete it from Neutron ...", key))
		return 0, r.delete(ctx, key)
	case err != nil:
		return 0, err
	case !network.DeletionTimestamp.IsZero():
		return 0, r.finalize(ctx, network)
	}
	if client.AddFinalizer(network, v1.Finalizer) { // before there is something that it guards
		if err := r.Update(ctx, network); err != nil {
			return 0, fmt.Errorf("add the finalizer: %w", err)
		}
	}

	log.Info(fmt.Sprintf("[Neutron] Try to process network: %#v ...", network))
	wanted, err := provider.ParseSpec(network.Spec.Cidr, network.Spec.Gateway)
	if err != nil { // until the Network is changed
		if reportErr := r.report(ctx, network, network.Status.ID, v1.ReasonInvalid, err); reportErr != nil {
			return 0, reportErr
		}
		return 0, ctrl.TerminalError(err)
	}
	actual, err := r.converge(ctx, key, wanted)
	switch {
	case errors.Is(err, provider.ErrTaken):
		return 0, errors.Join(err, r.report(ctx, network, "", v1.ReasonNameTaken, err))
	case err != nil:
		return 0, errors.Join(err, r.report(ctx, network, cmp.Or(actual.ID, network.Status.ID), v1.ReasonProvider, err))
	}
	return r.Period, r.report(ctx, network, actual.ID, v1.ReasonInSync, nil)
}

// converge makes the provider's network match the spec.
func (r *NetworkReconciler) converge(ctx context.Context, key types.NamespacedName, wanted provider.Spec) (provider.Network, error) {
	actual, err := r.Provider.Get(ctx, key)
	change, err := provider.Diff(wanted, actual, err)
	switch {
	case err != nil:
		return actual, err
	case change == provider.Create:
		return r.Provider.Create(ctx, key, wanted)
	case change == provider.Update:
		return r.Provider.Update(ctx, key, wanted)
	}
	return actual, nil
}

// finalize removes the network of a Network that is being deleted, and then the finalizer.
func (r *NetworkReconciler) finalize(ctx context.Context, network *v1.Network) error {
	if !client.RemoveFinalizer(network, v1.Finalizer) {
		return nil // it waits for another finalizer
	}
	key := client.ObjectKeyFromObject(network)
	ctrl.LoggerFrom(ctx).Info(fmt.Sprintf("Network: %s is being deleted, will delete it from Neutron ...", key))
	if err := r.delete(ctx, key); err != nil {
		return errors.Join(err, r.report(ctx, network, network.Status.ID, v1.ReasonProvider, err))
	}
	return client.IgnoreNotFound(r.Update(ctx, network))
}

func (r *NetworkReconciler) delete(ctx context.Context, key types.NamespacedName) error {
	ctrl.LoggerFrom(ctx).Info(fmt.Sprintf("[Neutron] Deleting network: %s ...", key))
	return r.Provider.Delete(ctx, key)
}

// report writes the status, if it has changed.
func (r *NetworkReconciler) report(ctx context.Context, network *v1.Network, id, reason string, cause error) error {
	before := network.DeepCopy()
	ready := metav1.Condition{Type: v1.Ready, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: network.Generation}
	if cause != nil {
		ready.Status, ready.Message = metav1.ConditionFalse, cause.Error()
	}
	network.Status.ID, network.Status.ObservedGeneration = id, network.Generation
	meta.SetStatusCondition(&network.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, network.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, network, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}
