package manifests

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/manifest"
	"sigs.k8s.io/yaml"
)

// A loader collects the objects of a directory.
type loader struct {
	kinds   map[schema.GroupVersionKind]*resource.Definition
	objects Objects
	files   map[string]map[string]string // the files of objects by plural and name
}

// load returns the objects in files.
func (o *Options) load(ctx context.Context, docs []manifest.FileDoc) (Objects, error) {
	l := &loader{kinds: map[schema.GroupVersionKind]*resource.Definition{}, objects: Objects{}, files: map[string]map[string]string{}}
	set := o.Registry.Load()
	for _, plural := range o.Plurals {
		l.files[plural] = map[string]string{}
		if d := set.Resource(schema.GroupResource{Group: admissionv1.GroupName, Resource: plural}); d != nil {
			l.kinds[admissionv1.SchemeGroupVersion.WithKind(d.Kind)] = d
		}
	}
	for _, doc := range docs {
		data, err := yaml.YAMLToJSONStrict(doc.Doc)
		if err == nil {
			err = l.add(ctx, doc.FilePath, data, schema.GroupVersionKind{})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doc.FilePath, err)
		}
	}
	for _, all := range l.objects {
		slices.SortFunc(all, func(a, b resource.Tree) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	}
	return l.objects, l.checkBindings()
}

// add adds an object, or the objects of a list. Objects of a list of one kind need not name it.
func (l *loader) add(ctx context.Context, file string, data []byte, byDefault schema.GroupVersionKind) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	gvk := head.GroupVersionKind()
	if gvk.Empty() {
		gvk = byDefault
	}
	item := gvk
	item.Kind = strings.TrimSuffix(gvk.Kind, "List")
	d := l.kinds[gvk]
	switch {
	case d != nil:
	case gvk == schema.GroupVersionKind{Version: "v1", Kind: "List"}, item != gvk && l.kinds[item] != nil:
		if l.kinds[item] == nil {
			item = schema.GroupVersionKind{}
		}
		for i, one := range head.Items {
			if err := l.add(ctx, file, one, item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	default:
		return fmt.Errorf("kind is %q and apiVersion is %q: want one of %s of %s", gvk.Kind, gvk.GroupVersion(), l.names(), admissionv1.SchemeGroupVersion)
	}
	obj, errs, err := resource.Complete(ctx, d, d.Version(gvk.GroupVersion()), data)
	if err != nil {
		return fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	name := nameOf(obj)
	if err := manifest.ValidateManifestName(name, file, l.files[d.Plural]); err != nil {
		return fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	errs = slices.DeleteFunc(errs, policies.IsReservedName)
	if errs = append(errs, independent(obj)...); len(errs) > 0 {
		return fmt.Errorf("%s %q: %w", gvk.Kind, name, errs.ToAggregate())
	}
	l.objects[d.Plural] = append(l.objects[d.Plural], obj)
	return ctx.Err()
}

// names returns the kinds that the directory may have.
func (l *loader) names() string {
	var all []string
	for gvk := range maps.Keys(l.kinds) {
		all = append(all, gvk.Kind, gvk.Kind+"List")
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func nameOf(obj resource.Tree) string {
	name, _, _ := unstructured.NestedString(obj, "metadata", "name")
	return name
}

// independent returns the errors of an object that depends on objects of the API.
func independent(obj resource.Tree) field.ErrorList {
	spec, _ := obj["spec"].(map[string]any)
	at := field.NewPath("spec")
	var errs field.ErrorList
	for _, key := range []string{"paramKind", "paramRef"} {
		if spec[key] != nil {
			errs = append(errs, field.Forbidden(at.Child(key), "not supported for static manifests"))
		}
	}
	if policy, ok := spec["policyName"].(string); ok && !strings.HasSuffix(policy, manifest.StaticConfigSuffix) {
		errs = append(errs, field.Invalid(at.Child("policyName"), policy, fmt.Sprintf("must end with %q", manifest.StaticConfigSuffix)))
	}
	hooks, _ := obj["webhooks"].([]any)
	for i, h := range hooks {
		hook, _ := h.(map[string]any)
		client, _ := hook["clientConfig"].(map[string]any)
		at := field.NewPath("webhooks").Index(i).Child("clientConfig")
		if client["service"] != nil {
			errs = append(errs, field.Forbidden(at.Child("service"), "not supported for static manifests: use url instead"))
		} else if url, _ := client["url"].(string); url == "" {
			errs = append(errs, field.Required(at.Child("url"), "of webhooks in static manifests"))
		}
	}
	return errs
}

// checkBindings returns an error for a binding of a policy that the directory does not have.
func (l *loader) checkBindings() error {
	for plural, bindings := range l.objects {
		policies, isBinding := strings.CutSuffix(plural, "policybindings")
		if !isBinding {
			continue
		}
		for _, b := range bindings {
			policy, _, _ := unstructured.NestedString(b, "spec", "policyName")
			if l.files[policies+"policies"][policy] == "" {
				return fmt.Errorf("%s: spec.policyName: Not found: %q: want a policy in the same directory", l.files[plural][nameOf(b)], policy)
			}
		}
	}
	return nil
}
