package openapi

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var everything = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

const atSchema = `{
	"type": "object",
	"required": ["spec"],
	"properties": {
		"spec": {
			"type": "object",
			"description": "What is wanted.",
			"required": ["schedule"],
			"properties": {
				"schedule": {"type": "string", "description": "When to run, in UTC."},
				"command": {"type": "string", "default": "true"},
				"port": {"x-kubernetes-int-or-string": true}
			}
		},
		"status": {"type": "object", "nullable": true, "properties": {"phase": {"type": "string"}}}
	}
}`

// at is a custom resource; made counts the calls of its Schema.
func at(fingerprint string, made *atomic.Int32) Resource {
	kind := schema.GroupVersionKind{Group: "cnat.example.com", Version: "v1alpha1", Kind: "At"}
	verbs := []string{"get", "patch", "update"}
	return Resource{
		Group: kind.Group, Version: kind.Version, Plural: "ats", Kind: kind.Kind, ListKind: "AtList", Namespaced: true, Verbs: everything,
		Subresources: []Subresource{
			{Name: "status", Kind: kind, Verbs: verbs},
			{Name: "scale", Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: verbs},
		},
		Custom: &Custom{Fingerprint: fingerprint, Schema: func() ([]byte, error) {
			if made != nil {
				made.Add(1)
			}
			return []byte(atSchema), nil
		}},
	}
}

func builtins() []Resource {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	return []Resource{
		{Version: "v1", Plural: "namespaces", Kind: "Namespace", ListKind: "NamespaceList", Verbs: everything},
		{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", ListKind: "ConfigMapList", Namespaced: true, Verbs: everything},
		{
			Version: "v1", Plural: "pods", Kind: "Pod", ListKind: "PodList", Namespaced: true, Verbs: everything, DeleteAnswersObject: true,
			Subresources: []Subresource{
				{Name: "status", Kind: pod, Verbs: []string{"get", "patch", "update"}},
				{Name: "log", Kind: pod, Verbs: []string{"get"}},
				{Name: "proxy", Kind: schema.GroupVersionKind{Version: "v1", Kind: "PodProxyOptions"}, Verbs: everything},
			},
		},
		{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", ListKind: "DeploymentList", Namespaced: true, Verbs: everything},
	}
}

func snapshotOf(resources ...Resource) *Snapshot {
	return &Snapshot{Version: "v1.37.2+kapok", Resources: append(builtins(), resources...)}
}
