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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
)

const (
	// failedReason is the reason of the events for what stages do wrong.
	failedReason = "StageFailed"
	// kindRetry is the time after which a kind that does not exist is looked for again.
	kindRetry = 5 * time.Second
)

// A director follows the Stages on the server and those of the options, and has a player for each
// kind that they change. It is their Reconciler.
type director struct {
	manager   manager.Manager
	discovery discovery.DiscoveryInterfaceWithContext
	nodes     simulated.Options
	set       *set
	own       map[string]*kwok.Stage // those of the options

	mu       sync.Mutex
	players  map[kind]*player
	reported map[controller.Request]string // the last problem of each Stage
}

var stageKind = kwok.GroupVersion.WithKind(kwok.StageKind)

// ofOptions is the namespace in requests for stages of the options: those on the server have none.
const ofOptions = "options"

// add adds the controller of Stages, which watches them as soon as their kind is defined.
func (d *director) add() error {
	stages, err := controller.New("stages", d.manager, controller.Options{Reconciler: d, CacheSyncTimeout: -1})
	if err != nil {
		return err
	}
	begin := controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
		for name := range d.own {
			q.Add(controller.Request{NamespacedName: client.Key(ofOptions, name)})
		}
		return nil
	})
	if err := stages.Watch(begin); err != nil {
		return err
	}
	c, err := controller.New("stages-definition", d.manager, controller.Options{Reconciler: &definition{manager: d.manager, stages: stages}})
	if err != nil {
		return err
	}
	only := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == definitionName })
	return c.Watch(controller.Kind(d.manager.GetCache(), client.Object(definitionOf()), &handler.EnqueueRequestForObject{}, only))
}

// Reconcile implements controller.Reconciler for a Stage.
func (d *director) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	s := d.own[req.Name]
	var object client.Object
	if req.Namespace != ofOptions {
		u := newObject(stageKind).(*unstructured.Unstructured)
		err := d.manager.GetClient().Get(ctx, req.NamespacedName, u)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			d.tell(req, nil, nil)
			return controller.Result{}, d.concern(ctx, d.set.put(true, req.Name, nil))
		}
		if err != nil {
			return controller.Result{}, err
		}
		s, object = &kwok.Stage{}, u
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s); err != nil {
			d.tell(req, object, err)
			return controller.Result{}, nil
		}
		kwok.SetObjectDefaults_Stage(s)
	}
	c, err := compile(ctx, s)
	if err != nil {
		d.tell(req, object, err)
		return controller.Result{}, nil
	}
	if c.kind, err = d.resolve(ctx, c.kind); err != nil {
		d.tell(req, object, err)
		return controller.Result{RequeueAfter: kindRetry}, nil
	}
	d.tell(req, object, nil)
	return controller.Result{}, d.concern(ctx, d.set.put(req.Namespace != ofOptions, s.Name, c))
}

// resolve returns the kind that a Stage names by its kind, or by its resource, as KWOK permits. A
// kind whose objects cannot be watched, such as TokenReview, is an error.
func (d *director) resolve(ctx context.Context, k kind) (kind, error) {
	mapper := d.manager.GetRESTMapper()
	mapping, err := mapper.RESTMapping(k.GroupKind(), k.Version)
	if err == nil {
		return k, d.watchable(ctx, mapping.Resource)
	}
	named, failed := mapper.KindFor(k.GroupVersion().WithResource(strings.ToLower(k.Kind)))
	if failed != nil || named.GroupVersion() != k.GroupVersion() {
		return k, err
	}
	if mapping, err = mapper.RESTMapping(named.GroupKind(), named.Version); err != nil {
		return k, err
	}
	return named, d.watchable(ctx, mapping.Resource)
}

// watchable returns an error for a resource whose objects cannot be listed or watched.
func (d *director) watchable(ctx context.Context, r schema.GroupVersionResource) error {
	list, err := d.discovery.ServerResourcesForGroupVersionWithContext(ctx, r.GroupVersion().String())
	if err != nil {
		return err
	}
	for i := range list.APIResources {
		if one := &list.APIResources[i]; one.Name == r.Resource {
			if verb := missingVerb(one.Verbs); verb != "" {
				return fmt.Errorf("spec.resourceRef: %s does not support the verb %s", r.GroupResource(), verb)
			}
		}
	}
	return nil
}

// tell reports a problem of a Stage once: by an event of the Stage, or in the log for one of the
// options. What the Stage was before stays in force.
func (d *director) tell(req controller.Request, s client.Object, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	d.mu.Lock()
	same := d.reported[req] == text
	d.reported[req] = text
	d.mu.Unlock()
	switch {
	case same || err == nil:
	case s == nil:
		d.manager.GetLogger().Error(err, "stage", "name", req.Name)
	default:
		d.manager.GetEventRecorderFor("kapok").Event(s, corev1.EventTypeWarning, failedReason, text)
	}
}

// concern lets the players of kinds look at all their objects again, and starts those that are
// missing.
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
		d.set.tell(k.GroupKind())
	}
	return nil
}

// nameOf returns the name of the controller of a kind.
func nameOf(k kind) string {
	return strings.ToLower(strings.TrimSuffix(fmt.Sprintf("stages-%s.%s.%s", k.Kind, k.Version, k.Group), "."))
}

// definitionName is the name of the definition of Stages.
const definitionName = "stages.kwok.x-k8s.io"

// definitionOf returns an empty definition with metadata only: others may be large.
func definitionOf() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Group: apiextensionsv1.GroupName, Version: "v1", Kind: "CustomResourceDefinition"})
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
