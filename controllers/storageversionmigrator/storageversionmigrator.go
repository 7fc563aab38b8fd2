// Package storageversionmigrator performs StorageVersionMigrations: it writes every object of a
// resource again, so that all of them are stored in the current storage version, and then removes
// the earlier versions from the status of their CustomResourceDefinition.
//
// One migration of a resource runs at a time, the oldest first. All its state is in its status:
//
//   - Running becomes True, and the condition StorageMigrating of the definition,
//   - resourceVersion is set to the current one of the resource: later writes need no migration,
//   - each older object gets an empty patch, which fails if the object has changed in between,
//   - Succeeded or Failed becomes True,
//   - Running becomes False. After a success the definition has one stored version, unless it was
//     changed during the migration.
//
// An interrupted migration lists the objects again; migrated ones are newer and skipped.
//
// The package starts no goroutine.
package storageversionmigrator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

const (
	name = "storage-version-migrator-controller"
	// workers is the number of resources that are migrated at a time.
	workers = 5
	// patience is the time until a migration of a resource that does not exist fails, and retry the
	// pause between two looks for it.
	patience = time.Minute
	retry    = 10 * time.Second

	running   = string(migrationv1.MigrationRunning)
	succeeded = string(migrationv1.MigrationSucceeded)
	failed    = string(migrationv1.MigrationFailed)

	runningReason   = "MigrationRunning"
	succeededReason = "StorageVersionMigrationSucceeded"
	failedReason    = "StorageVersionMigrationFailed"
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return err
	}
	byResource := func(_ context.Context, o client.Object) []metav1.GroupResource {
		return []metav1.GroupResource{o.(*migrationv1.StorageVersionMigration).Spec.Resource}
	}
	return controller.TypedControllerManagedBy[metav1.GroupResource](m).Named(name).
		Watches(&migrationv1.StorageVersionMigration{}, handler.TypedEnqueueRequestsFromMapFunc(byResource)).
		WithOptions(controller.TypedOptions[metav1.GroupResource]{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{client: m.GetClient(), live: m.GetAPIReader(), discovery: d})
}

// reconciler is the Reconciler of resources that have migrations. It has no state of its own.
type reconciler struct {
	client    client.Client
	live      client.Reader // not from the cache
	discovery discovery.DiscoveryInterface
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, resource metav1.GroupResource) (controller.Result, error) {
	var list migrationv1.StorageVersionMigrationList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, err
	}
	var ended []*migrationv1.StorageVersionMigration
	var active, next *migrationv1.StorageVersionMigration
	for i := range list.Items {
		m := &list.Items[i]
		if m.Spec.Resource != resource {
			continue
		}
		switch is, over := apimeta.IsStatusConditionTrue(m.Status.Conditions, running), terminal(m); {
		case is && over:
			ended = append(ended, m)
		case is:
			active = m
		case !over && (next == nil || before(m, next)):
			next = m
		}
	}
	for _, m := range ended {
		if err := r.finish(ctx, m.DeepCopy()); err != nil {
			return controller.Result{}, err
		}
	}
	switch {
	case active != nil && active.Status.ResourceVersion == "":
		return r.prepare(ctx, active.DeepCopy())
	case active != nil:
		return r.migrate(ctx, active.DeepCopy())
	case next != nil:
		return controller.Result{}, r.start(ctx, next.DeepCopy())
	}
	return controller.Result{}, nil
}

func terminal(m *migrationv1.StorageVersionMigration) bool {
	return apimeta.IsStatusConditionTrue(m.Status.Conditions, succeeded) || apimeta.IsStatusConditionTrue(m.Status.Conditions, failed)
}

func before(a, b *migrationv1.StorageVersionMigration) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// start makes a migration the one that runs.
func (r *reconciler) start(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if err := r.markDefinition(ctx, m); err != nil {
		return err
	}
	setOnce(m, running, runningReason, progress(0, 0, nil))
	return r.update(ctx, m)
}

// finish ends a migration that has succeeded or failed.
func (r *reconciler) finish(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if err := r.settleDefinition(ctx, m); err != nil {
		return err
	}
	apimeta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: running, Status: metav1.ConditionFalse, Reason: "MigrationCompleted", Message: "Migration completed", ObservedGeneration: m.Generation,
	})
	return r.update(ctx, m)
}

// prepare finds the resource of a migration, and writes its resourceVersion.
func (r *reconciler) prepare(ctx context.Context, m *migrationv1.StorageVersionMigration) (controller.Result, error) {
	found, err := r.find(m.Spec.Resource)
	if err != nil {
		return controller.Result{}, err
	}
	if found == nil {
		if left := time.Until(m.CreationTimestamp.Add(patience)); left > 0 {
			return controller.Result{RequeueAfter: min(left, retry)}, nil
		}
		setOnce(m, failed, failedReason, "resource does not exist in discovery")
		return controller.Result{}, r.update(ctx, m)
	}
	if !found.migratable() {
		setOnce(m, failed, failedReason, fmt.Sprintf("resource %q does not support discovery operations: %v", found.String(), needed))
		return controller.Result{}, r.update(ctx, m)
	}
	some, err := r.page(ctx, found, "", 1)
	if err != nil {
		return controller.Result{}, fmt.Errorf("error getting latest resourceVersion for %s: %w", found, err)
	}
	m.Status.ResourceVersion = some.ResourceVersion
	return controller.Result{}, r.update(ctx, m)
}

// update writes the status of a migration, unless it has changed meanwhile. A migration that has
// gone needs none.
func (r *reconciler) update(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	return client.IgnoreNotFound(r.client.Status().Update(ctx, m))
}

// setOnce adds a condition that is True, unless there is one of its type.
func setOnce(m *migrationv1.StorageVersionMigration, of, reason, message string) {
	if c := apimeta.FindStatusCondition(m.Status.Conditions, of); c != nil && c.Status != metav1.ConditionUnknown {
		return
	}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: of, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	})
}

// progress is the message of a migration that runs, with a number of objects that are left.
func progress(left, all int, transient error) string {
	text := "The migration is running"
	switch {
	case all > 0 && left > 0:
		text += fmt.Sprintf(", %d/%d objects not yet migrated", left, all)
	case all > 0:
		text += fmt.Sprintf(", %d objects verified migrated", all)
	}
	if transient != nil {
		text += "; transient error: " + transient.Error()
	}
	return text
}
