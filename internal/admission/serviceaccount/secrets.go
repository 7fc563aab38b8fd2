package serviceaccount

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/resource"
)

// judgeSecrets returns an error message about a secret that a pod uses and its account does not
// name; "" if there is none.
func judgeSecrets(spec, account resource.Tree) string {
	allowed := names(account, "secrets")
	for _, volume := range maps(spec, "volumes") {
		source, ok := volume["secret"].(map[string]any)
		if name := text(source, "secretName"); ok && !allowed[name] {
			return fmt.Sprintf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", name, nameOf(account))
		}
	}
	if why := judgeContainers(spec, account, "initContainers", "init container"); why != "" {
		return why
	}
	if why := judgeContainers(spec, account, "containers", "container"); why != "" {
		return why
	}
	pull := names(account, "imagePullSecrets")
	for i, ref := range maps(spec, "imagePullSecrets") {
		if name := text(ref, "name"); !pull[name] {
			return fmt.Sprintf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, name, nameOf(account))
		}
	}
	return ""
}

// judgeContainers is judgeSecrets for the environment of containers.
func judgeContainers(spec, account resource.Tree, field, what string) string {
	allowed := names(account, "secrets")
	for _, container := range maps(spec, field) {
		for _, env := range maps(container, "env") {
			ref, ok := within(env, "valueFrom")["secretKeyRef"].(map[string]any)
			if name := text(ref, "name"); ok && !allowed[name] {
				return fmt.Sprintf("%s %s with envVar %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
					what, text(container, "name"), text(env, "name"), name, nameOf(account))
			}
		}
		for _, env := range maps(container, "envFrom") {
			ref, ok := env["secretRef"].(map[string]any)
			if name := text(ref, "name"); ok && !allowed[name] {
				return fmt.Sprintf("%s %s with envFrom referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
					what, text(container, "name"), name, nameOf(account))
			}
		}
	}
	return ""
}

func nameOf(obj resource.Tree) string { return text(within(obj, "metadata"), "name") }

// names returns the names in a list of references.
func names(obj resource.Tree, field string) map[string]bool {
	all := map[string]bool{}
	for _, ref := range maps(obj, field) {
		all[text(ref, "name")] = true
	}
	return all
}

// usesSecret reports whether a pod refers to a secret.
func usesSecret(spec resource.Tree) bool {
	if len(list(spec, "imagePullSecrets")) > 0 {
		return true
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range maps(spec, field) {
			for _, env := range maps(container, "envFrom") {
				if env["secretRef"] != nil {
					return true
				}
			}
			for _, env := range maps(container, "env") {
				if within(env, "valueFrom")["secretKeyRef"] != nil {
					return true
				}
			}
		}
	}
	for _, volume := range maps(spec, "volumes") {
		if volume["secret"] != nil || volume["azureFile"] != nil || within(volume, "csi")["nodePublishSecretRef"] != nil {
			return true
		}
		for _, source := range maps(within(volume, "projected"), "sources") {
			if source["secret"] != nil {
				return true
			}
		}
		for _, kind := range []string{"cephfs", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"} {
			if within(volume, kind)["secretRef"] != nil {
				return true
			}
		}
	}
	return false
}
