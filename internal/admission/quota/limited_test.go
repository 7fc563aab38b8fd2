package quota

import (
	"strings"
	"testing"
)

func TestReadConfiguration(t *testing.T) {
	for _, tc := range []struct{ text, err string }{
		{"", ""},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration}", ""},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: pods, matchContains: [pods]}]}", ""},
		{"{apiVersion: resourcequota.admission.k8s.io/v1beta1, kind: Configuration, limitedResources: []}", ""},
		{"{apiVersion: resourcequota.admission.k8s.io/v1alpha1, kind: Configuration, limitedResources: []}", ""},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: Configuration}", `kind is "Configuration" and apiVersion is "apiserver.config.k8s.io/v1": want a ResourceQuotaConfiguration of apiserver.config.k8s.io/v1`},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{}]}", "limitedResources[0].resource: Required value"},
		{"{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResource: []}", `unknown field "limitedResource"`},
		{"[", "did not find expected node content"},
	} {
		_, err := ReadConfiguration([]byte(tc.text))
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: %v, want %s", tc.text, err, tc.err)
		}
	}
}
