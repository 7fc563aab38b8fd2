package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// arguments are the plugins with their arguments.
type arguments struct {
	rules     map[string]place.Plugin // by name
	preempter place.Preempter
}

// argumentsOf returns the plugins with the arguments of a profile.
func argumentsOf(path *field.Path, configs []configv1.PluginConfig, own Own) (a arguments, errs field.ErrorList) {
	defaults := place.DefaultProfile()
	a = arguments{rules: map[string]place.Plugin{}, preempter: defaults.Preempter}
	for _, p := range defaults.Plugins {
		a.rules[p.Name()] = p.Plugin
	}
	readers := map[string]func(*field.Path, runtime.RawExtension) field.ErrorList{
		"NodeResourcesFit":                reader("NodeResourcesFit", a.setFit),
		"NodeResourcesBalancedAllocation": reader("NodeResourcesBalancedAllocation", a.setBalance),
		"NodeAffinity":                    reader("NodeAffinity", a.setNodeAffinity),
		"InterPodAffinity":                reader("InterPodAffinity", a.setPodAffinity),
		"PodTopologySpread":               reader("PodTopologySpread", a.setSpread),
		"VolumeBinding":                   reader("VolumeBinding", a.setVolumes),
		dynamicResources:                  reader(dynamicResources, a.setDynamic),
		defaultPreemption:                 reader(defaultPreemption, a.setPreempter),
	}
	seen := map[string]bool{}
	for i, c := range configs {
		path := path.Index(i)
		switch read := readers[c.Name]; {
		case seen[c.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		case read != nil:
			errs = append(errs, read(path.Child("args"), c.Args)...)
		case own.Factories[c.Name] != nil: // its factory decodes them
		case slices.Contains(missing, c.Name):
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, "Kapok does not have this plugin of kube-scheduler"))
		case pointsOf[c.Name] != nil:
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, "the plugin has no arguments"))
		default:
			errs = append(errs, field.NotSupported(path.Child("name"), c.Name, slices.Sorted(maps.Keys(readers))))
		}
		seen[c.Name] = true
	}
	return a, errs
}

// ignore replaces the resources that NodeResourcesFit ignores by those that extenders manage.
func (a arguments) ignore(resources []string) {
	if len(resources) == 0 {
		return
	}
	fit := a.rules["NodeResourcesFit"].(place.NodeResourcesFit)
	fit.IgnoredResources = resources
	a.rules["NodeResourcesFit"] = fit
}

// reader returns a function that decodes the arguments of a plugin, and passes them to set.
func reader[T any, P interface {
	*T
	runtime.Object
}](plugin string, set func(*field.Path, P) field.ErrorList) func(*field.Path, runtime.RawExtension) field.ErrorList {
	return func(path *field.Path, raw runtime.RawExtension) field.ErrorList {
		args := P(new(T))
		switch object := raw.Object.(type) {
		case P:
			args = object
		case nil:
			if len(raw.Raw) == 0 {
				break
			}
			if err := unmarshal(raw.Raw, args); err != nil {
				return field.ErrorList{field.Invalid(path, string(raw.Raw), err.Error())}
			}
		default:
			return field.ErrorList{field.Invalid(path, fmt.Sprintf("%T", object), fmt.Sprintf("must be a %T", args))}
		}
		got, want := args.GetObjectKind().GroupVersionKind(), configv1.SchemeGroupVersion.WithKind(plugin+"Args")
		if got.Kind != "" && got.Kind != want.Kind {
			return field.ErrorList{field.Invalid(path.Child("kind"), got.Kind, "must be "+want.Kind)}
		}
		if version := got.GroupVersion(); !version.Empty() && version != want.GroupVersion() {
			return field.ErrorList{field.Invalid(path.Child("apiVersion"), version.String(), "must be "+want.GroupVersion().String())}
		}
		return set(path, args)
	}
}

// between returns an error if a number is out of range.
func between[N int32 | int64](path *field.Path, n, least, most N) field.ErrorList {
	if n < least || n > most {
		return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be from %d to %d", least, most))}
	}
	return nil
}

