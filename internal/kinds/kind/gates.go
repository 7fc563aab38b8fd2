package kind

import "github.com/kapok-dev/kapok/internal/resource"

// DropGatedFields removes fields from a pod spec whose feature gates are off by default in
// Kubernetes, as kube-apiserver does.
func DropGatedFields(spec resource.Tree) {
	delete(spec, "schedulingGroup")
	delete(spec, "evictionResponders")
	for _, v := range Items(spec, "volumes") {
		Drop(v, "emptyDir", "mode")
		for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
			dropFileOwners(v, source)
		}
		for _, s := range Items(v, "projected", "sources") {
			for _, source := range []string{"secret", "configMap", "downwardAPI"} {
				dropFileOwners(s, source)
			}
			for _, source := range []string{"serviceAccountToken", "clusterTrustBundle", "podCertificate"} {
				Drop(s, source, "user")
			}
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range Items(spec, list) {
			for _, mount := range Items(c, "volumeMounts") {
				delete(mount, "bindMountOptions")
			}
			for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				Drop(c, probe, "httpGet", "protocol")
				Drop(c, probe, "grpc", "mode")
			}
			Drop(c, "lifecycle", "postStart", "httpGet", "protocol")
			Drop(c, "lifecycle", "preStop", "httpGet", "protocol")
			if Get(c, "lifecycle", "stopSignal") != nil {
				if Drop(c, "lifecycle", "stopSignal"); len(c["lifecycle"].(resource.Tree)) == 0 {
					delete(c, "lifecycle")
				}
			}
		}
	}
}

// dropFileOwners removes the owners of files from a volume source.
func dropFileOwners(volume resource.Tree, source string) {
	Drop(volume, source, "defaultUser")
	for _, item := range Items(volume, source, "items") {
		delete(item, "user")
	}
}

// Items returns the elements of a list that are objects.
func Items(obj resource.Tree, path ...string) []resource.Tree {
	list, _ := Get(obj, path...).([]any)
	found := make([]resource.Tree, 0, len(list))
	for _, item := range list {
		if item, ok := item.(resource.Tree); ok {
			found = append(found, item)
		}
	}
	return found
}
