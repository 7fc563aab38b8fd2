package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// A plain plugin takes part in Filter and Score, or in PostBind.
type (
	plain struct {
		name string
		args struct {
			Rack string `json:"rack"`
		}
	}
	last struct{ plain }
)

func (p *plain) Name() string { return p.name }

func (*plain) Filter(context.Context, *framework.CycleState, *corev1.Pod, framework.NodeInfo) *framework.Status {
	return nil
}

func (*plain) Score(context.Context, *framework.CycleState, *corev1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 0, nil
}

func (*last) PostBind(context.Context, *framework.CycleState, *corev1.Pod, string) {}

func (*last) PostFilter(context.Context, *framework.CycleState, *corev1.Pod, map[string]*framework.Status) (*framework.PostFilterResult, *framework.Status) {
	return nil, nil
}

func own() Own {
	of := func(name string) framework.Factory {
		return func(args runtime.RawExtension, _ framework.Handle) (framework.Plugin, error) {
			p := &plain{name: name}
			return p, framework.DecodeArgs(args, &p.args)
		}
	}
	return Own{
		Factories: map[string]framework.Factory{
			"One": of("One"), "Two": of("Two"), "Renamed": of("Other"),
			"Last": func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) {
				return &last{plain{name: "Last"}}, nil
			},
			"Fails": func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) {
				return nil, errors.New("broken")
			},
			"None":   func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) { return nil, nil },
			"Panics": func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) { panic("boom") },
		},
		Handle: func(string) framework.Handle { return nil },
	}
}

func compileOwn(t *testing.T, text string, o Own) (*Compiled, error) {
	t.Helper()
	read, err := decode([]byte(head + text))
	if err != nil {
		t.Fatal(err)
	}
	return CompileWith(read, o)
}

func namesOfOwn[T framework.Plugin](all []T) (names []string) {
	for _, p := range all {
		if framework.Plugin(p) == nil {
			names = append(names, "-")
			continue
		}
		names = append(names, p.Name())
	}
	return names
}

// TestOwn checks the extension points, order, weights and arguments of plugins of a program.
func TestOwn(t *testing.T) {
	got, err := compileOwn(t, `
profiles:
- schedulerName: a
  plugins:
    multiPoint: {enabled: [{name: Two, weight: 5}, {name: One}, {name: Last}]}
    score: {enabled: [{name: One, weight: 7}]}
    filter: {disabled: [{name: Last}]}
    postBind: {disabled: [{name: One}]}
    postFilter: {disabled: [{name: '*'}], enabled: [{name: Last}, {name: DefaultPreemption}]}
  pluginConfig:
  - {name: One, args: {rack: r1}}
- schedulerName: b
  plugins:
    filter: {enabled: [{name: One}]}
- schedulerName: c
`, own())
	if err != nil {
		t.Fatal(err)
	}
	a, b := got.Plugins["a"], got.Plugins["b"]
	if a == nil || b == nil || len(got.Plugins) != 2 {
		t.Fatalf("plugins %v, want those of a and b", got.Plugins)
	}
	for want, got := range map[string][]string{
		"all [Last One Two]": namesOfOwn(a.All), "filter [Two One]": namesOfOwn(a.Filter), "postBind [Last]": namesOfOwn(a.PostBind),
		"postFilter [Last -]": namesOfOwn(a.PostFilter), "bind [-]": namesOfOwn(a.Bind), "reserve []": namesOfOwn(a.Reserve),
	} {
		if point, _, _ := strings.Cut(want, " "); fmt.Sprint(point, " ", got) != want {
			t.Errorf("%s %v, want %s", point, got, want)
		}
	}
	var scores []string
	for _, p := range a.Score {
		scores = append(scores, fmt.Sprint(p.Name(), p.Weight))
	}
	if want := []string{"One7", "Two5", "Last1"}; !slices.Equal(scores, want) {
		t.Errorf("scores %v, want %v", scores, want)
	}
	if one := a.Filter[1].(*plain); one.args.Rack != "r1" {
		t.Errorf("the plugin has the arguments %+v", one.args)
	}
	if b.Filter[0].(*plain) == a.Filter[1].(*plain) {
		t.Error("two profiles have the same plugin")
	}
	if len(b.Score) > 0 || !slices.Equal(namesOfOwn(b.PostFilter), []string{"-"}) {
		t.Errorf("the second profile has the plugins %+v", b)
	}
}

