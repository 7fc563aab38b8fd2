package plugins

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/gates"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// policyConfiguration is ValidatingAdmissionPolicyConfiguration and
// MutatingAdmissionPolicyConfiguration of apiserver.config.k8s.io/v1.
type policyConfiguration struct {
	metav1.TypeMeta    `json:",inline"`
	StaticManifestsDir string `json:"staticManifestsDir"`
}

// webhookConfiguration is WebhookAdmissionConfiguration of apiserver.config.k8s.io/v1.
type webhookConfiguration struct {
	policyConfiguration `json:",inline"`
	KubeConfigFile      string `json:"kubeConfigFile"`
}

// Manifests returns the directories with objects for plugins that are on, by the names of the
// plugins. enabled reports whether the feature is on.
func (o *Options) Manifests(enabled bool) (map[string]string, error) {
	configs, err := o.configurations()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for name, kind := range map[string]string{
		MutatingAdmissionPolicy:    "MutatingAdmissionPolicyConfiguration",
		MutatingAdmissionWebhook:   "WebhookAdmissionConfiguration",
		ValidatingAdmissionPolicy:  "ValidatingAdmissionPolicyConfiguration",
		ValidatingAdmissionWebhook: "WebhookAdmissionConfiguration",
	} {
		if configs[name] == nil {
			continue
		}
		dir, err := manifestsDir(configs[name], kind, enabled)
		if err != nil {
			return nil, fmt.Errorf("couldn't init admission plugin %q: %w", name, err)
		}
		if dir != "" && o.On(name) {
			dirs[name] = dir
		}
	}
	return dirs, nil
}

// manifestsDir returns the directory in the configuration of a plugin; "" for none.
func manifestsDir(config []byte, kind string, enabled bool) (string, error) {
	gvk := apiserverv1.SchemeGroupVersion.WithKind(kind)
	var c webhookConfiguration
	into := any(&c.policyConfiguration)
	if kind == "WebhookAdmissionConfiguration" {
		into = &c
	}
	if err := admission.DecodeConfiguration(config, into, gvk); err != nil {
		return "", err
	}
	if c.KubeConfigFile != "" {
		return "", field.Forbidden(field.NewPath("kubeConfigFile"), "Kapok has no credentials for webhooks")
	}
	dir, at := c.StaticManifestsDir, field.NewPath("staticManifestsDir")
	switch {
	case dir == "":
		return "", nil
	case !enabled:
		return "", field.Forbidden(at, "staticManifestsDir requires the "+gates.ManifestBasedAdmission+" feature gate to be enabled")
	case !filepath.IsAbs(dir):
		return "", field.Invalid(at, dir, "must be an absolute file path")
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", field.Invalid(at, dir, fmt.Sprintf("unable to read: %v", err))
	case !info.IsDir():
		return "", field.Invalid(at, dir, "must be a directory")
	}
	return dir, nil
}
