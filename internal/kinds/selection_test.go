package kinds

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served returns the versions that a selection leaves, as GROUP/VERSION/RESOURCE.
func served(t *testing.T, s Selection) []string {
	definitions := WithRetired()
	if err := s.Apply(definitions); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range definitions {
		for _, v := range d.Versions {
			all = append(all, keyOf(d.GroupVersion(v))+"/"+d.Plural)
		}
		for _, v := range d.Unserved {
			if gv := d.GroupVersion(v); d.AnyVersion(gv) != v {
				t.Errorf("%s of %s is lost", gv, d.Plural)
			}
		}
	}
	return all
}

func TestSelection(t *testing.T) {
	all := served(t, nil)
	for _, tt := range []struct {
		name      string
		selection Selection
		serves    func(version, resource string) bool
	}{
		{"nothing", Selection{"api/all": false}, func(string, string) bool { return false }},
		{"a version", Selection{"batch/v1": false}, func(version, _ string) bool { return version != "batch/v1" }},
		{"a resource", Selection{"batch/v1/cronjobs": false}, func(version, resource string) bool { return version+"/"+resource != "batch/v1/cronjobs" }},
		{"the core group", Selection{"api/v1": false}, func(version, _ string) bool { return version != "api/v1" }},
		{"a resource of a version that is off", Selection{"apps/v1": false, "apps/v1/deployments": true}, func(version, resource string) bool {
			return version != "apps/v1" || resource == "deployments"
		}},
		{"only one version", Selection{"api/all": false, "apps/v1": true}, func(version, _ string) bool { return version == "apps/v1" }},
		{"no betas", Selection{"api/beta": false}, func(version, _ string) bool { return !strings.Contains(version, "beta") }},
		{"only stable versions", Selection{"api/all": false, "api/ga": true}, func(version, _ string) bool {
			return !strings.Contains(version, "beta") && !strings.Contains(version, "alpha")
		}},
		{"a beta", Selection{"api/beta": false, "apps/v1beta1": true}, func(version, _ string) bool {
			return version == "apps/v1beta1" || !strings.Contains(version, "beta")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			for _, one := range all {
				i := strings.LastIndexByte(one, '/')
				if tt.serves(one[:i], one[i+1:]) {
					want = append(want, one)
				}
			}
			if got := served(t, tt.selection); !slices.Equal(got, want) {
				t.Errorf("served %v, want %v", got, want)
			}
		})
	}
	if again := served(t, nil); !slices.Equal(again, all) {
		t.Error("a selection has changed what other servers serve")
	}
}

func TestSelectionOfUnknown(t *testing.T) {
	for key, want := range map[string]string{
		"batch":           "want api/all, api/ga",
		"batch/v1/a/b":    "want api/all, api/ga",
		"":                "want api/all, api/ga",
		"batch/v7":        "the server has no version batch/v7; it has admissionregistration.k8s.io/v1",
		"v1":              "want api/all",
		"batch/v1/things": "batch/v1 has no resource things",
	} {
		s := Selection{key: true}
		if err := s.Apply(Definitions()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", key, err, want)
		}
		if known := s.Known(Definitions()); len(known) > 0 {
			t.Errorf("%q is known", key)
		}
	}
	if known := (Selection{"api/all": true, "batch/v1": false, "api/v1/pods": true}).Known(Definitions()); len(known) != 3 {
		t.Errorf("known: %v", known)
	}
	if key := keyOf(schema.GroupVersion{Version: "v1"}); key != "api/v1" {
		t.Errorf("key of the core group: %s", key)
	}
}
