package config

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/kapok-dev/kapok/scheduler/framework"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Own are the plugins of a program, besides those of kube-scheduler.
type Own struct {
	// Factories make them, by their names.
	Factories map[string]framework.Factory
	// Handle returns the handle of a profile, by the name of its scheduler. If it is nil, no factory
	// is called, and a configuration is valid as far as that can be known without the plugins.
	Handle func(scheduler string) framework.Handle
}

// Plugins are the plugins of a program in a profile, by extension points, in their order.
type Plugins struct {
	All        []framework.Plugin // in the order of their names
	PreEnqueue []framework.PreEnqueuePlugin
	PreFilter  []framework.PreFilterPlugin
	Filter     []framework.FilterPlugin
	PostFilter []framework.PostFilterPlugin // nil is in the place of those of kube-scheduler
	PreScore   []framework.PreScorePlugin
	Score      []ScorePlugin
	Reserve    []framework.ReservePlugin
	Permit     []framework.PermitPlugin
	PreBind    []framework.PreBindPlugin
	Bind       []framework.BindPlugin // nil is in the place of DefaultBinder
	PostBind   []framework.PostBindPlugin
}

// A ScorePlugin is a plugin with the weight of its scores.
type ScorePlugin struct {
	framework.ScorePlugin
	Weight int64
}

// Validate returns an error for a plugin with the name of one of kube-scheduler.
func (o Own) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(o.Factories)) {
		switch {
		case name == "", name == "*", pointsOf[name] != nil, slices.Contains(missing, name):
			return fmt.Errorf("the name %q of a plugin is reserved", name)
		case o.Factories[name] == nil:
			return fmt.Errorf("the plugin %q has no factory", name)
		}
	}
	return nil
}

// Enable returns all plugins of the program, at all their extension points, in the order of their
// names and with the weight 1. Those that bind pods come before DefaultBinder.
func (o Own) Enable(scheduler string) (*Plugins, error) {
	if len(o.Factories) == 0 || o.Handle == nil {
		return nil, o.Validate()
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	names, own := slices.Sorted(maps.Keys(o.Factories)), map[string]framework.Plugin{}
	all := make([]configv1.Plugin, len(names))
	for i, name := range names {
		p, err := o.build(name, runtime.RawExtension{}, scheduler)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", name, err)
		}
		own[name], all[i].Name = p, name
	}
	c, at := catalogOf(own), map[string][]configv1.Plugin{}
	for _, point := range ownPoints {
		at[point] = c.expand(point, all, configv1.PluginSet{})
	}
	at[bind] = append(at[bind], configv1.Plugin{Name: defaultBinder})
	at[postFilter] = append([]configv1.Plugin{{Name: defaultPreemption}}, at[postFilter]...)
	return c.plugins(at), nil
}

// build calls a factory.
func (o Own) build(name string, args runtime.RawExtension, scheduler string) (p framework.Plugin, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the factory panics: %v\n%s", r, debug.Stack())
		}
	}()
	p, err = o.Factories[name](args, o.Handle(scheduler))
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, fmt.Errorf("the factory returns no plugin")
	case p.Name() != name:
		return nil, fmt.Errorf("the plugin has another name, %s", p.Name())
	}
	return p, nil
}

// ownPoints are the extension points of plugins of a program.
var ownPoints = []string{preEnqueue, preFilter, filter, postFilter, preScore, score, reserve, permit, preBind, bind, postBind}

// catalog has all plugins of a profile with their extension points.
type catalog struct {
	points map[string][]string
	own    map[string]framework.Plugin
}

func catalogOf(own map[string]framework.Plugin) *catalog {
	c := &catalog{maps.Clone(pointsOf), own}
	for name, p := range own {
		c.points[name] = pointsFor(p)
	}
	return c
}

