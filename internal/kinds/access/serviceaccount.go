package access

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"
)

// StripSecretReferences removes everything but the names from references to secrets.
func StripSecretReferences(obj resource.Tree) {
	secrets, _ := obj["secrets"].([]any)
	for i, reference := range secrets {
		stripped := resource.Tree{}
		if r, ok := reference.(resource.Tree); ok && kind.Text(r, "name") != "" {
			stripped["name"] = r["name"]
		}
		secrets[i] = stripped
	}
}

const enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

// WarnOfServiceAccount warns when a deprecated annotation is added.
func WarnOfServiceAccount(obj, old resource.Tree) []string {
	if kind.Get(old, "metadata", "annotations", enforceMountableSecrets) != nil || kind.Get(obj, "metadata", "annotations", enforceMountableSecrets) == nil {
		return nil
	}
	return []string{"metadata.annotations[" + enforceMountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
