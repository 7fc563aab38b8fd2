// Package localpath provisions PersistentVolumes that are directories of nodes, for StorageClasses
// with the provisioner kapok.dev/local-path:
//
//	apiVersion: storage.k8s.io/v1
//	kind: StorageClass
//	metadata: {name: local-path}
//	provisioner: kapok.dev/local-path
//	volumeBindingMode: WaitForFirstConsumer
//
// A volume is on the node that the scheduler selects. With the mode Immediate, it is on the first
// ready node by name, or on any if no node has the label kubernetes.io/hostname. The controller
// writes only API objects: a volume is a hostPath of type DirectoryOrCreate, which the node creates
// when it mounts the volume. With the policy Delete, the volume is deleted after its claim; the
// directory stays, because Kapok does not access the disks of nodes.
//
// The package starts no goroutine, except that which the manager runs for Options.Default.
package localpath

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/storage"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	// Provisioner is the provisioner of StorageClasses.
	Provisioner = "kapok.dev/local-path"
	// DefaultDir is the default of Options.Dir.
	DefaultDir = "/var/lib/kapok/volumes"
	// ClassName is the class that Options.Default creates.
	ClassName = "local-path"
)

// Options configure the controller.
type Options struct {
	// Dir is the directory of volumes on the nodes, an absolute path. Default: DefaultDir.
	Dir string
	// Default creates the StorageClass local-path as a default class, if it does not exist.
	Default bool
}

// Validate returns an error for a directory that is not an absolute path.
func (o Options) Validate() error {
	if o.Dir != "" && (!path.IsAbs(o.Dir) || path.Clean(o.Dir) != o.Dir || o.Dir == "/") {
		return fmt.Errorf("the directory of volumes must be an absolute path below /: %q", o.Dir)
	}
	return nil
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(Provisioner), dir: o.Dir}
	if o.Default {
		if err := m.Add(manager.RunnableFunc(r.createClass)); err != nil {
			return err
		}
	}
	err := storage.Index(m, &corev1.PersistentVolumeClaim{}, byClass, func(c *corev1.PersistentVolumeClaim) []string {
		if c.Spec.VolumeName != "" || c.Annotations[storage.Provisioner] != Provisioner {
			return nil
		}
		return []string{storage.ClassOf(c)}
	})
	if err != nil {
		return err
	}
	return controller.NewControllerManagedBy(m).Named("local-path-provisioner-controller").
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.ofClass)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []handler.Request {
			if o.GetAnnotations()[storage.ProvisionedBy] != Provisioner {
				return nil
			}
			return []handler.Request{handler.RequestFor(o)} // without a namespace: a volume
		})).
		Complete(r)
}

const byClass = "kapok.dev/localPathClass"

// reconciler implements controller.Reconciler.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	dir    string
}

func (r *reconciler) createClass(ctx context.Context) error {
	err := r.client.Create(ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: ClassName, Annotations: map[string]string{storage.DefaultClass: "true"}},
		Provisioner:       Provisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	if apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
		return nil
	}
	return err
}

// ofClass requests the claims that wait for a class.
func (r *reconciler) ofClass(ctx context.Context, class client.Object) (all []handler.Request) {
	var list corev1.PersistentVolumeClaimList
	if err := r.client.List(ctx, &list, client.MatchingFields{byClass: class.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for i := range list.Items {
		all = append(all, handler.RequestFor(&list.Items[i]))
	}
	return all
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	if req.Namespace == "" {
		return controller.Result{}, client.IgnoreNotFound(r.delete(ctx, req.Name))
	}
	c := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, c, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	return controller.Result{}, r.provision(ctx, c)
}

// delete deletes a volume that is released and has the policy Delete.
func (r *reconciler) delete(ctx context.Context, name string) error {
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, v, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if v.Status.Phase != corev1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		v.DeletionTimestamp != nil || v.Annotations[storage.ProvisionedBy] != Provisioner {
		return nil
	}
	// Not if the policy has changed in between.
	return r.client.Delete(ctx, v.DeepCopy(), client.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion})
}

// provision creates the volume of a claim that waits for one. Rejected claims get an event,
// and are retried when the claim or its class changes.
func (r *reconciler) provision(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	if c.Annotations[storage.Provisioner] != Provisioner || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
		return nil
	}
	class := &storagev1.StorageClass{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: storage.ClassOf(c)}, class, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	selected := c.Annotations[storage.SelectedNode]
	delayed := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if class.Provisioner != Provisioner || delayed && selected == "" {
		return nil
	}
	name := "pvc-" + string(c.UID)
	err := r.client.Get(ctx, types.NamespacedName{Name: name}, &corev1.PersistentVolume{}, client.UnsafeDisableDeepCopy)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	if why := refusal(c, class); why != nil {
		r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", class.Name, why)
		return nil
	}
	node, err := r.node(ctx, selected)
	if err != nil {
		return err
	}
	if node == nil && selected != "" {
		r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed",
			"failed to provision volume with StorageClass %q: node %q does not exist, or has no label %s", class.Name, selected, corev1.LabelHostname)
		next := c.DeepCopy()
		delete(next.Annotations, storage.SelectedNode) // the scheduler selects another one
		return client.IgnoreNotFound(r.client.Update(ctx, next))
	}
	v := r.volume(name, c, class, node)
	if err := r.client.Create(ctx, v); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed", "Error creating provisioned PV object for claim %s/%s: %v", c.Namespace, c.Name, err)
		return err
	}
	r.events.Eventf(c, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", name)
	return nil
}

// refusal returns an error if a claim or its class has a setting that directories do not support.
func refusal(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	switch {
	case c.Spec.VolumeMode != nil && *c.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return errors.New("block volumes are not supported")
	case c.Spec.Selector != nil:
		return errors.New("claim.spec.selector is not supported")
	case c.Spec.DataSource != nil || c.Spec.DataSourceRef != nil:
		return errors.New("data sources are not supported")
	case len(class.Parameters) > 0:
		return errors.New("parameters are not supported")
	case len(class.AllowedTopologies) > 0:
		return errors.New("allowedTopologies are not supported")
	}
	for _, m := range c.Spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			return fmt.Errorf("access mode %s is not supported", m)
		}
	}
	return nil
}

// node returns the node of a volume, which has the label that volumes name nodes by: the selected
// one, or the first that is ready. It is nil if there is none.
func (r *reconciler) node(ctx context.Context, selected string) (*corev1.Node, error) {
	named := func(n *corev1.Node) bool { return n.Labels[corev1.LabelHostname] != "" }
	if selected != "" {
		n := &corev1.Node{}
		if err := r.live.Get(ctx, types.NamespacedName{Name: selected}, n); err != nil || !named(n) {
			return nil, client.IgnoreNotFound(err)
		}
		return n, nil
	}
	var list corev1.NodeList
	if err := r.live.List(ctx, &list); err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !named(&n) || n.Spec.Unschedulable })
	if len(nodes) == 0 {
		return nil, nil
	}
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	ready := slices.IndexFunc(nodes, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	return &nodes[max(ready, 0)], nil
}

// volume returns the volume for a claim.
func (r *reconciler) volume(name string, c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{storage.ProvisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   c.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			VolumeMode:                    c.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: path.Join(r.dir, name+"_"+c.Namespace+"_"+c.Name), Type: new(corev1.HostPathDirectoryOrCreate),
			}},
		},
	}
	if class.ReclaimPolicy != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if node != nil {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Labels[corev1.LabelHostname]},
		}}}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
	}
	return v
}
