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
