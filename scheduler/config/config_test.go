package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func compile(t *testing.T, text string) (*Compiled, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := Read(file)
	if err != nil {
		return nil, err
	}
	return Compile(read)
}

// TestDefaults checks that a configuration that sets nothing is that of a scheduler without one.
func TestDefaults(t *testing.T) {
	for _, text := range []string{head, "---\n# comment\n---\n" + head, head + "profiles: [{}]\n", head + "leaderElection: {leaderElect: false}\nparallelism: 4\npercentageOfNodesToScore: 50\n"} {
		got, err := compile(t, text)
		if err != nil {
			t.Fatal(err)
		}
		want := &Compiled{
			Profiles: map[string]*place.Profile{"default-scheduler": place.DefaultProfile()}, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second,
		}
		// Plugins without scores have these left out.
		for _, p := range got.Profiles {
			for i := range p.Plugins {
				p.Plugins[i].Without = place.Parts{}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", text, got.Profiles["default-scheduler"], want.Profiles["default-scheduler"])
		}
	}
}

// TestCompile checks plugin sets and arguments.
func TestCompile(t *testing.T) {
	got, err := compile(t, head+`
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
profiles:
- schedulerName: packs
  plugins:
    multiPoint:
      disabled: [{name: InterPodAffinity}, {name: DynamicResources}]
      enabled: [{name: NodeAffinity, weight: 7}]
    filter:
      enabled: [{name: NodePorts}]
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit, weight: 5}, {name: ImageLocality}]
    postFilter:
      disabled: [{name: DefaultPreemption}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResourceGroups: [example.com]
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: memory}]}
- schedulerName: usual
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 0}
  - name: PodTopologySpread
    args: {defaultingType: List}
`)
	if err != nil {
		t.Fatal(err)
	}
	if got.InitialBackoff != 2*time.Second || got.MaxBackoff != 30*time.Second || len(got.Profiles) != 2 {
		t.Errorf("backoff from %v to %v, %d profiles", got.InitialBackoff, got.MaxBackoff, len(got.Profiles))
	}
	packs, usual := got.Profiles["packs"], got.Profiles["usual"]
	if !packs.NeverPreempts || usual.NeverPreempts || usual.Preempter != (place.Preempter{MinCandidateNodesAbsolute: 100}) {
		t.Errorf("preemption: %v, %v %+v", packs.NeverPreempts, usual.NeverPreempts, usual.Preempter)
	}
	if packs.Plugins[0].Name() != "NodePorts" || packs.Has("InterPodAffinity") || !usual.Has("InterPodAffinity") {
		t.Errorf("plugins %+v", packs.Plugins)
	}
	weights := map[string]int64{}
	for _, p := range packs.Plugins {
		if !p.Without.Score {
			weights[p.Name()] = p.Weight
		}
		if fit, is := p.Plugin.(place.NodeResourcesFit); is {
			want := place.NodeResourcesFit{
				Strategy: place.MostAllocated, Resources: []place.ResourceWeight{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}}, IgnoredGroups: []string{"example.com"},
			}
			if !reflect.DeepEqual(fit, want) {
				t.Errorf("got %+v, want %+v", fit, want)
			}
		}
	}
	if want := (map[string]int64{"NodeResourcesFit": 5, "ImageLocality": 1}); !reflect.DeepEqual(weights, want) {
		t.Errorf("weights %v, want %v", weights, want)
	}
	for _, p := range usual.Plugins {
		if spread, is := p.Plugin.(place.PodTopologySpread); is && (spread.Defaults == nil || len(spread.Defaults) > 0) {
			t.Errorf("default constraints %#v, want an empty list", spread.Defaults)
		}
	}
}

// TestObjects checks a configuration of Go objects, which Compile does not change.
func TestObjects(t *testing.T) {
	with := func(args runtime.Object) *configv1.KubeSchedulerConfiguration {
		return &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{
			PluginConfig: []configv1.PluginConfig{{Name: "InterPodAffinity", Args: runtime.RawExtension{Object: args}}},
		}}}
	}
	c := with(&configv1.InterPodAffinityArgs{HardPodAffinityWeight: new(int32(0))})
	before := c.DeepCopy()
	got, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, before) {
		t.Errorf("the configuration has changed: %+v", c)
	}
	for _, p := range got.Profiles[corev1.DefaultSchedulerName].Plugins {
		if rules, is := p.Plugin.(place.InterPodAffinity); is && rules.HardPodAffinityWeight != 0 {
			t.Errorf("weight %d, want 0", rules.HardPodAffinityWeight)
		}
	}
	const want = "profiles[0].pluginConfig[0].args: Invalid value: \"*v1.NodeAffinityArgs\": must be a *v1.InterPodAffinityArgs"
	if _, err := Compile(with(&configv1.NodeAffinityArgs{})); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestErrors checks that mistakes, and settings that are not supported, are errors that name the
