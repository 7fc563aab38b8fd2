package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// pageSize is the number of objects that are read at a time.
const pageSize = 500

// needed are the verbs without which a resource cannot be migrated.
var needed = []string{"update", "patch", "list"}

// A resource is one that is served, in its preferred version.
type resource struct {
	schema.GroupVersionResource
	metav1.APIResource
}

// String returns the resource as messages of Kubernetes have it.
func (r *resource) String() string { return r.GroupVersionResource.String() }

func (r *resource) kind() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

func (r *resource) migratable() bool {
	return !slices.ContainsFunc(needed, func(verb string) bool { return !slices.Contains(r.Verbs, verb) })
}

// find returns a resource; nil if the server does not serve it.
func (r *reconciler) find(gr metav1.GroupResource) (*resource, error) {
	versions := []string{"v1"}
	if gr.Group != "" {
		groups, err := r.discovery.ServerGroups()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == gr.Group })
		if i < 0 {
			return nil, nil
		}
		versions = []string{groups.Groups[i].PreferredVersion.Version}
		for _, v := range groups.Groups[i].Versions {
			if v.Version != versions[0] {
				versions = append(versions, v.Version)
			}
		}
	}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: gr.Group, Version: version}
		list, err := r.discovery.ServerResourcesForGroupVersion(gv.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, api := range list.APIResources {
			if api.Name == gr.Resource {
				return &resource{gv.WithResource(gr.Resource), api}, nil
			}
		}
	}
	return nil, nil
}

// page returns the metadata of some objects of a resource, from the server.
func (r *reconciler) page(ctx context.Context, of *resource, token string, limit int64) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	kind := of.kind()
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	return list, r.live.List(ctx, list, client.Limit(limit), client.Continue(token))
}

// migrate has the objects written that are not newer than the migration.
func (r *reconciler) migrate(ctx context.Context, m *migrationv1.StorageVersionMigration) (controller.Result, error) {
	of, err := r.find(m.Spec.Resource)
	if err != nil {
		return controller.Result{}, err
	}
	if of == nil {
		return controller.Result{}, r.fail(ctx, m, "migration encountered unhandled error: unable to obtain GVR from discovery")
	}
	objects, total, err := r.old(ctx, of, m.Status.ResourceVersion)
	if err != nil {
		return controller.Result{}, err
	}
	left := len(objects)
	for i := range objects {
		err := r.rewrite(ctx, of, &objects[i])
		switch {
		case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err): // written since, or gone
			left--
		case transient(err):
			if setRunning(m, progress(left, total, err)) {
				if err := r.update(ctx, m); err != nil {
					return controller.Result{}, err
				}
			}
			return controller.Result{}, err
		default:
			setRunning(m, progress(left, total, nil))
			return controller.Result{}, r.fail(ctx, m, fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %v", left, total, err))
		}
	}
	setRunning(m, progress(left, total, nil))
	apimeta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: succeeded, Status: metav1.ConditionTrue, Reason: succeededReason, Message: "Migration completed",
	})
	return controller.Result{}, r.update(ctx, m)
}

// old returns the objects of a resource that are not newer than a resourceVersion, and the number
// of all.
func (r *reconciler) old(ctx context.Context, of *resource, revision string) (objects []metav1.PartialObjectMetadata, total int, err error) {
	token := ""
	for {
		list, err := r.page(ctx, of, token, pageSize)
		if apierrors.IsResourceExpired(err) && token != "" {
			return nil, 0, fmt.Errorf("list %s: the list has expired: %w", of, err)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", of, err)
		}
		total += len(list.Items)
		for i := range list.Items {
			newer, err := resourceversion.CompareResourceVersion(list.Items[i].ResourceVersion, revision)
			if err != nil {
				return nil, 0, err
			}
			if newer <= 0 {
				o := metav1.PartialObjectMetadata{}
				o.Namespace, o.Name, o.ResourceVersion = list.Items[i].Namespace, list.Items[i].Name, list.Items[i].ResourceVersion
				objects = append(objects, o)
			}
		}
		if token = list.Continue; token == "" {
			return objects, total, nil
		}
	}
}

// rewrite writes an object again, unless it has changed in between.
func (r *reconciler) rewrite(ctx context.Context, of *resource, o *metav1.PartialObjectMetadata) error {
	version, kind := of.kind().ToAPIVersionAndKind()
	data, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": o.ResourceVersion},
	})
	if err != nil {
		return err
	}
	o.SetGroupVersionKind(of.kind())
	return r.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, data), client.FieldOwner(name))
}

// fail ends a migration.
func (r *reconciler) fail(ctx context.Context, m *migrationv1.StorageVersionMigration, message string) error {
	apimeta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: failed, Status: metav1.ConditionTrue, Reason: failedReason, Message: message})
	return r.update(ctx, m)
}

func setRunning(m *migrationv1.StorageVersionMigration, message string) bool {
	return apimeta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: running, Status: metav1.ConditionTrue, Reason: runningReason, Message: message})
}

// transient reports whether a write may succeed later: the server asks for that, or has not
// answered.
func transient(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
