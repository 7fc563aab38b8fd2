package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestArchiveRule(t *testing.T) {
	for _, text := range []string{"deployments.apps/shop=720h0m0s", "configmaps=24h0m0s", "*=1h0m0s", "*.apps=1s", "*/shop=1s", "configmaps/shop=0s"} {
		r, err := ParseArchiveRule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if r.String() != text {
			t.Errorf("%s became %s", text, r)
		}
	}
	for text, want := range map[string]string{
		"":                "has no time",
		"configmaps":      "has no time",
		"configmaps=":     "invalid duration",
		"configmaps=1":    "missing unit",
		"configmaps=-1h":  "from 0 to",
		"configmaps=9e9h": "unknown unit",
		"=1h":             "resource is missing",
		"/shop=1h":        "resource is missing",
		"configmaps/=1h":  "namespace after the slash is missing",
		"a/b/c=1h":        "names",
		"ConfigMaps=1h":   "plural of a kind in lower case",
		"a b=1h":          "names",
	} {
		if r, err := ParseArchiveRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, r, err, want)
		}
	}
}

// TestArchiveKeep: the first rule that matches applies.
func TestArchiveKeep(t *testing.T) {
	var a Archive
	for _, text := range []string{"leases.coordination.k8s.io=0s", "deployments.apps/shop=3h", "deployments.apps=2h", "*.apps=90m", "*=1h"} {
		r, err := ParseArchiveRule(text)
		if err != nil {
			t.Fatal(err)
		}
		a.Rules = append(a.Rules, r)
	}
	for _, test := range []struct {
		resource, namespace string
		want                time.Duration
	}{
		{"leases.coordination.k8s.io", "shop", 0},
		{"deployments.apps", "shop", 3 * time.Hour},
		{"deployments.apps", "other", 2 * time.Hour},
		{"replicasets.apps", "shop", 90 * time.Minute},
		{"configmaps", "shop", time.Hour},
		{"nodes", "", time.Hour},
	} {
		key := object.Key{Resource: schema.ParseGroupResource(test.resource), Namespace: test.namespace, Name: "a"}
		if got := a.Keep(key); got != test.want {
			t.Errorf("%s: %v, want %v", key, got, test.want)
		}
	}
	if got := (&Archive{}).Keep(object.Key{}); got != 0 {
		t.Errorf("without rules: %v", got)
	}
}
