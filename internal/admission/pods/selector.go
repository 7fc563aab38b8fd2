package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// PodNodeSelector is Kubernetes' plugin of that name: it adds the node selector of a namespace to
// new pods, and rejects pods whose own selector conflicts with it, or with the labels that the
// configuration allows in the namespace. The selector of a namespace is its annotation
// scheduler.alpha.kubernetes.io/node-selector, or else the default of the configuration.
type PodNodeSelector struct {
	state     *state.State
	byDefault labels.Set
	allowed   map[string]labels.Set // by namespace; empty for all
}

const selectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// clusterDefault is the key of the default selector among those of namespaces.
const clusterDefault = "clusterDefaultNodeSelector"

// NewPodNodeSelector returns the plugin with a configuration in JSON or YAML, which is empty for
// none:
//
//	podNodeSelectorPluginConfig:
//	  clusterDefaultNodeSelector: SELECTOR
//	  NAMESPACE: SELECTOR
//
// A SELECTOR is a list of KEY=VALUE, separated by commas.
func NewPodNodeSelector(st *state.State, configuration []byte) (*PodNodeSelector, error) {
	var config struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.UnmarshalStrict(configuration, &config); err != nil {
		return nil, err
	}
	p := &PodNodeSelector{state: st, allowed: map[string]labels.Set{}}
	for _, name := range slices.Sorted(maps.Keys(config.Selectors)) {
		set, err := labels.ConvertSelectorToLabelsMap(config.Selectors[name])
		if err != nil {
			return nil, fmt.Errorf("podNodeSelectorPluginConfig.%s: %w", name, err)
		}
		if name == clusterDefault {
			p.byDefault = set
		}
		p.allowed[name] = set
	}
	return p, nil
}

// Handles implements admission.Plugin.
func (p *PodNodeSelector) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && is(r, "")
}

// Mutate implements admission.Mutator.
func (p *PodNodeSelector) Mutate(ctx context.Context, a *resource.Admitted) error {
	_, ofNamespace, err := p.selectors(a)
	if err != nil {
		return err
	}
	if len(ofNamespace) > 0 {
		selector := admission.Child(admission.Child(a.Object, "spec"), "nodeSelector")
		for key, value := range ofNamespace {
			selector[key] = value
		}
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (p *PodNodeSelector) Validate(_ context.Context, a *resource.Admitted) error {
	own, _, err := p.selectors(a)
	if err != nil {
		return err
	}
	allowed := p.allowed[a.Request.Namespace]
	if len(allowed) == 0 {
		return nil
	}
	for key, value := range own {
		if had, ok := allowed[key]; !ok || had != value {
			return refuse(a.Object, errNotAllowed)
		}
	}
	return nil
}

var (
	errConflict   = errors.New("pod node label selector conflicts with its namespace node label selector")
	errNotAllowed = errors.New("pod node label selector labels conflict with its namespace whitelist")
)

// selectors returns the node selector of a pod and that of its namespace, and an error if they
// conflict.
func (p *PodNodeSelector) selectors(a *resource.Admitted) (own, ofNamespace labels.Set, err error) {
	if ofNamespace, err = p.ofNamespace(a.Request.Namespace); err != nil {
		return nil, nil, err
	}
	own = selectorOf(a.Object)
	if labels.Conflicts(ofNamespace, own) {
		return nil, nil, refuse(a.Object, errConflict)
	}
	return own, ofNamespace, nil
}

// ofNamespace returns the node selector of a namespace.
func (p *PodNodeSelector) ofNamespace(name string) (labels.Set, error) {
	value, found, err := annotation(p.state, name, selectorAnnotation)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return p.byDefault, nil
	}
	return labels.ConvertSelectorToLabelsMap(value)
}

// selectorOf returns the node selector of a pod.
func selectorOf(pod resource.Tree) labels.Set {
	set := labels.Set{}
	spec, _ := pod["spec"].(map[string]any)
	selector, _ := spec["nodeSelector"].(map[string]any)
	for key, value := range selector {
		set[key], _ = value.(string)
	}
	return set
}