// TestOwnErrors checks mistakes in configurations of plugins of a program.
func TestOwnErrors(t *testing.T) {
	for text, want := range map[string]string{
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Three}]}}}]":                                          `profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: "Three"`,
		"profiles: [{plugins: {permit: {enabled: [{name: One}]}}}]":                                                `profiles[0].plugins.permit.enabled[0].name: Invalid value: "One": the plugin has nothing to do at permit`,
		"profiles: [{plugins: {queueSort: {enabled: [{name: One}]}}}]":                                             `profiles[0].plugins.queueSort.enabled[0].name: Invalid value: "One"`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Fails}]}}}]":                                          `profiles[0].plugins: Invalid value: "Fails": broken`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: None}]}}}]":                                           `profiles[0].plugins: Invalid value: "None": the factory returns no plugin`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Panics}]}}}]":                                         `profiles[0].plugins: Invalid value: "Panics": the factory panics: boom`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Renamed}]}}}]":                                        `profiles[0].plugins: Invalid value: "Renamed": the plugin has another name, Other`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: One}]}}, pluginConfig: [{name: One, args: {r: 1}}]}]": `profiles[0].pluginConfig[0].args: Invalid value: "One": arguments: unknown field "r"`,
		"profiles: [{plugins: {bind: {disabled: [{name: '*'}], enabled: [{name: One}]}}}]":                         `profiles[0].plugins.bind.enabled[0].name: Invalid value: "One": the plugin has nothing to do at bind`,
	} {
		if _, err := compileOwn(t, text, own()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nwant  %s", text, err, want)
		}
	}
	for name, want := range map[string]string{"NodeName": "reserved", "*": "reserved", "": "reserved", "GangScheduling": "reserved", "Nil": "has no factory"} {
		o := Own{Factories: map[string]framework.Factory{name: nil}}
		if _, err := CompileWith(&configv1.KubeSchedulerConfiguration{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", name, err, want)
		}
	}
}

// TestOwnUnmade checks that a configuration can be validated without calling factories.
func TestOwnUnmade(t *testing.T) {
	o := own()
	o.Handle = nil
	got, err := compileOwn(t, "profiles: [{plugins: {permit: {enabled: [{name: Panics}]}, multiPoint: {enabled: [{name: One}]}}}]", o)
	if err != nil || got.Plugins != nil {
		t.Errorf("plugins %v, error %v; want neither", got, err)
	}
	if _, err := compileOwn(t, "profiles: [{plugins: {permit: {enabled: [{name: Three}]}}}]", o); err == nil {
		t.Error("no error for an unknown plugin")
	}
}

// TestEnable checks the plugins of a program without a configuration.
func TestEnable(t *testing.T) {
	o := own()
	for _, name := range []string{"Fails", "None", "Panics", "Renamed"} {
		delete(o.Factories, name)
	}
	got, err := o.Enable("default-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(namesOfOwn(got.Filter), []string{"Last", "One", "Two"}) || !slices.Equal(namesOfOwn(got.PostFilter), []string{"-", "Last"}) || got.Score[0].Weight != 1 {
		t.Errorf("plugins %+v", got)
	}
	if got, err := own().Enable("x"); err == nil {
		t.Errorf("plugins %+v, want an error", got)
	}
}

// TestExtenders checks the order of extenders, the resources that they manage, and mistakes.
func TestExtenders(t *testing.T) {
	got, err := compile(t, head+`
extenders:
- {urlPrefix: "http://a", filterVerb: filter, ignorable: true, httpTimeout: 3s}
- urlPrefix: http://b
  filterVerb: filter
  managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}]
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Extenders) != 2 || got.Extenders[0].Name() != "http://b" {
		t.Errorf("extenders %v, want the one that can be ignored last", got.Extenders)
	}
	if rules := fmt.Sprintf("%+v", got.Profiles["default-scheduler"].Plugins); !strings.Contains(rules, "IgnoredResources:[example.com/a]") {
		t.Errorf("plugins %s", rules)
	}
	for text, want := range map[string]string{
		"{urlPrefix: 'ftp://a'}":                                                                  `extenders[0].urlPrefix: Invalid value: "ftp://a"`,
		"{urlPrefix: 'http://a', prioritizeVerb: p}":                                              "extenders[0].weight: Invalid value: 0",
		"{urlPrefix: 'http://a', httpTimeout: -1s}":                                               `extenders[0].httpTimeout: Invalid value: "-1s"`,
		"{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}":              `extenders: Invalid value: "2 extenders with a bindVerb": must be at most one`,
		"{urlPrefix: 'http://a', managedResources: [{name: cpu}]}":                                `extenders[0].managedResources[0].name: Invalid value: "cpu"`,
		"{urlPrefix: 'http://a', managedResources: [{name: a b}]}":                                `extenders[0].managedResources[0].name: Invalid value: "a b"`,
		"{urlPrefix: 'http://a', managedResources: [{name: e.com/a}, {name: e.com/a}]}":           `extenders[0].managedResources[1].name: Duplicate value: "e.com/a"`,
		"{urlPrefix: 'http://a', managedResources: [{name: requests.e.com/a}]}":                   `extenders[0].managedResources[0].name: Invalid value: "requests.e.com/a"`,
		"{urlPrefix: 'https://a', enableHTTPS: true, tlsConfig: {caFile: /does/not/exist}}":       "extenders[0].tlsConfig: Invalid value",
		"{urlPrefix: 'https://a', enableHTTPS: true, tlsConfig: {certData: YQ==, keyData: YQ==}}": "extenders[0].tlsConfig: Invalid value",
	} {
		if _, err := compile(t, head+"extenders: ["+text+"]\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nwant  %s", text, err, want)
		}
	}
}