// pointsFor returns the extension points at which a plugin takes part.
func pointsFor(p framework.Plugin) (points []string) {
	add := func(point string, is bool) {
		if is {
			points = append(points, point)
		}
	}
	add(preEnqueue, implements[framework.PreEnqueuePlugin](p))
	add(preFilter, implements[framework.PreFilterPlugin](p))
	add(filter, implements[framework.FilterPlugin](p))
	add(postFilter, implements[framework.PostFilterPlugin](p))
	add(preScore, implements[framework.PreScorePlugin](p))
	add(score, implements[framework.ScorePlugin](p))
	add(reserve, implements[framework.ReservePlugin](p))
	add(permit, implements[framework.PermitPlugin](p))
	add(preBind, implements[framework.PreBindPlugin](p))
	add(bind, implements[framework.BindPlugin](p))
	add(postBind, implements[framework.PostBindPlugin](p))
	return points
}

func implements[T framework.Plugin](p framework.Plugin) bool {
	_, is := p.(T)
	return is
}

// newCatalog makes the plugins of a program that a profile enables.
func newCatalog(path *field.Path, o Own, scheduler string, p *configv1.KubeSchedulerProfile, sets *configv1.Plugins) (*catalog, field.ErrorList) {
	args := map[string]int{}
	for i := range p.PluginConfig {
		args[p.PluginConfig[i].Name] = i
	}
	var errs field.ErrorList
	own := map[string]framework.Plugin{}
	for name := range o.Factories {
		if o.Handle == nil || !enables(sets, name) {
			continue
		}
		at, raw := path.Child("plugins"), runtime.RawExtension{}
		if i, has := args[name]; has {
			at, raw = path.Child("pluginConfig").Index(i).Child("args"), p.PluginConfig[i].Args
		}
		plugin, err := o.build(name, raw, scheduler)
		if err != nil {
			errs = append(errs, field.Invalid(at, name, err.Error()))
			continue
		}
		own[name] = plugin
	}
	c := catalogOf(own)
	for name := range o.Factories {
		if own[name] == nil {
			c.points[name] = ownPoints
		}
	}
	return c, errs
}

// enables reports whether a plugin is enabled at an extension point.
func enables(sets *configv1.Plugins, name string) bool {
	is := func(p configv1.Plugin) bool { return p.Name == name }
	for _, set := range supported(sets) {
		if slices.ContainsFunc(set.Enabled, is) {
			return true
		}
	}
	return slices.ContainsFunc(sets.MultiPoint.Enabled, is)
}

// plugins returns the plugins of the program at their extension points; nil if there are none.
func (c *catalog) plugins(at map[string][]configv1.Plugin) *Plugins {
	if len(c.own) == 0 {
		return nil
	}
	p := &Plugins{
		PreEnqueue: ownAt[framework.PreEnqueuePlugin](c, at[preEnqueue], ""), PreFilter: ownAt[framework.PreFilterPlugin](c, at[preFilter], ""),
		Filter: ownAt[framework.FilterPlugin](c, at[filter], ""), PostFilter: ownAt[framework.PostFilterPlugin](c, at[postFilter], defaultPreemption),
		PreScore: ownAt[framework.PreScorePlugin](c, at[preScore], ""), Reserve: ownAt[framework.ReservePlugin](c, at[reserve], ""),
		Permit: ownAt[framework.PermitPlugin](c, at[permit], ""), PreBind: ownAt[framework.PreBindPlugin](c, at[preBind], ""),
		Bind: ownAt[framework.BindPlugin](c, at[bind], defaultBinder), PostBind: ownAt[framework.PostBindPlugin](c, at[postBind], ""),
	}
	for _, name := range slices.Sorted(maps.Keys(c.own)) {
		p.All = append(p.All, c.own[name])
	}
	for _, plugin := range at[score] {
		if s, is := c.own[plugin.Name].(framework.ScorePlugin); is {
			p.Score = append(p.Score, ScorePlugin{s, weightOf(plugin)})
		}
	}
	if !slices.Contains(p.PostFilter, nil) { // without preemption, devices may still be deallocated
		p.PostFilter = append([]framework.PostFilterPlugin{nil}, p.PostFilter...)
	}
	return p
}

// ownAt returns the plugins of the program at an extension point, with nil in the place of a plugin
// of kube-scheduler.
func ownAt[T framework.Plugin](c *catalog, at []configv1.Plugin, usual string) (all []T) {
	for _, plugin := range at {
		if own, is := c.own[plugin.Name].(T); is || plugin.Name == usual {
			all = append(all, own)
		}
	}
	return all
}
