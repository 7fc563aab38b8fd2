package stages

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
)

// failedReason is the reason of the events for what stages do wrong.
const failedReason = "StageFailed"

// A director follows the Stages on the server, and has a player for each kind that they change. It is their Reconciler.
type director struct {
	manager manager.Manager
	nodes   simulated.Options
	set     *set

	mu      sync.Mutex
	players map[kind]*player
}

var stageKind = kwok.GroupVersion.WithKind(kwok.StageKind)

// add adds the controller of Stages, which watches them as soon as their kind is defined.
func (d *director) add() error {
	stages, err := controller.New("stages", d.manager, controller.Options{Reconciler: d, CacheSyncTimeout: -1})
	if err != nil {
		return err
	}
	c, err := controller.New("stages-definition", d.manager, controller.Options{Reconciler: &definition{manager: d.manager, stages: stages}})
	if err != nil {
		return err
	}
	only := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == definitionName })
	return c.Watch(controller.Kind(d.manager.GetCache(), client.Object(definitionOf()), &handler.EnqueueRequestForObject{}, only))
}

// definitionName is the name of the definition of Stages.
const definitionName = "stages.kwok.x-k8s.io"

// definitionOf returns an empty definition with metadata only: others may be large.
func definitionOf() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return m
}

// A definition is the Reconciler of the definition of Stages. It has one worker.
type definition struct {
	manager  manager.Manager
	stages   controller.Controller
	watching bool
}

// Reconcile implements controller.Reconciler.
func (d *definition) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	if d.watching {
		return controller.Result{}, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(definitionOf().GroupVersionKind())
	if err := d.manager.GetAPIReader().Get(ctx, req.NamespacedName, u); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	established := slices.ContainsFunc(conditions, func(c any) bool {
		is, _ := c.(map[string]any)
		return is["type"] == string(apiextensionsv1.Established) && is["status"] == string(metav1.ConditionTrue)
	})
	if !established {
		return controller.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if err := d.stages.Watch(controller.Kind(d.manager.GetCache(), newObject(stageKind), &handler.EnqueueRequestForObject{})); err != nil {
		return controller.Result{}, err
	}
	d.watching = true
	return controller.Result{}, nil
}

// own adds a stage of the options.
func (d *director) own(s *kwok.Stage) error {
	c, err := compile(context.Background(), s)
	if err != nil {
		return err
	}
	return d.concern(context.Background(), d.set.put(false, s.Name, c))
}

// Reconcile implements controller.Reconciler for a Stage.
func (d *director) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	u := newObject(stageKind).(*unstructured.Unstructured)
	err := d.manager.GetClient().Get(ctx, req.NamespacedName, u)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return controller.Result{}, d.concern(ctx, d.set.put(true, req.Name, nil))
	}
	if err != nil {
		return controller.Result{}, err
	}
	s := &kwok.Stage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s); err != nil {
		return controller.Result{}, d.refuse(ctx, u, err)
	}
	kwok.SetObjectDefaults_Stage(s)
	c, err := compile(ctx, s)
	if err != nil {
		return controller.Result{}, d.refuse(ctx, u, err)
	}
	return controller.Result{}, d.concern(ctx, d.set.put(true, s.Name, c))
}

// refuse reports a Stage that cannot be played, and no longer plays what it was before.
func (d *director) refuse(ctx context.Context, s client.Object, err error) error {
	d.manager.GetEventRecorderFor("kapok").Event(s, corev1.EventTypeWarning, failedReason, err.Error())
	return d.concern(ctx, d.set.put(true, s.GetName(), nil))
}

// concern lets the players of kinds look at all their objects again, and starts those that are missing.
func (d *director) concern(ctx context.Context, kinds []kind) error {
	for _, k := range kinds {
		d.mu.Lock()
		p := d.players[k]
		if p == nil && len(d.set.of(k)) > 0 {
			p = newPlayer(d.manager, d.nodes, d.set, k)
			if err := p.add(d.manager); err != nil {
				d.mu.Unlock()
				return fmt.Errorf("play stages of %s: %w", k, err)
			}
			d.players[k] = p
		}
		d.mu.Unlock()
		if p != nil {
			if err := p.again(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameOf returns the name of the controller of a kind.
func nameOf(k kind) string {
	return strings.ToLower(strings.TrimSuffix(fmt.Sprintf("stages-%s.%s.%s", k.Kind, k.Version, k.Group), "."))
}
