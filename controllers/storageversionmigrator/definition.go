package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// definitionOwner is the field manager of the controller's writes to definitions.
const definitionOwner = "migration-runner-controller"

// attempts is the maximum number of attempts to write the status of a definition that changes in
// between.
const attempts = 5

// markDefinition says in the definition of a custom resource that it is being migrated. Other
// resources have no definition.
func (r *reconciler) markDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	return r.writeDefinition(ctx, m, func(d *apiextensionsv1.CustomResourceDefinition) map[string]any {
		return map[string]any{"conditions": []any{
			migrating(d, apiextensionsv1.ConditionTrue, "MigrationRunning", fmt.Sprintf("Migration %s is running", m.Name)),
		}}
	})
}

// settleDefinition says in the definition how the migration has ended. After a success, no object
// is stored in another version than the storage version, unless the definition was changed
// meanwhile.
func (r *reconciler) settleDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	return r.writeDefinition(ctx, m, func(d *apiextensionsv1.CustomResourceDefinition) map[string]any {
		i := slices.IndexFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.StorageMigrating
		})
		unchanged := i >= 0 && d.Status.Conditions[i].ObservedGeneration == d.Generation
		reason, message := "MigrationFailed", "The migration has failed"
		switch {
		case !apimeta.IsStatusConditionTrue(m.Status.Conditions, succeeded):
		case unchanged:
			reason, message = "MigrationSucceeded", "The migration has succeeded and the stored versions have been updated"
		default:
			reason, message = "MigrationSucceeded", "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
		}
		status := map[string]any{"conditions": []any{migrating(d, apiextensionsv1.ConditionFalse, reason, message)}}
		if unchanged {
			for _, v := range d.Spec.Versions {
				if v.Storage {
					status["storedVersions"] = []any{v.Name}
				}
			}
		}
		return status
	})
}

func migrating(d *apiextensionsv1.CustomResourceDefinition, status apiextensionsv1.ConditionStatus, reason, message string) map[string]any {
	return map[string]any{
		"type": string(apiextensionsv1.StorageMigrating), "status": string(status), "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": d.Generation,
	}
}

// writeDefinition applies a status to the definition of the resource of a migration, if there is
// one. The status is computed from the definition, which must not change meanwhile.
func (r *reconciler) writeDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration, status func(*apiextensionsv1.CustomResourceDefinition) map[string]any) error {
	var errs []error
	for range attempts {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		err := r.live.Get(ctx, client.ObjectKey{Name: m.Spec.Resource.Resource + "." + m.Spec.Resource.Group}, u)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			return err
		}
		next := &unstructured.Unstructured{Object: map[string]any{"status": status(&d)}}
		next.SetGroupVersionKind(u.GroupVersionKind())
		next.SetName(d.Name)
		next.SetResourceVersion(d.ResourceVersion)
		err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(definitionOwner), client.ForceOwnership)
		if !apierrors.IsConflict(err) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
