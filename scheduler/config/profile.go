package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/scheduler/place"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The extension points of kube-scheduler at which plugins can be configured here, besides
// multiPoint.
const (
	preEnqueue = "preEnqueue"
	queueSort  = "queueSort"
	filter     = "filter"
	postFilter = "postFilter"
	score      = "score"
	bind       = "bind"
)

// The extension points at which only plugins of a program can be configured.
const (
	preFilter = "preFilter"
	preScore  = "preScore"
	reserve   = "reserve"
	permit    = "permit"
	preBind   = "preBind"
	postBind  = "postBind"
)

// The plugins that are not in package place.
const (
	schedulingGates   = "SchedulingGates"
	prioritySort      = "PrioritySort"
	defaultPreemption = "DefaultPreemption"
	defaultBinder     = "DefaultBinder"

	dynamicResources = "DynamicResources" // in package place, and at more points
)

// usual are the plugins that are enabled by default, in this order, with their weights.
var usual = []configv1.Plugin{
	{Name: schedulingGates}, {Name: prioritySort}, {Name: "NodeName"}, {Name: "NodeUnschedulable"}, {Name: "TaintToleration", Weight: new(int32(3))},
	{Name: "NodeAffinity", Weight: new(int32(2))}, {Name: "NodePorts"}, {Name: "NodeResourcesFit", Weight: new(int32(1))},
	{Name: "VolumeRestrictions"}, {Name: "NodeVolumeLimits"}, {Name: "VolumeBinding"}, {Name: "VolumeZone"},
	{Name: "PodTopologySpread", Weight: new(int32(2))}, {Name: "InterPodAffinity", Weight: new(int32(2))}, {Name: dynamicResources, Weight: new(int32(2))}, {Name: defaultPreemption},
	{Name: "NodeResourcesBalancedAllocation", Weight: new(int32(1))}, {Name: "ImageLocality", Weight: new(int32(1))}, {Name: defaultBinder},
	{Name: "NodeDeclaredFeatures"},
}

// pointsOf are the extension points of plugins.
var pointsOf = map[string][]string{
	schedulingGates: {preEnqueue}, prioritySort: {queueSort}, defaultPreemption: {postFilter}, defaultBinder: {bind},
	"NodeName": {filter}, "NodeUnschedulable": {filter}, "NodePorts": {filter}, "VolumeRestrictions": {filter}, "NodeVolumeLimits": {filter},
	"VolumeBinding": {filter, score}, "VolumeZone": {filter}, "NodeDeclaredFeatures": {filter},
	"TaintToleration": {filter, score}, "NodeAffinity": {filter, score}, "NodeResourcesFit": {filter, score},
	dynamicResources:    {preEnqueue, filter, postFilter, score},
	"PodTopologySpread": {filter, score}, "InterPodAffinity": {filter, score},
	"NodeResourcesBalancedAllocation": {score}, "ImageLocality": {score},
}

// missing are the plugins of kube-scheduler that Kapok does not have.
var missing = []string{"DeferredPodScheduling", "GangScheduling", "PodGroupPodsCount", "TopologyPlacementGenerator"}

// compileProfile returns the rules of a profile, and the plugins of the program in it.
func compileProfile(path *field.Path, scheduler string, p *configv1.KubeSchedulerProfile, own Own, ignored []string) (*place.Profile, *Plugins, field.ErrorList) {
	errs := validatePercentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)
	arguments, wrong := argumentsOf(path.Child("pluginConfig"), p.PluginConfig, own)
	errs = append(errs, wrong...)
	arguments.ignore(ignored)
	sets := configv1.Plugins{}
	if p.Plugins != nil {
		sets = *p.Plugins
	}
	c, wrong := newCatalog(path, own, scheduler, p, &sets)
	errs = append(errs, wrong...)
	path = path.Child("plugins")
	if errs = append(errs, c.validateSets(path, &sets)...); len(errs) > 0 {
		return nil, nil, errs
	}
	all := mergeSets(usual, sets.MultiPoint)
	at := map[string][]configv1.Plugin{}
	for point, set := range supported(&sets) {
		at[point] = c.expand(point, all, *set)
	}
	for point, want := range map[string]string{preEnqueue: schedulingGates, queueSort: prioritySort, bind: defaultBinder} {
		before := namesOf(at[point])
		got := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == dynamicResources || own.Factories[name] != nil })
		if point == bind && len(got) == 0 && len(before) > 0 {
			continue // plugins of the program bind
		}
		if !slices.Equal(got, []string{want}) {
			errs = append(errs, field.Invalid(path.Child(point), strings.Join(got, ", "), fmt.Sprintf("the plugin %s must be enabled", want)))
		}
	}
	after := namesOf(at[postFilter])
	profile := &place.Profile{
		Preempter: arguments.preempter, NeverPreempts: !slices.Contains(after, defaultPreemption), NeverDeallocates: !slices.Contains(after, dynamicResources),
	}
	filters, scores := namesOf(at[filter]), map[string]int64{}
	for _, plugin := range at[score] {
		scores[plugin.Name] = weightOf(plugin)
	}
	var names []string
	for _, name := range slices.Concat(filters, namesOf(all), namesOf(at[score])) {
		if rules := arguments.rules[name]; rules != nil && !slices.Contains(names, name) {
			names = append(names, name)
			_, scored := scores[name]
			profile.Plugins = append(profile.Plugins, place.Weighted{
				Plugin: rules, Weight: scores[name], Without: place.Parts{Filter: !slices.Contains(filters, name), Score: !scored},
			})
		}
	}
	return profile, c.plugins(at), errs
}