func (a arguments) setFit(path *field.Path, args *configv1.NodeResourcesFitArgs) (errs field.ErrorList) {
	for i, name := range args.IgnoredResources {
		errs = append(errs, validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		path := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(path, group, "must not contain a slash"))
			continue
		}
		errs = append(errs, validation.ValidateLabelName(group, path)...)
	}
	fit := place.NodeResourcesFit{IgnoredResources: args.IgnoredResources, IgnoredGroups: args.IgnoredResourceGroups}
	if s := args.ScoringStrategy; s != nil {
		path := path.Child("scoringStrategy")
		strategies := map[configv1.ScoringStrategyType]place.Strategy{
			configv1.LeastAllocated: place.LeastAllocated, configv1.MostAllocated: place.MostAllocated,
			configv1.RequestedToCapacityRatio: place.RequestedToCapacityRatio,
		}
		strategy, known := strategies[s.Type]
		if !known {
			errs = append(errs, field.NotSupported(path.Child("type"), s.Type, slices.Sorted(maps.Keys(strategies))))
		}
		fit.Strategy = strategy
		for i, r := range s.Resources {
			weight := cmp.Or(r.Weight, 1) // 0 is absent
			errs = append(errs, between(path.Child("resources").Index(i).Child("weight"), weight, 1, 100)...)
			fit.Resources = append(fit.Resources, place.ResourceWeight{Name: corev1.ResourceName(r.Name), Weight: weight})
		}
		path = path.Child("requestedToCapacityRatio")
		switch ratio := s.RequestedToCapacityRatio; {
		case ratio == nil && s.Type == configv1.RequestedToCapacityRatio:
			errs = append(errs, field.Required(path, "must be set for the type RequestedToCapacityRatio"))
		case ratio != nil && s.Type != configv1.RequestedToCapacityRatio:
			errs = append(errs, field.Forbidden(path, "must not be set for the type "+string(s.Type)))
		case ratio != nil:
			shape, wrong := shapeOf(path.Child("shape"), ratio.Shape)
			fit.Shape, errs = shape, append(errs, wrong...)
		}
	}
	a.rules["NodeResourcesFit"] = fit
	return errs
}

// shapeOf returns the points of a function.
func shapeOf(path *field.Path, points []configv1.UtilizationShapePoint) (shape []place.ShapePoint, errs field.ErrorList) {
	if len(points) == 0 {
		errs = append(errs, field.Required(path, "must have at least one point"))
	}
	for i, p := range points {
		path := path.Index(i)
		errs = append(errs, between(path.Child("utilization"), p.Utilization, 0, 100)...)
		errs = append(errs, between(path.Child("score"), p.Score, 0, 10)...)
		if i > 0 && p.Utilization <= points[i-1].Utilization {
			errs = append(errs, field.Invalid(path.Child("utilization"), p.Utilization, "must be greater than that of the point before"))
		}
		shape = append(shape, place.ShapePoint{Utilization: int64(p.Utilization), Score: int64(p.Score)})
	}
	return shape, errs
}

func (a arguments) setBalance(path *field.Path, args *configv1.NodeResourcesBalancedAllocationArgs) (errs field.ErrorList) {
	var balance place.NodeResourcesBalancedAllocation
	seen := map[string]bool{}
	for i, r := range args.Resources {
		path := path.Child("resources").Index(i)
		if seen[r.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), r.Name))
		}
		seen[r.Name] = true
		if r.Weight != 0 && r.Weight != 1 {
			errs = append(errs, field.Invalid(path.Child("weight"), r.Weight, "must be 1"))
		}
		balance.Resources = append(balance.Resources, corev1.ResourceName(r.Name))
	}
	a.rules["NodeResourcesBalancedAllocation"] = balance
	return errs
}

func (a arguments) setNodeAffinity(path *field.Path, args *configv1.NodeAffinityArgs) (errs field.ErrorList) {
	added := args.AddedAffinity.DeepCopy()
	a.rules["NodeAffinity"] = place.NodeAffinity{Added: added}
	if added == nil {
		return nil
	}
	path = path.Child("addedAffinity")
	if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		path := path.Child("requiredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(path))
		errs = append(errs, fieldErrors(path, err)...)
	}
	if preferred := added.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		path := path.Child("preferredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(path))
		errs = append(errs, fieldErrors(path, err)...)
	}
	return errs
}

