package builtin

import "github.com/kapok-dev/kapok/internal/resource"

// dropGatedFields removes what a spec of pods has for features that are off by default
// in Kubernetes, which does not keep it either.
func dropGatedFields(spec resource.Tree) {
	delete(spec, "schedulingGroup")
	delete(spec, "evictionResponders")
	for _, v := range items(spec, "volumes") {
		drop(v, "emptyDir", "mode")
		for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
			dropFileOwners(v, source)
		}
		for _, s := range items(v, "projected", "sources") {
			for _, source := range []string{"secret", "configMap", "downwardAPI"} {
				dropFileOwners(s, source)
			}
			for _, source := range []string{"serviceAccountToken", "clusterTrustBundle", "podCertificate"} {
				drop(s, source, "user")
			}
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range items(spec, list) {
			for _, mount := range items(c, "volumeMounts") {
				delete(mount, "bindMountOptions")
			}
			for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				drop(c, probe, "httpGet", "protocol")
				drop(c, probe, "grpc", "mode")
			}
			drop(c, "lifecycle", "postStart", "httpGet", "protocol")
			drop(c, "lifecycle", "preStop", "httpGet", "protocol")
			if get(c, "lifecycle", "stopSignal") != nil {
				if drop(c, "lifecycle", "stopSignal"); len(c["lifecycle"].(resource.Tree)) == 0 {
					delete(c, "lifecycle")
				}
			}
		}
	}
}

// dropFileOwners removes from a source of files who is to own them.
func dropFileOwners(volume resource.Tree, source string) {
	drop(volume, source, "defaultUser")
	for _, item := range items(volume, source, "items") {
		delete(item, "user")
	}
}

// items are the objects of a list.
func items(obj resource.Tree, path ...string) []resource.Tree {
	list, _ := get(obj, path...).([]any)
	found := make([]resource.Tree, 0, len(list))
	for _, item := range list {
		if item, ok := item.(resource.Tree); ok {
			found = append(found, item)
		}
	}
	return found
}
