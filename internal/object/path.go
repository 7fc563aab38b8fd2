package object

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is the name under which kube-apiserver keeps an object in etcd, below its
// prefix (/registry by default): resource/namespace/name for the kinds that it has
// built in, group/resource/namespace/name for all others. It occurs in messages
// and in what encryption at rest is bound to.
func (k Key) Path() string {
	path := ResourcePath(k.Resource)
	if k.Namespace != "" {
		path += k.Namespace + "/"
	}
	return path + k.Name
}

// ResourcePath is the prefix of the Path of all objects of a resource. It ends
// with a slash.
func ResourcePath(r schema.GroupResource) string {
	if prefix, ok := oldPaths[r]; ok {
		return "/" + prefix + "/"
	}
	if r.Group != "" && builtinGroups[r.Resource] != r.Group {
		return "/" + r.Group + "/" + r.Resource + "/"
	}
	return "/" + r.Resource + "/"
}

// ParsePath is the inverse of Key.Path. It refuses names that no object has: of
// what kube-apiserver keeps in etcd besides objects.
func ParsePath(path string) (Key, error) {
	for resource, old := range oldPaths {
		if rest, ok := strings.CutPrefix(path, "/"+old+"/"); ok {
			return keyIn(resource, rest, path)
		}
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !strings.Contains(first, ".") { // groups of other kinds have a dot
		group, ok := builtinGroups[first]
		if !ok || first == "ranges" && rest != "servicenodeports" {
			return Key{}, fmt.Errorf("%q is no object's: no kind is kept under /%s", path, first)
		}
		return keyIn(schema.GroupResource{Group: group, Resource: first}, rest, path)
	}
	resource, rest, _ := strings.Cut(rest, "/")
	return keyIn(schema.GroupResource{Group: first, Resource: resource}, rest, path)
}

func keyIn(resource schema.GroupResource, rest, path string) (Key, error) {
	namespace, name, ok := strings.Cut(rest, "/")
	if !ok {
		namespace, name = "", namespace
	}
	if resource.Resource == "" || name == "" || ok && namespace == "" || strings.Contains(name, "/") {
		return Key{}, fmt.Errorf("%q is no object's", path)
	}
	return Key{Resource: resource, Namespace: namespace, Name: name}, nil
}

// oldPaths are resources that are kept under the names they had once.
var oldPaths = map[schema.GroupResource]string{
	{Resource: "nodes"}:                                 "minions",
	{Resource: "services"}:                              "services/specs",
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "replicationcontrollers"}:                "controllers",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// builtinGroups are the groups of the resources that kube-apiserver has built in
// and keeps without their group.
var builtinGroups = map[string]string{
	"bindings": "", "configmaps": "", "events": "", "limitranges": "", "namespaces": "",
	"persistentvolumeclaims": "", "persistentvolumes": "", "pods": "", "podtemplates": "", "resourcequotas": "",
	"secrets": "", "serviceaccounts": "",
	"ranges": "", // the node ports of services, and nothing else; no kind is served from there

	"controllerrevisions": "apps", "daemonsets": "apps", "deployments": "apps", "replicasets": "apps", "statefulsets": "apps",

	"horizontalpodautoscalers": "autoscaling",
	"cronjobs":                 "batch", "jobs": "batch",
	"certificatesigningrequests": "certificates.k8s.io", "clustertrustbundles": "certificates.k8s.io", "podcertificaterequests": "certificates.k8s.io",
	"leases": "coordination.k8s.io", "leasecandidates": "coordination.k8s.io",
	"endpointslices": "discovery.k8s.io",
	"flowschemas":    "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations": "flowcontrol.apiserver.k8s.io",
	"ingressclasses": "networking.k8s.io", "ipaddresses": "networking.k8s.io", "networkpolicies": "networking.k8s.io", "servicecidrs": "networking.k8s.io",
	"runtimeclasses":       "node.k8s.io",
	"poddisruptionbudgets": "policy",
	"clusterroles":         "rbac.authorization.k8s.io", "clusterrolebindings": "rbac.authorization.k8s.io", "roles": "rbac.authorization.k8s.io", "rolebindings": "rbac.authorization.k8s.io",
	"deviceclasses": "resource.k8s.io", "resourceclaims": "resource.k8s.io", "resourceclaimtemplates": "resource.k8s.io", "resourceslices": "resource.k8s.io", "devicetaintrules": "resource.k8s.io",
	"priorityclasses": "scheduling.k8s.io",
	"csidrivers":      "storage.k8s.io", "csinodes": "storage.k8s.io", "csistoragecapacities": "storage.k8s.io", "storageclasses": "storage.k8s.io",
	"volumeattachments": "storage.k8s.io", "volumeattributesclasses": "storage.k8s.io",
	"storageversionmigrations": "storagemigration.k8s.io", "storageversions": "internal.apiserver.k8s.io",
	"mutatingadmissionpolicies": "admissionregistration.k8s.io", "mutatingadmissionpolicybindings": "admissionregistration.k8s.io",
	"mutatingwebhookconfigurations": "admissionregistration.k8s.io", "validatingadmissionpolicies": "admissionregistration.k8s.io",
	"validatingadmissionpolicybindings": "admissionregistration.k8s.io", "validatingwebhookconfigurations": "admissionregistration.k8s.io",
}
