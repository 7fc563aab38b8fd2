package importcrd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// fetch returns definitions of the server of a kubeconfig: those with the names, such as
// crontabs.stable.example.com, and those of the groups.
func fetch(ctx context.Context, o Options) ([]definition, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("there is no kubeconfig that names a server: set KUBECONFIG, or import from files by -f")
	case err != nil:
		return nil, fmt.Errorf("find the server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/apis", &apiextensionsv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := client.Get().Resource("customresourcedefinitions").Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("list the definitions of %s: %w", config.Host, err)
	}
	var all []definition
	found := map[string]bool{}
	for i := range list.Items {
		crd := &list.Items[i]
		if slices.Contains(o.Names, crd.Name) || slices.Contains(o.Groups, crd.Spec.Group) {
			all = append(all, definition{crd, config.Host})
			found[crd.Name], found[crd.Spec.Group] = true, true
		}
	}
	var errs []error
	for _, name := range o.Names {
		if !found[name] {
			errs = append(errs, fmt.Errorf("%s has no definition %q%s", config.Host, name, didYouMean(name, list.Items)))
		}
	}
	for _, group := range o.Groups {
		if !found[group] {
			errs = append(errs, fmt.Errorf("%s has no definition of the group %q", config.Host, group))
		}
	}
	return all, errors.Join(errs...)
}

// didYouMean returns a hint to the definitions that have a name as kubectl takes it: a plural, a
// kind.
func didYouMean(name string, list []apiextensionsv1.CustomResourceDefinition) string {
	var names []string
	for _, crd := range list {
		if n := crd.Spec.Names; strings.EqualFold(name, n.Kind) || name == n.Plural || slices.Contains(n.ShortNames, name) {
			names = append(names, crd.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(names, " or "))
}
