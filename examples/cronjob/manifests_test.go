package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// manifest decodes the documents of a generated manifest into objects, one after the other.
func manifest(t *testing.T, path string, into ...any) {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for _, o := range into {
		if err := decoder.Decode(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("%s has more documents than expected, or %v", path, err)
	}
}

// TestCRD: what the markers and the comments of the types say is in the definition.
func TestCRD(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	manifest(t, "manifests/crd/batch.tutorial.kubebuilder.io_cronjobs.yaml", &crd)
	version := crd.Spec.Versions[0]
	if version.Subresources == nil || version.Subresources.Status == nil {
		t.Error("no status subresource")
	}
	root := version.Schema.OpenAPIV3Schema
	if want := "CronJob makes jobs at scheduled times."; root.Description != want {
		t.Errorf("the kind is described as %q", root.Description)
	}
	spec := root.Properties["spec"]
	if !slices.Equal(spec.Required, []string{"jobTemplate", "schedule"}) {
		t.Errorf("required are %v", spec.Required)
	}
	for _, name := range []string{"startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"} {
		if least := spec.Properties[name].Minimum; least == nil || *least != 0 {
			t.Errorf("the minimum of %s is %v", name, least)
		}
		if spec.Properties[name].Description == "" {
			t.Errorf("%s is not described", name)
		}
	}
	if least := spec.Properties["schedule"].MinLength; least == nil || *least != 0 {
		t.Errorf("the least length of a schedule is %v", least)
	}
	var policies []string
	for _, v := range spec.Properties["concurrencyPolicy"].Enum {
		policies = append(policies, string(v.Raw))
	}
	if !slices.Equal(policies, []string{`"Allow"`, `"Forbid"`, `"Replace"`}) {
		t.Errorf("policies are %v", policies)
	}
	if template := spec.Properties["jobTemplate"]; len(template.Properties["metadata"].Properties) == 0 {
		t.Error("labels and annotations of jobs would be dropped")
	}
}

func TestRole(t *testing.T) {
	var role rbacv1.ClusterRole
	manifest(t, "manifests/rbac/role.yaml", &role)
	all := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	got := map[string][]string{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				got[group+"/"+resource] = rule.Verbs
			}
		}
	}
	want := map[string][]string{
		"batch/jobs":                                        all,
		"batch/jobs/status":                                 {"get"},
		"batch.tutorial.kubebuilder.io/cronjobs":            all,
		"batch.tutorial.kubebuilder.io/cronjobs/status":     {"get", "patch", "update"},
		"batch.tutorial.kubebuilder.io/cronjobs/finalizers": {"update"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWebhookConfigurations(t *testing.T) {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	manifest(t, "manifests/webhook/manifests.yaml", &mutating, &validating)

	m, v := mutating.Webhooks[0], validating.Webhooks[0]
	rule := func(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"batch.tutorial.kubebuilder.io"}, APIVersions: []string{"v1"}, Resources: []string{"cronjobs"}}}}
	}
	if m.Name != "mcronjob.kb.io" || *m.ClientConfig.Service.Path != mutatePath ||
		*m.FailurePolicy != admissionregistrationv1.Fail || *m.SideEffects != admissionregistrationv1.SideEffectClassNone {
		t.Errorf("the mutating webhook is %v", m)
	}
	if diff := cmp.Diff(rule("CREATE", "UPDATE"), m.Rules); diff != "" {
		t.Error(diff)
	}
	if v.Name != "vcronjob.kb.io" || *v.ClientConfig.Service.Path != validatePath ||
		*v.FailurePolicy != admissionregistrationv1.Fail || *v.SideEffects != admissionregistrationv1.SideEffectClassNone {
		t.Errorf("the validating webhook is %v", v)
	}
	if diff := cmp.Diff(rule("CREATE", "UPDATE", "DELETE"), v.Rules); diff != "" {
		t.Error(diff)
	}
}
