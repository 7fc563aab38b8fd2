package builtin

import (
	"github.com/kapok-dev/kapok/internal/resource"
)

// stripSecretReferences leaves the names of the secrets, which are all that counts.
func stripSecretReferences(obj resource.Tree) {
	secrets, _ := obj["secrets"].([]any)
	for i, reference := range secrets {
		stripped := resource.Tree{}
		if r, ok := reference.(resource.Tree); ok && text(r, "name") != "" {
			stripped["name"] = r["name"]
		}
		secrets[i] = stripped
	}
}

const enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

// warnOfServiceAccount warns whoever newly sets a deprecated annotation.
func warnOfServiceAccount(obj, old resource.Tree) []string {
	if get(old, "metadata", "annotations", enforceMountableSecrets) != nil || get(obj, "metadata", "annotations", enforceMountableSecrets) == nil {
		return nil
	}
	return []string{"metadata.annotations[" + enforceMountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