func namesOf(plugins []configv1.Plugin) (names []string) {
	for _, p := range plugins {
		names = append(names, p.Name)
	}
	return names
}

// weightOf returns the weight of the scores of a plugin.
func weightOf(p configv1.Plugin) int64 {
	if p.Weight == nil {
		return 1
	}
	return int64(*p.Weight)
}

// mergeSets returns the plugins that are enabled at all their extension points. One that is
// configured again keeps its place, unless it is disabled as well.
func mergeSets(defaults []configv1.Plugin, set configv1.PluginSet) (all []configv1.Plugin) {
	disabled, replaced := namesOf(set.Disabled), map[string]bool{}
	for _, p := range defaults {
		if slices.Contains(disabled, "*") || slices.Contains(disabled, p.Name) {
			continue
		}
		if i := slices.IndexFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == p.Name }); i >= 0 {
			p, replaced[p.Name] = set.Enabled[i], true
		}
		all = append(all, p)
	}
	for _, p := range set.Enabled {
		if !replaced[p.Name] {
			all = append(all, p)
		}
	}
	return all
}

// expand returns the plugins at an extension point: those of all that the set of the point
// configures again, then the others of all, then the others of the set.
func (c *catalog) expand(point string, all []configv1.Plugin, set configv1.PluginSet) (plugins []configv1.Plugin) {
	disabled := namesOf(set.Disabled)
	if slices.Contains(disabled, "*") {
		return set.Enabled
	}
	var before, after []configv1.Plugin
	for _, p := range all {
		if !slices.Contains(disabled, p.Name) && slices.Contains(c.points[p.Name], point) {
			plugins = append(plugins, p)
		}
	}
	for _, p := range set.Enabled {
		same := func(other configv1.Plugin) bool { return other.Name == p.Name }
		if slices.ContainsFunc(plugins, same) {
			before, plugins = append(before, p), slices.DeleteFunc(plugins, same)
		} else {
			after = append(after, p)
		}
	}
	return slices.Concat(before, plugins, after)
}

// supported returns the sets of the extension points at which plugins can be configured.
func supported(p *configv1.Plugins) map[string]*configv1.PluginSet {
	return map[string]*configv1.PluginSet{
		preEnqueue: &p.PreEnqueue, queueSort: &p.QueueSort, filter: &p.Filter, postFilter: &p.PostFilter, score: &p.Score, bind: &p.Bind,
		preFilter: &p.PreFilter, preScore: &p.PreScore, reserve: &p.Reserve, permit: &p.Permit, preBind: &p.PreBind, postBind: &p.PostBind,
	}
}

func (c *catalog) validateSets(path *field.Path, p *configv1.Plugins) (errs field.ErrorList) {
	const reason = "is not configured on its own: use multiPoint, filter and score"
	for name, set := range map[string]*configv1.PluginSet{
		"placementGenerate": &p.PlacementGenerate, "placementScore": &p.PlacementScore, "podGroupPostFilter": &p.PodGroupPostFilter,
	} {
		if len(set.Enabled)+len(set.Disabled) > 0 {
			errs = append(errs, field.Forbidden(path.Child(name), reason))
		}
	}
	errs = append(errs, c.validateSet(path.Child("multiPoint"), p.MultiPoint, "")...)
	for point, set := range supported(p) {
		usual := func(p configv1.Plugin) bool { return p.Name == "*" || pointsOf[p.Name] != nil }
		if !configurable(point) && (slices.ContainsFunc(set.Enabled, usual) || slices.ContainsFunc(set.Disabled, usual)) {
			errs = append(errs, field.Forbidden(path.Child(point), "for plugins of kube-scheduler, "+reason))
			continue
		}
		errs = append(errs, c.validateSet(path.Child(point), *set, point)...)
	}
	return errs
}

// configurable reports whether plugins of kube-scheduler can be configured at an extension point.
func configurable(point string) bool {
	for _, points := range pointsOf {
		if slices.Contains(points, point) {
			return true
		}
	}
	return false
}

// validateSet validates the plugins of an extension point; "" is all of them.
func (c *catalog) validateSet(path *field.Path, set configv1.PluginSet, point string) (errs field.ErrorList) {
	known := slices.Sorted(maps.Keys(c.points))
	seen := map[string]bool{}
	for i, p := range set.Enabled {
		path := path.Child("enabled").Index(i)
		switch points := c.points[p.Name]; {
		case slices.Contains(missing, p.Name):
			errs = append(errs, field.Invalid(path.Child("name"), p.Name, "Kapok does not have this plugin of kube-scheduler"))
		case points == nil:
			errs = append(errs, field.NotSupported(path.Child("name"), p.Name, known))
		case point != "" && !slices.Contains(points, point):
			errs = append(errs, field.Invalid(path.Child("name"), p.Name, "the plugin has nothing to do at "+point))
		case seen[p.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		seen[p.Name] = true
		if p.Weight != nil && *p.Weight <= 0 {
			errs = append(errs, field.Invalid(path.Child("weight"), *p.Weight, "must be greater than 0; to ignore the scores of a plugin, disable it at score"))
		}
	}
	for i, p := range set.Disabled {
		if p.Name != "*" && c.points[p.Name] == nil && !slices.Contains(missing, p.Name) {
			errs = append(errs, field.NotSupported(path.Child("disabled").Index(i).Child("name"), p.Name, append([]string{"*"}, known...)))
		}
	}
	return errs
}
