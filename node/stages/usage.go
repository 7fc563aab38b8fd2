package stages

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/cel"
)

// Usages are what pods use by KWOK's ResourceUsages and ClusterResourceUsages: see [ReadUsages].
type Usages struct {
	pods    map[client.ObjectKey]*usage
	cluster []*usage // in the order of the files
}

// A usage is a ResourceUsage, or a ClusterResourceUsage with its selector.
type usage struct {
	name       string
	selector   *kwok.ObjectSelector // nil selects all
	containers []containerUsage
	failed     atomic.Bool // an expression has failed, and was reported
}

// A containerUsage is what some containers use; all if there are no names.
type containerUsage struct {
	names  []string
	values map[corev1.ResourceName]usageValue
}

// A usageValue is a quantity, or else an expression.
type usageValue struct {
	quantity   *resource.Quantity
	expression cel.Program
}

// ReadUsages reads ResourceUsages and ClusterResourceUsages from files and directories as [Read]
// does. It returns nil if there are none. An expression that cannot be compiled is an error.
func ReadUsages(paths ...string) (*Usages, error) {
	objects, err := read(paths)
	if err != nil {
		return nil, err
	}
	all := &Usages{pods: map[client.ObjectKey]*usage{}}
	var environment *cel.Environment
	add := func(o document, u *usage, spec []kwok.ResourceUsageContainer) error {
		if environment == nil {
			if environment, err = newEnvironment(); err != nil {
				return err
			}
		}
		if err := u.compile(environment, spec); err != nil {
			return fmt.Errorf("read usages: %s: %s: %w", o.path, o.GetName(), err)
		}
		return nil
	}
	for _, o := range objects {
		u := &usage{name: o.GetName()}
		switch r := o.Object.(type) {
		case *kwok.ResourceUsage:
			key := client.Key(r.Namespace, r.Name)
			if key.Namespace == "" {
				key.Namespace = "default"
			}
			if all.pods[key] != nil {
				return nil, fmt.Errorf("read usages: %s: two ResourceUsages have the name %s", o.path, key)
			}
			all.pods[key], err = u, add(o, u, r.Spec.Usages)
		case *kwok.ClusterResourceUsage:
			u.selector = r.Spec.Selector
			all.cluster, err = append(all.cluster, u), add(o, u, r.Spec.Usages)
		}
		if err != nil {
			return nil, err
		}
	}
	if environment == nil {
		return nil, nil
	}
	return all, nil
}

// newEnvironment returns the environment of expressions: the variables node, pod and container, and
// KWOK's functions.
func newEnvironment() (*cel.Environment, error) {
	return cel.NewEnvironment(cel.EnvironmentConfig{
		Types: cel.DefaultTypes, Conversions: cel.DefaultConversions, Funcs: cel.DefaultFuncs, Methods: cel.FuncsToMethods(cel.DefaultFuncs),
		Vars: map[string]any{"node": corev1.Node{}, "pod": corev1.Pod{}, "container": corev1.Container{}},
	})
}

func (u *usage) compile(environment *cel.Environment, spec []kwok.ResourceUsageContainer) error {
	for i, c := range spec {
		one := containerUsage{names: c.Containers, values: map[corev1.ResourceName]usageValue{}}
		for name, v := range c.Usage {
			field := fmt.Sprintf("spec.usages[%d].usage.%s", i, name)
			value := usageValue{quantity: v.Value}
			switch {
			case v.Value != nil && v.Value.Sign() < 0:
				return fmt.Errorf("%s.value is %s: must not be negative", field, v.Value)
			case v.Value == nil && v.Expression == nil:
				return fmt.Errorf("%s: value or expression must be set", field)
			case v.Value == nil:
				var err error
				if value.expression, err = environment.Compile(*v.Expression); err != nil {
					return fmt.Errorf("%s.expression: %w", field, err)
				}
			}
			one.values[corev1.ResourceName(name)] = value
		}
		u.containers = append(u.containers, one)
	}
	return nil
}

// find returns the entry of a container: the one that names it, or else the first one without
// names.
func (u *usage) find(container string) *containerUsage {
	var other *containerUsage
	for i := range u.containers {
		c := &u.containers[i]
		switch {
		case slices.Contains(c.names, container):
			return c
		case len(c.names) == 0 && other == nil:
			other = c
		}
	}
	return other
}

// selects reports whether a selector selects a pod.
func selects(s *kwok.ObjectSelector, p *corev1.Pod) bool {
	return s == nil || (len(s.MatchNamespaces) == 0 || slices.Contains(s.MatchNamespaces, p.Namespace)) &&
		(len(s.MatchNames) == 0 || slices.Contains(s.MatchNames, p.Name))
}

// of returns what a container uses by the ResourceUsage of its pod, or else by the first
// ClusterResourceUsage that selects pod and container; nil if there is none. A resource without a
// value, or whose expression fails, is not used.
func (all *Usages) of(reader client.Reader, log logr.Logger, p *corev1.Pod, container string) corev1.ResourceList {
	u := all.pods[client.ObjectKeyFromObject(p)]
	var entry *containerUsage
	if u != nil {
		entry = u.find(container)
	} else {
		for _, u = range all.cluster {
			if selects(u.selector, p) {
				if entry = u.find(container); entry != nil {
					break
				}
			}
		}
	}
	if entry == nil {
		return nil
	}
	used := corev1.ResourceList{corev1.ResourceCPU: {Format: resource.DecimalSI}, corev1.ResourceMemory: {Format: resource.BinarySI}}
	for name, v := range entry.values {
		if v.quantity != nil {
			used[name] = v.quantity.DeepCopy()
			continue
		}
		amount, err := v.evaluate(reader, p, container)
		if err != nil {
			if !u.failed.Swap(true) {
				log.Error(err, "resource usage", "name", u.name, "resource", name, "namespace", p.Namespace, "pod", p.Name)
			}
			continue
		}
		if name == corev1.ResourceCPU {
			used[name] = *resource.NewMilliQuantity(int64(math.Ceil(amount*1000)), resource.DecimalSI)
		} else {
			used[name] = *resource.NewQuantity(int64(amount), resource.BinarySI)
		}
	}
	return used
}

// maxUsage limits the result of an expression.
const maxUsage = 1 << 53

func (v *usageValue) evaluate(reader client.Reader, p *corev1.Pod, container string) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), matchTimeout)
	defer cancel()
	node, spec := &corev1.Node{}, &corev1.Container{Name: container}
	if err := reader.Get(ctx, client.Key("", p.Spec.NodeName), node, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == container {
			spec = &p.Spec.Containers[i]
		}
	}
	result, _, err := v.expression.ContextEval(ctx, map[string]any{"node": node, "pod": p, "container": spec})
	if err != nil {
		return 0, err
	}
	amount, err := cel.AsFloat64(result)
	switch {
	case err != nil:
		return 0, err
	case !(amount >= 0 && amount <= maxUsage):
		return 0, fmt.Errorf("the expression returns %v: must be between 0 and 2^53", amount)
	}
	return amount, nil
}