// field.
func TestErrors(t *testing.T) {
	args := func(plugin, args string) string {
		return "profiles: [{pluginConfig: [{name: " + plugin + ", args: " + args + "}]}]"
	}
	fit := func(strategy string) string { return args("NodeResourcesFit", "{scoringStrategy: "+strategy+"}") }
	plugins := func(plugins string) string { return "profiles: [{plugins: " + plugins + "}]" }
	for text, want := range map[string]string{
		"profile: []":                        `unknown field "profile"`,
		"Profiles: []":                       `unknown field "Profiles"`,
		"parallelism: 1\nparallelism: 2":     `already set in map`,
		"parallelism: 0":                     "parallelism: Invalid value: 0",
		"percentageOfNodesToScore: 101":      "percentageOfNodesToScore: Invalid value: 101",
		"podInitialBackoffSeconds: 0":        "podInitialBackoffSeconds: Invalid value: 0",
		"podInitialBackoffSeconds: 11":       "podMaxBackoffSeconds: Invalid value: 10: must not be less than podInitialBackoffSeconds, 11",
		"extenders: [{urlPrefix: x}]":        `extenders[0].urlPrefix: Invalid value: "x": must be the URL of an HTTP server`,
		"clientConnection: {kubeconfig: x}":  "clientConnection: Forbidden: ",
		"leaderElection: {resourceName: x}":  "leaderElection: Forbidden: ",
		"enableProfiling: true":              "enableProfiling: Forbidden: ",
		"enableContentionProfiling: true":    "enableContentionProfiling: Forbidden: ",
		"delayCacheUntilActive: true":        "delayCacheUntilActive: Forbidden: ",
		"profiles: [{}, {}]":                 "profiles[0].schedulerName: Required value",
		"profiles: [{schedulerName: ''}]":    "profiles[0].schedulerName: Required value",
		"---\napiVersion: v1\nkind: Service": "more than one document",
		"profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]": `profiles[2].schedulerName: Invalid value: "a": profiles[0] has the same name`,
		"profiles: [{percentageOfNodesToScore: -1}]":                             "profiles[0].percentageOfNodesToScore: Invalid value: -1",

		plugins("{multiPoint: {enabled: [{name: Coscheduling}]}}"):                    `profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: "Coscheduling"`,
		plugins("{score: {disabled: [{name: NodeResourceFit}]}}"):                     `profiles[0].plugins.score.disabled[0].name: Unsupported value: "NodeResourceFit"`,
		plugins("{multiPoint: {enabled: [{name: GangScheduling}]}}"):                  `profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "GangScheduling": Kapok does not have`,
		plugins("{filter: {enabled: [{name: ImageLocality}]}}"):                       `profiles[0].plugins.filter.enabled[0].name: Invalid value: "ImageLocality": the plugin has nothing to do at filter`,
		plugins("{score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}"): `profiles[0].plugins.score.enabled[1].name: Duplicate value: "ImageLocality"`,
		plugins("{score: {enabled: [{name: ImageLocality, weight: 0}]}}"):             "profiles[0].plugins.score.enabled[0].weight: Invalid value: 0",
		plugins("{score: {enabled: [{name: ImageLocality, weight: 3000000000}]}}"):    "cannot unmarshal number 3000000000",
		plugins("{preFilter: {disabled: [{name: '*'}]}}"):                             "profiles[0].plugins.preFilter: Forbidden: for plugins of kube-scheduler, is not configured on its own",
		plugins("{permit: {enabled: [{name: NodeName}]}}"):                            "profiles[0].plugins.permit: Forbidden: for plugins of kube-scheduler",
		plugins("{placementScore: {enabled: [{name: NodeName}]}}"):                    "profiles[0].plugins.placementScore: Forbidden: is not configured on its own",
		plugins("{bind: {disabled: [{name: DefaultBinder}]}}"):                        "profiles[0].plugins.bind: Invalid value: \"\": the plugin DefaultBinder must be enabled",
		plugins("{multiPoint: {disabled: [{name: '*'}]}}"):                            "profiles[0].plugins.queueSort: Invalid value: \"\": the plugin PrioritySort must be enabled",

		args("Coscheduling", "{}"):                                                                                                     `profiles[0].pluginConfig[0].name: Unsupported value: "Coscheduling"`,
		args("DynamicResources", "{filterTimeout: -1s}"):                                                                               `profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: "-1s": must be zero or positive`,
		args("DynamicResources", "{bindingTimeout: 10ms}"):                                                                             `profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: "10ms": must be at least 1 second`,
		args("GangScheduling", "{}"):                                                                                                   `profiles[0].pluginConfig[0].name: Invalid value: "GangScheduling": Kapok does not have`,
		args("NodeName", "{}"):                                                                                                         `profiles[0].pluginConfig[0].name: Invalid value: "NodeName": the plugin has no arguments`,
		args("NodeResourcesFit", "{ignored: []}"):                                                                                      `unknown field "ignored"`,
		args("NodeResourcesFit", "{kind: NodeAffinityArgs}"):                                                                           `profiles[0].pluginConfig[0].args.kind: Invalid value: "NodeAffinityArgs": must be NodeResourcesFitArgs`,
		args("NodeResourcesFit", "{ignoredResourceGroups: [a/b]}"):                                                                     `profiles[0].pluginConfig[0].args.ignoredResourceGroups[0]: Invalid value: "a/b"`,
		args("NodeResourcesFit", "{ignoredResources: ['a b']}"):                                                                        `profiles[0].pluginConfig[0].args.ignoredResources[0]: Invalid value: "a b"`,
		args("NodeAffinity", "{apiVersion: v1}"):                                                                                       `profiles[0].pluginConfig[0].args.apiVersion: Invalid value: "v1"`,
		args("VolumeBinding", "{bindTimeoutSeconds: 60}"):                                                                              "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Forbidden: there is no time limit",
		args("VolumeBinding", "{shape: [{utilization: 101, score: 1}]}"):                                                               "profiles[0].pluginConfig[0].args.shape[0].utilization: Invalid value: 101",
		args("InterPodAffinity", "{hardPodAffinityWeight: 101}"):                                                                       "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: must be from 0 to 100",
		args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"):                                    "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 0",
		args("DefaultPreemption", "{minCandidateNodesAbsolute: -1}"):                                                                   "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1",
		args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}"):                                               "profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1",
		args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: cpu}]}"):                                             `profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu"`,
		args("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}"):         `profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "": must be List`,
		args("PodTopologySpread", "{defaultingType: None}"):                                                                            `profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: "None"`,
		args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}"): "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0",
		args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a}]}"):                        `profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: ""`,
		args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}"):  "profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden",
		args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}}"): `nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Is"`,

		fit("{type: Most}"): `profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Most"`,
		fit("{type: MostAllocated, resources: [{name: cpu, weight: 101}]}"):                                                                  "scoringStrategy.resources[0].weight: Invalid value: 101: must be from 1 to 100",
		fit("{type: MostAllocated, requestedToCapacityRatio: {}}"):                                                                           "scoringStrategy.requestedToCapacityRatio: Forbidden",
		fit("{type: RequestedToCapacityRatio}"):                                                                                              "scoringStrategy.requestedToCapacityRatio: Required value",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}"):                                                       "requestedToCapacityRatio.shape: Required value",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 101, score: 1}]}}"):                           "shape[0].utilization: Invalid value: 101",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 1, score: 11}]}}"):                            "shape[0].score: Invalid value: 11: must be from 0 to 10",
		fit("{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 5, score: 1}, {utilization: 5, score: 2}]}}"): "shape[1].utilization: Invalid value: 5: must be greater than that of the point before",
	} {
		if _, err := compile(t, head+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v\nwant  %s", text, err, want)
		}
	}
	for _, text := range []string{"", "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n", "apiVersion: v1\nkind: Pod\n"} {
		if _, err := compile(t, text); err == nil || !strings.Contains(err.Error(), "must be kubescheduler.config.k8s.io/v1, KubeSchedulerConfiguration") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
