package server

import (
	"strings"
	"testing"
)

// TestFeatureGates checks gates that switch pages off, and that others are rejected.
func TestFeatureGates(t *testing.T) {
	s := start(t, Options{Flags: map[string]string{"a": "b"}, FeatureGates: map[string]bool{"ComponentFlagz": false, "ComponentStatusz": false, "PodsAPI": true}})
	c := client(t, s.Config())
	for _, path := range []string{"/flagz", "/statusz"} {
		if code, body := get(t, c, s.Config().Host+path); code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	other := start(t, Options{Flags: map[string]string{"a": "b"}})
	c = client(t, other.Config())
	for _, path := range []string{"/flagz", "/statusz"} {
		if code, body := get(t, c, other.Config().Host+path); code != 200 {
			t.Errorf("%s by default: %d %s", path, code, body)
		}
	}
	o := Options{FeatureGates: map[string]bool{"PodsAPI": false}}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "Options.FeatureGates: feature gate PodsAPI=false is not supported") {
		t.Errorf("a gate that has no effect: %v", err)
	}
}

// TestEmulatedVersion checks what a server says that behaves as an earlier release.
func TestEmulatedVersion(t *testing.T) {
	s := start(t, Options{EmulatedVersion: "1.35", Flags: map[string]string{"a": "b"}, FeatureGates: map[string]bool{"ComponentStatusz": true}})
	c := client(t, s.Config())
	if code, body := get(t, c, s.Config().Host+"/version"); code != 200 || !strings.Contains(body, `"emulationMinor": "35"`) || !strings.Contains(body, `"minor": "37"`) {
		t.Errorf("/version: %d %s", code, body)
	}
	if code, body := get(t, c, s.Config().Host+"/statusz"); code != 200 || !strings.Contains(body, "Emulation version: 1.35\n") {
		t.Errorf("/statusz, which a gate turns on: %d %s", code, body)
	}
	if code, _ := get(t, c, s.Config().Host+"/flagz"); code != 404 {
		t.Errorf("/flagz, whose gate is off in 1.35: %d", code)
	}
	if _, body := get(t, c, s.Config().Host+"/metrics"); !strings.Contains(body, `version_info{binary="1.37.2",component="kube",emulation="1.35",min_compat="1.34"} 1`) ||
		!strings.Contains(body, `kubernetes_feature_enabled{name="ComponentFlagz",stage="ALPHA"} 0`) || !strings.Contains(body, `kubernetes_feature_enabled{name="ComponentStatusz",stage="ALPHA"} 1`) {
		t.Errorf("/metrics: %d bytes", len(body))
	}
	o := Options{EmulatedVersion: "1.33"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `Options.EmulatedVersion: "1.33" is not a release that can be emulated`) {
		t.Errorf("1.33: %v", err)
	}
	o = Options{EmulatedVersion: "1.34", FeatureGates: map[string]bool{"NodeDeclaredFeatures": true}}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "does not exist in Kubernetes 1.34") {
		t.Errorf("a gate of a later release: %v", err)
	}
}

// TestPluginsOfFeatures checks that admission plugins of features that are off do not run.
func TestPluginsOfFeatures(t *testing.T) {
	for _, tc := range []struct {
		options Options
		plugin  string
		on      bool
	}{
		{Options{}, "PodTopologyLabels", true},
		{Options{EmulatedVersion: "1.34"}, "PodTopologyLabels", false},
		{Options{EmulatedVersion: "1.35"}, "PodTopologyLabels", true},
		{Options{FeatureGates: map[string]bool{"PodTopologyLabelsAdmission": false}}, "PodTopologyLabels", false},
		{Options{EmulatedVersion: "1.35"}, "MutatingAdmissionPolicy", false},
		{Options{EmulatedVersion: "1.36"}, "MutatingAdmissionPolicy", true},
		{Options{EmulatedVersion: "1.34"}, "ValidatingAdmissionPolicy", true},
	} {
		if selected := tc.options.plugins(); selected.On(tc.plugin) != tc.on {
			t.Errorf("%s is %t with %q and %v", tc.plugin, !tc.on, tc.options.EmulatedVersion, tc.options.FeatureGates)
		}
	}
}
