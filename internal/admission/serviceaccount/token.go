package serviceaccount

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// The mount path of the token, and the prefix of the volume's name.
const (
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume = "kube-api-access-"
)

// wantsToken reports whether a pod gets a token. The pod's setting overrides that of its account.
func wantsToken(spec, account resource.Tree) bool {
	for _, obj := range []resource.Tree{spec, account} {
		if wants, ok := obj["automountServiceAccountToken"].(bool); ok {
			return wants
		}
	}
	return true
}

// mountToken adds a volume with a token to a pod, and mounts it in its containers, except for those
// that mount another volume at that path.
func mountToken(spec resource.Tree) {
	name, has := "", false
	for _, volume := range maps(spec, "volumes") {
		if has = strings.HasPrefix(text(volume, "name"), tokenVolume); has {
			name = text(volume, "name")
			break
		}
	}
	if !has {
		name = tokenVolume + utilrand.String(5)
	}
	needed := false
	for _, field := range []string{"initContainers", "containers"} {
		for _, container := range maps(spec, field) {
			if mounts(container, tokenPath) {
				continue
			}
			container["volumeMounts"] = append(list(container, "volumeMounts"), resource.Tree{"name": name, "readOnly": true, "mountPath": tokenPath})
			needed = true
		}
	}
	if needed && !has {
		spec["volumes"] = append(list(spec, "volumes"), tokenSource(name))
	}
}

func mounts(container resource.Tree, path string) bool {
	for _, mount := range maps(container, "volumeMounts") {
		if text(mount, "mountPath") == path {
			return true
		}
	}
	return false
}

// tokenSource returns the volume with the token, the authority of the server and the name of the
// namespace.
func tokenSource(name string) resource.Tree {
	return resource.Tree{
		"name": name,
		"projected": resource.Tree{
			"defaultMode": int64(0o644),
			"sources": []any{
				resource.Tree{"serviceAccountToken": resource.Tree{"expirationSeconds": int64(3607), "path": "token"}},
				resource.Tree{"configMap": resource.Tree{
					"name":  "kube-root-ca.crt",
					"items": []any{resource.Tree{"key": "ca.crt", "path": "ca.crt"}},
				}},
				resource.Tree{"downwardAPI": resource.Tree{"items": []any{resource.Tree{
					"path":     "namespace",
					"fieldRef": resource.Tree{"apiVersion": "v1", "fieldPath": "metadata.namespace"},
				}}}},
			},
		},
	}
}
