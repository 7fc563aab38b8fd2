package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission/plugins"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const staticPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'no'", message: not this name}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: names.static.k8s.io}
spec: {policyName: names.static.k8s.io, validationActions: [Deny]}
`

// TestAdmissionManifests checks that policies of a directory are enforced although the API does not
// have them, that an invalid one keeps the server from starting, and that the feature can be off.
func TestAdmissionManifests(t *testing.T) {
	dir := t.TempDir()
	manifests := filepath.Join(dir, "policies")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Admission: plugins.Options{ConfigFile: filepath.Join(dir, "admission.yaml")}}
	write(o.Admission.ConfigFile, `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionPolicy
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration, staticManifestsDir: `+manifests+`}
`)
	write(filepath.Join(manifests, "names.yaml"), staticPolicy)
	s := start(t, o)
	c := kubernetes.NewForConfigOrDie(s.Config())
	_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "no"}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'names.static.k8s.io' with binding 'names.static.k8s.io' denied request: not this name") {
		t.Errorf("got %v, want the refusal of the policy", err)
	}
	if all, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("the API has %v, %v", all, err)
	}
	const metric = `apiserver_manifest_admission_config_controller_automatic_reloads_total{apiserver_id_hash="",plugin="ValidatingAdmissionPolicy",status="success"} 1`
	if _, body := get(t, client(t, s.Config()), s.Config().Host+"/metrics"); !strings.Contains(body, metric) {
		t.Errorf("/metrics has no %s", metric)
	}

	off := o
	off.EmulatedVersion = "1.36"
	if _, err := Start(t.Context(), off); err == nil || !strings.Contains(err.Error(), "requires the ManifestBasedAdmissionControlConfig feature gate to be enabled") {
		t.Errorf("in 1.36: %v", err)
	}
	write(filepath.Join(manifests, "names.yaml"), strings.Replace(staticPolicy, "!=", "!", 1))
	const invalid = `names.yaml: ValidatingAdmissionPolicy "names.static.k8s.io": spec.validations[0].expression: Invalid value`
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), invalid) {
		t.Errorf("an invalid expression: %v", err)
	}
}
