package plugins

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManifests(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	entry := func(plugin, kind, fields string) string {
		return "- {name: " + plugin + ", configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: " + kind + ", " + fields + "}}\n"
	}
	inDir := "staticManifestsDir: '" + dir + "'"
	for _, tc := range []struct {
		name, plugins string
		disable       []string
		off           bool // the feature
		want          map[string]string
		err           string
	}{
		{name: "none"},
		{name: "all", plugins: entry("MutatingAdmissionPolicy", "MutatingAdmissionPolicyConfiguration", inDir) + entry("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", inDir) +
			entry("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", inDir) + entry("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", inDir),
			want: map[string]string{"MutatingAdmissionPolicy": dir, "MutatingAdmissionWebhook": dir, "ValidatingAdmissionPolicy": dir, "ValidatingAdmissionWebhook": dir}},
		{name: "no directory", plugins: entry("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", ""), off: true},
		{name: "a plugin that is off", plugins: entry("MutatingAdmissionPolicy", "MutatingAdmissionPolicyConfiguration", inDir), disable: []string{"MutatingAdmissionPolicy"}},
		{name: "the feature is off", plugins: entry("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", inDir), off: true,
			err: `couldn't init admission plugin "ValidatingAdmissionPolicy": staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate`},
		{name: "another kind", plugins: entry("ValidatingAdmissionPolicy", "WebhookAdmissionConfiguration", inDir),
			err: `kind is "WebhookAdmissionConfiguration" and apiVersion is "apiserver.config.k8s.io/v1": want a ValidatingAdmissionPolicyConfiguration of apiserver.config.k8s.io/v1`},
		{name: "an unknown field", plugins: entry("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", "kubeConfigFile: a"), err: `unknown field "kubeConfigFile"`},
		{name: "credentials", plugins: entry("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", "kubeConfigFile: /a"), err: "kubeConfigFile: Forbidden: Kapok has no credentials for webhooks"},
		{name: "a relative path", plugins: entry("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", "staticManifestsDir: a"),
			err: `staticManifestsDir: Invalid value: "a": must be an absolute file path`},
		{name: "missing", plugins: entry("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", "staticManifestsDir: '"+dir+"/none'"), err: "none\": unable to read: stat "},
		{name: "a file", plugins: entry("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", "staticManifestsDir: '"+file+"'"), err: "must be a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Options{Disable: tc.disable}
			if tc.plugins != "" {
				o.ConfigFile = file
				if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"+tc.plugins), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := o.Manifests(!tc.off)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
