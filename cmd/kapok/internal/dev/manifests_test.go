package dev

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRead checks what becomes of the manifests of a project.
func TestRead(t *testing.T) {
	d := &dev{webhookPort: 1234, webhookCA: "Q0E="}
	m, err := d.read([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: v}
webhooks:
- name: a
  clientConfig: {service: {name: s, namespace: system, path: /validate}}
- name: b
  clientConfig: {url: "https://example.com"}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: system}
spec:
  template:
    spec:
      serviceAccountName: account
      containers:
      - name: manager
        env:
        - {name: A, value: b}
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s, namespace: system}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: system}
`))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	urls := map[string]string{}
	for _, u := range m.objects {
		kinds = append(kinds, u.GetKind())
		if config, ok, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
			urls["conversion"], _ = config["url"].(string)
		}
		list, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		for _, webhook := range list {
			w := webhook.(map[string]any)
			config := w["clientConfig"].(map[string]any)
			urls[w["name"].(string)], _ = config["url"].(string)
		}
	}
	if want := []string{"Namespace", "CustomResourceDefinition", "Service", "ValidatingWebhookConfiguration"}; !slices.Equal(kinds, want) {
		t.Errorf("the kinds are %q, want %q", kinds, want)
	}
	for name, want := range map[string]string{
		"a": "https://127.0.0.1:1234/validate", "b": "https://example.com", "conversion": "https://127.0.0.1:1234/",
	} {
		if urls[name] != want {
			t.Errorf("%s is called at %q, want %q", name, urls[name], want)
		}
	}
	if m.namespace != "system" || m.account != "account" || !slices.Equal(m.env, []string{"A=b", "NAMESPACE=system"}) {
		t.Errorf("the operator is %s/%s with %q", m.namespace, m.account, m.env)
	}
}