// fieldErrors returns the errors about fields in err. One about no field is about path.
func fieldErrors(path *field.Path, err error) (errs field.ErrorList) {
	var list utilerrors.Aggregate
	var one *field.Error
	switch {
	case err == nil:
	case errors.As(err, &list):
		for _, err := range list.Errors() {
			errs = append(errs, fieldErrors(path, err)...)
		}
	case errors.As(err, &one):
		errs = append(errs, one)
	default:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return errs
}

func (a arguments) setPodAffinity(path *field.Path, args *configv1.InterPodAffinityArgs) (errs field.ErrorList) {
	rules := place.InterPodAffinity{HardPodAffinityWeight: 1, IgnorePreferredTermsOfExistingPods: args.IgnorePreferredTermsOfExistingPods}
	if weight := args.HardPodAffinityWeight; weight != nil {
		errs = between(path.Child("hardPodAffinityWeight"), *weight, 0, 100)
		rules.HardPodAffinityWeight = int64(*weight)
	}
	a.rules["InterPodAffinity"] = rules
	return errs
}

func (a arguments) setSpread(path *field.Path, args *configv1.PodTopologySpreadArgs) (errs field.ErrorList) {
	var spread place.PodTopologySpread
	kind := path.Child("defaultingType")
	path = path.Child("defaultConstraints")
	switch args.DefaultingType {
	case "", configv1.SystemDefaulting:
		if len(args.DefaultConstraints) > 0 {
			errs = append(errs, field.Invalid(kind, args.DefaultingType, "must be List if there are defaultConstraints"))
		}
	case configv1.ListDefaulting:
		spread.Defaults = []corev1.TopologySpreadConstraint{}
	default:
		errs = append(errs, field.NotSupported(kind, args.DefaultingType, []configv1.PodTopologySpreadConstraintsDefaulting{configv1.ListDefaulting, configv1.SystemDefaulting}))
	}
	for i, c := range args.DefaultConstraints {
		path := path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "must be greater than 0"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(path.Child("topologyKey"), ""))
		} else {
			errs = append(errs, validation.ValidateLabelName(c.TopologyKey, path.Child("topologyKey"))...)
		}
		if when := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}; !slices.Contains(when, c.WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(path.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, when))
		}
		if c.LabelSelector != nil {
			errs = append(errs, field.Forbidden(path.Child("labelSelector"), "the selector is that of the services and the controller of a pod"))
		}
		if slices.ContainsFunc(args.DefaultConstraints[:i], func(before corev1.TopologySpreadConstraint) bool {
			return before.TopologyKey == c.TopologyKey && before.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			errs = append(errs, field.Duplicate(path, fmt.Sprintf("%s, %s", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		spread.Defaults = append(spread.Defaults, *c.DeepCopy())
	}
	a.rules["PodTopologySpread"] = spread
	return errs
}

// setVolumes rejects a time limit: a pod does not keep its place while volumes are bound.
func (a arguments) setVolumes(path *field.Path, args *configv1.VolumeBindingArgs) (errs field.ErrorList) {
	if args.BindTimeoutSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("bindTimeoutSeconds"), "there is no time limit: a pod is scheduled again once its volumes are bound"))
	}
	if len(args.Shape) > 0 {
		shape, wrong := shapeOf(path.Child("shape"), args.Shape)
		a.rules["VolumeBinding"] = place.VolumeBinding{Shape: shape}
		errs = append(errs, wrong...)
	}
	return errs
}

func (a arguments) setDynamic(path *field.Path, args *configv1.DynamicResourcesArgs) (errs field.ErrorList) {
	dynamic := a.rules[dynamicResources].(place.DynamicResources)
	if d := args.FilterTimeout; d != nil {
		if dynamic.FilterTimeout = d.Duration; d.Duration < 0 {
			errs = append(errs, field.Invalid(path.Child("filterTimeout"), d.Duration.String(), "must be zero or positive"))
		}
	}
	if d := args.BindingTimeout; d != nil {
		if dynamic.BindingTimeout = d.Duration; d.Duration < time.Second {
			errs = append(errs, field.Invalid(path.Child("bindingTimeout"), d.Duration.String(), "must be at least 1 second"))
		}
	}
	a.rules[dynamicResources] = dynamic
	return errs
}

func (a *arguments) setPreempter(path *field.Path, args *configv1.DefaultPreemptionArgs) (errs field.ErrorList) {
	percentage, absolute := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if n := args.MinCandidateNodesPercentage; n != nil {
		errs = append(errs, between(percentage, *n, 0, 100)...)
		a.preempter.MinCandidateNodesPercentage = int(*n)
	}
	if n := args.MinCandidateNodesAbsolute; n != nil {
		if *n < 0 {
			errs = append(errs, field.Invalid(absolute, *n, "must not be negative"))
		}
		a.preempter.MinCandidateNodesAbsolute = int(*n)
	}
	if a.preempter == (place.Preempter{}) {
		errs = append(errs, field.Invalid(percentage, 0, "must not be 0 if minCandidateNodesAbsolute is 0"))
	}
	return errs
}
