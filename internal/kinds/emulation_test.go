package kinds

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/resource"

	"sigs.k8s.io/yaml"
)

// TestFeatures checks that each field of a feature exists, and that its gate is followed.
func TestFeatures(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, d := range Definitions() {
		types[d.GroupResource().String()] = reflect.TypeOf(d.Versions[0].Model.New()).Elem()
	}
	followed := gates.Followed()
	for _, f := range features() {
		if !slices.Contains(followed, f.gate) {
			t.Errorf("%s is not followed", f.gate)
		}
		at, below := f.resource, ""
		if at == podSpecs {
			at, below = "pods", "spec."
		}
		for _, field := range f.fields {
			if err := find(types[at], strings.Split(below+field, ".")); err != nil {
				t.Errorf("%s: %s of %s: %v", f.gate, field, at, err)
			}
		}
	}
	for name, path := range podSpecPaths() {
		if err := find(types[name], strings.Split(path+".containers", ".")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// find returns an error unless a type has a field at a path.
func find(in reflect.Type, path []string) error {
	if in == nil {
		return fmt.Errorf("there is no such type")
	}
	for _, key := range path {
		key, list := strings.CutSuffix(key, "[]")
		key, values := strings.CutSuffix(key, "{}")
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		if in.Kind() != reflect.Struct {
			return fmt.Errorf("%s is not a struct", in)
		}
		i := slices.IndexFunc(reflect.VisibleFields(in), func(f reflect.StructField) bool {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return name == key
		})
		if i < 0 {
			return fmt.Errorf("%s has no field %s", in, key)
		}
		in = reflect.VisibleFields(in)[i].Type
		if list && in.Kind() != reflect.Slice || values && in.Kind() != reflect.Map {
			return fmt.Errorf("%s is a %s", key, in.Kind())
		}
		if list || values {
			in = in.Elem()
		}
	}
	return nil
}

// written returns what of an object is written with settings: PrepareCreate without old, or else
// PrepareUpdate.
func written(t *testing.T, s gates.Settings, plural, obj, old string) resource.Tree {
	t.Helper()
	definitions := Definitions()
	Emulate(definitions, s)
	i := slices.IndexFunc(definitions, func(d *resource.Definition) bool { return d.Plural == plural && d.Group != "events.k8s.io" })
	d := definitions[i]
	parse := func(text string) resource.Tree {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := d.Storage.Model.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	tree := parse(obj)
	if old == "" {
		d.Strategy.PrepareCreate(tree)
	} else {
		d.Strategy.PrepareUpdate(tree, parse(old))
	}
	return tree
}

func TestFieldsAreLost(t *testing.T) {
	const (
		empty  = `{metadata: {name: a}, spec: {containers: [{name: c}]}}`
		envs   = `{metadata: {name: a}, spec: {containers: [{name: c}, {name: d, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}}`
		images = `{metadata: {name: a}, spec: {containers: [{name: c, volumeMounts: [{name: i, mountPath: /i}, {name: e, mountPath: /e}]}, {name: d, volumeMounts: [{name: i, mountPath: /i}]}],
			volumes: [{name: i, image: {reference: r}}, {name: e, emptyDir: {}}]}}`
		restarts = `{metadata: {name: a}, spec: {initContainers: [{name: s, restartPolicy: Always}, {name: i, restartPolicy: Never}], containers: [{name: c, restartPolicy: Never, restartPolicyRules: [{action: Restart}]}]}}`
		scaler   = `{metadata: {name: a, generation: 4}, spec: {maxReplicas: 3, behavior: {scaleUp: {tolerance: "0.1"}, scaleDown: {tolerance: "0.2"}}}}`
		slice    = `{metadata: {name: a}, spec: {devices: [{name: a}, {name: b, allowMultipleAllocations: true, capacity: {x: {value: "1", requestPolicy: {default: "1"}}}}]}}`
	)
	for _, tc := range []struct {
		gate, plural string
		obj, old     string
		has, lacks   string // words of the result
	}{
		{gates.EnvFiles, "pods", envs, "", "", "fileKeyRef"},
		{gates.EnvFiles, "pods", envs, empty, "", "fileKeyRef"},
		{gates.EnvFiles, "pods", envs, envs, "fileKeyRef", ""},
		{gates.ImageVolume, "pods", images, "", "name:e", "/i"},
		{gates.ImageVolume, "pods", images, empty, "name:e", "/i"},
		{gates.ImageVolume, "pods", images, images, "reference:r", ""},
		{gates.ContainerRestartRules, "pods", restarts, "", "restartPolicy:Always terminationMessagePath", "restartPolicyRules"},
		{gates.ContainerRestartRules, "pods", restarts, empty, "", "restartPolicy:Never"},
		{gates.ContainerRestartRules, "pods", restarts, restarts, "restartPolicyRules", ""},
		{gates.HPAConfigurableTolerance, "horizontalpodautoscalers", scaler, "", "scaleUp", "tolerance"},
		{gates.HPAConfigurableTolerance, "horizontalpodautoscalers", scaler, scaler, "tolerance", ""},
		{gates.HPAGeneration, "horizontalpodautoscalers", scaler, "", "generation:4", ""},
		{gates.HPAGeneration, "horizontalpodautoscalers", strings.ReplaceAll(scaler, "3", "5"), scaler, "generation:4", ""},
		{gates.HPAGeneration, "horizontalpodautoscalers", strings.ReplaceAll(scaler, ", generation: 4", ""), "", "", "generation"},
		{gates.DRAConsumableCapacity, "resourceslices", slice, "", "name:b", "requestPolicy"},
		{gates.DRAConsumableCapacity, "resourceslices", slice, "", "value:1", "allowMultipleAllocations"},
		{gates.DRAConsumableCapacity, "resourceslices", slice, slice, "requestPolicy", ""},
		{"", "pods", envs, "", "fileKeyRef", ""},
		{"", "pods", images, "", "reference:r", ""},
		{"", "horizontalpodautoscalers", scaler, "", "generation:1", ""},
	} {
		settings := gates.Settings{Release: emulation.Newest}
		if tc.gate != "" {
			settings.Set = map[string]bool{tc.gate: false}
		}
		got := fmt.Sprint(written(t, settings, tc.plural, tc.obj, tc.old))
		if !strings.Contains(got, tc.has) || tc.lacks != "" && strings.Contains(got, tc.lacks) {
			t.Errorf("%s is off: %s\n  was %s\n  is %s\n  want with %q, without %q", tc.gate, tc.obj, tc.old, got, tc.has, tc.lacks)
		}
	}
}

// TestNothingIsLost checks that objects are written as always where no gate is off.
func TestNothingIsLost(t *testing.T) {
	plain, same := Definitions(), Definitions()
	Emulate(same, gates.Settings{Release: emulation.Newest})
	for i, d := range plain {
		if !slices.Equal(d.Versions, same[i].Versions) || d.Storage != same[i].Storage {
			t.Errorf("%s has other versions", d.GroupResource())
		}
		if reflect.ValueOf(d.Strategy.PrepareCreate).Pointer() != reflect.ValueOf(same[i].Strategy.PrepareCreate).Pointer() {
			t.Errorf("%s is created in another way", d.GroupResource())
		}
	}
}

// TestRetiredVersionsOfReleases checks that all kinds can be emulated in all versions that there
// are.
func TestRetiredVersionsOfReleases(t *testing.T) {
	all := WithRetired()
	Emulate(all, gates.Settings{Release: emulation.Oldest})
	for _, d := range all {
		for _, v := range d.Versions {
			if _, typed := v.Model.(resource.TypedModel); !typed {
				t.Errorf("%s does not decode protobuf any more", d.GroupVersionKind(v))
			}
		}
	}
}

// TestVersionsOfReleases checks which versions came after a release.
func TestVersionsOfReleases(t *testing.T) {
	all := func(r emulation.Release) map[string]bool {
		definitions := Definitions()
		Emulate(definitions, gates.Settings{Release: r})
		found := map[string]bool{}
		for _, d := range definitions {
			if len(d.Versions)+len(d.Unserved) == 0 {
				t.Errorf("%s has lost its versions in %s", d.GroupResource(), r)
			}
			for _, v := range d.Versions {
				found[d.GroupVersion(v).String()+" "+d.Plural] = true
			}
		}
		return found
	}
	newest := all(emulation.Newest)
	for r, want := range map[emulation.Release][]string{
		36: {
			"certificates.k8s.io/v1 clustertrustbundles", "certificates.k8s.io/v1 podcertificaterequests", "resource.k8s.io/v1 devicetaintrules",
			"storagemigration.k8s.io/v1 storageversionmigrations",
		},
		35: {
			"admissionregistration.k8s.io/v1 mutatingadmissionpolicies", "admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings",
			"certificates.k8s.io/v1 clustertrustbundles", "certificates.k8s.io/v1 podcertificaterequests", "resource.k8s.io/v1 devicetaintrules",
			"storagemigration.k8s.io/v1 storageversionmigrations",
		},
	} {
		missing := maps.Clone(newest)
		for version := range all(r) {
			if !missing[version] {
				t.Errorf("%s has %s, which 1.37 lacks", r, version)
			}
			delete(missing, version)
		}
		if got := slices.Sorted(maps.Keys(missing)); !slices.Equal(got, want) {
			t.Errorf("%s lacks %q, want %q", r, got, want)
		}
	}
}
