package quota

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Configuration is that of the plugin: what can only be used where a quota bounds it.
type Configuration struct {
	metav1.TypeMeta  `json:",inline"`
	LimitedResources []limitedResource `json:"limitedResources"`
}

// A limitedResource is a resource of the API of whose use some is limited.
type limitedResource struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Resource string `json:"resource"`
	// MatchContains are parts of the names that quotas have for what is limited.
	MatchContains []string `json:"matchContains,omitempty"`
	// MatchScopes are scopes whose objects need a quota with the scope.
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// ReadConfiguration returns a configuration in JSON or YAML, which limits nothing if it is empty.
func ReadConfiguration(data []byte) (*Configuration, error) {
	c := &Configuration{}
	if len(data) == 0 {
		return c, nil
	}
	if err := admission.DecodeConfiguration(data, c,
		schema.GroupVersionKind{Group: "apiserver.config.k8s.io", Version: "v1", Kind: "ResourceQuotaConfiguration"},
		schema.GroupVersionKind{Group: "resourcequota.admission.k8s.io", Version: "v1beta1", Kind: "Configuration"},
		schema.GroupVersionKind{Group: "resourcequota.admission.k8s.io", Version: "v1alpha1", Kind: "Configuration"}); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for i, l := range c.LimitedResources {
		if l.Resource == "" {
			errs = append(errs, field.Required(field.NewPath("limitedResources").Index(i).Child("resource"), ""))
		}
	}
	return c, errs.ToAggregate()
}

// check returns an error if a write uses more of something that is limited, and none of the quotas
// of its namespace bounds that. Without quotas, nothing that is limited can be used.
func (c *Configuration) check(w *write, quotas []*account) error {
	if w.before != nil && len(positive(difference(w.now.usage(), w.before.usage()))) == 0 {
		return nil
	}
	var bounded []corev1.ResourceName
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, a := range quotas {
		scopes = append(scopes, a.scopesOf(w.now)...)
		if a.takes(w.now, w.gr) {
			bounded = append(bounded, a.measured(w.gr)...)
		}
	}
	var missing []string
	for name := range c.limited(w) {
		if !slices.Contains(bounded, name) {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return w.refuse("insufficient quota to consume: %v", strings.Join(missing, ","))
	}
	var uncovered []corev1.ScopedResourceSelectorRequirement
	for _, l := range c.LimitedResources { // scopes of all resources: an object is in none of those of others
		for _, scope := range l.MatchScopes {
			covered := slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool { return s.ScopeName == scope.ScopeName })
			if w.now.in(scope) && !covered {
				uncovered = append(uncovered, scope)
			}
		}
	}
	if len(uncovered) > 0 {
		// Kubernetes does not make this 403: the response is 500.
		return fmt.Errorf("insufficient quota to match these scopes: %v", uncovered)
	}
	return nil
}

// limited returns what is limited of what an object uses.
func (c *Configuration) limited(w *write) map[corev1.ResourceName]bool {
	names := map[corev1.ResourceName]bool{}
	for _, l := range c.LimitedResources {
		if (schema.GroupResource{Group: l.APIGroup, Resource: l.Resource}) != w.gr {
			continue
		}
		for name, amount := range w.now.usage() {
			if amount.Sign() > 0 && slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(string(name), part) }) {
				names[name] = true
			}
		}
	}
	return names
}
