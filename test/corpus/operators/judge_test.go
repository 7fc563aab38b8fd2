package operators

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	priority "k8s.io/apimachinery/pkg/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// A judge is Kubernetes' implementation for the objects of one version.
type judge struct {
	version    *version
	structural *structural.Structural
	validator  validation.SchemaValidator
	status     validation.SchemaValidator // nil without a schema of status
	rules      *cel.Validator             // nil without rules
	preserve   bool
	storage    *judge // of the storage version, nil if it is this one
}

// newJudges returns the judges of the versions of a definition, by name.
func newJudges(d *definition) (map[string]*judge, error) {
	judges := map[string]*judge{}
	var storage *judge
	for _, v := range versions([]*definition{d}) {
		j, err := newJudge(v, true)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", v, err)
		}
		if v.Storage {
			storage = j
		}
		judges[v.Name] = j
	}
	for _, j := range judges {
		if j != storage {
			j.storage = storage
		}
	}
	return judges, nil
}

// newJudge returns a judge; without rules it ignores x-kubernetes-validations.
func newJudge(v *version, rules bool) (*judge, error) {
	j := &judge{version: v, preserve: v.crd.Spec.PreserveUnknownFields || v.schema() == nil}
	var in *apiextensions.JSONSchemaProps
	if s := v.schema(); s != nil {
		if !rules {
			s = s.DeepCopy()
			dropRules(s)
		}
		in = &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, in, nil); err != nil {
			return nil, err
		}
	}
	var err error
	if j.structural, err = structural.NewStructural(in); err != nil {
		return nil, err
	}
	if !j.preserve {
		if err := defaulting.PruneDefaults(j.structural); err != nil {
			return nil, err
		}
	}
	if j.validator, _, err = validation.NewSchemaValidator(in); err != nil {
		return nil, err
	}
	if in != nil {
		if status, ok := in.Properties["status"]; ok {
			if j.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, err
			}
		}
	}
	if rules && j.structural != nil {
		j.rules = cel.NewValidator(j.structural, true, celconfig.PerCallLimit)
	}
	return j, nil
}

// dropRules removes all rules below a schema.
func dropRules(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations = nil
	for name, p := range s.Properties {
		dropRules(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		dropRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		dropRules(s.AdditionalProperties.Schema)
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			dropRules(&list[i])
		}
	}
	if s.Not != nil {
		dropRules(s.Not)
	}
}

func (j *judge) prune(obj tree, track bool) []string {
	if j.preserve {
		return nil
	}
	unknown := pruning.PruneWithOptions(obj, j.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: track})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, j.structural)
	return unknown
}

// normalise does what decoding does, except for the metadata of the object itself.
func (j *judge) normalise(obj tree, track bool) ([]string, error) {
	unknown := j.prune(obj, track)
	err, more := objectmeta.CoerceWithOptions(nil, obj, j.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: track})
	if err != nil {
		return nil, err
	}
	defaulting.Default(obj, j.structural)
	return append(unknown, more...), nil
}

// decode is normalise with the metadata.
func (j *judge) decode(obj tree) ([]string, error) {
	metadata, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	more, err := j.normalise(obj, true)
	if err != nil {
		return nil, err
	}
	if found {
		if err := objectmeta.SetObjectMeta(obj, metadata); err != nil {
			return nil, err
		}
	}
	return append(unknown, more...), nil
}

func (j *judge) validate(obj tree) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, j.validator)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, j.structural, false)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, obj)...)
}

func (j *judge) validateUpdate(obj, old tree) field.ErrorList {
	c := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: j.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, j.validator, validation.WithRatcheting(c))
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, j.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, j.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, obj)...)
	}
	return errs
}

// evaluate returns the errors of rules for an object that replaces old, which may be nil; found are
// the object's other errors.
func (j *judge) evaluate(obj, old tree, found field.ErrorList) field.ErrorList {
	if j.rules == nil {
		return nil
	}
	for _, err := range found {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, unchecked)}
		}
	}
	var before any
	var options []cel.Option
	if old != nil {
		before = old
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: j.structural})))
	}
	errs, _ := j.rules.Validate(context.Background(), nil, j.structural, obj, before, celconfig.RuntimeCELCostBudget, options...)
	return errs
}

// unchecked is the strategy's error if other errors prevent the evaluation of rules.
const unchecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// create returns the object that a create stores, its errors and its warnings.
func (j *judge) create(obj tree) (warned warnings, err error) {
	unknown, err := j.decode(obj)
	if err != nil {
		return nil, err
	}
	if j.version.Deprecated {
		warned = append(warned, j.version.deprecation())
	}
	for _, path := range unknown {
		warned = append(warned, fmt.Sprintf("unknown field %q", path))
	}
	scale := &apiextensions.CustomResourceSubresourceScale{}
	status := &apiextensions.CustomResourceSubresourceStatus{}
	if s := j.version.Subresources; s == nil || s.Scale == nil {
		scale = nil
	} else if err := apiextensionsv1.Convert_v1_CustomResourceSubresourceScale_To_apiextensions_CustomResourceSubresourceScale(s.Scale, scale, nil); err != nil {
		return nil, err
	}
	if s := j.version.Subresources; s == nil || s.Status == nil {
		status = nil
	}
	structural := j.structural
	if j.rules == nil && structural != nil {
		// The strategy evaluates all rules; dropRules has removed them.
		structural = j.structural.DeepCopy()
	}
	gvk := j.version.gvk()
	namespaced := j.version.crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	strategy := customresource.NewStrategy(typer{gvk}, namespaced, gvk, j.validator, j.status, structural, status, scale, nil)
	u := &unstructured.Unstructured{Object: obj}
	ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: gvk.Group, APIVersion: gvk.Version, Resource: j.version.crd.Spec.Names.Plural,
	})
	ctx = request.WithNamespace(ctx, "")
	if namespaced {
		ctx = request.WithNamespace(ctx, "default")
	}
	rest.WipeObjectMetaSystemFields(u)
	rest.FillObjectMetaSystemFields(u)
	if err := rest.BeforeCreate(strategy, warning.WithWarningRecorder(ctx, &warned), u); err != nil {
		return nil, err
	}
	slices.Sort(warned)
	return warned, j.store(obj)
}

// store returns an object after it is written and read again: it is converted to the storage
// version, whose schema prunes it on the write, and prunes and defaults it on the read. The result
// is pruned, but not defaulted.
func (j *judge) store(obj tree) error {
	stored := cmp.Or(j.storage, j)
	obj["apiVersion"] = stored.version.gvk().GroupVersion().String()
	if err := stored.coerce(obj, false); err != nil {
		return err
	}
	if err := stored.coerce(obj, true); err != nil {
		return err
	}
	defaulting.Default(obj, stored.structural)
	obj["apiVersion"] = j.version.gvk().GroupVersion().String()
	return j.coerce(obj, false)
}

// coerce prunes an object that is read from the store, or converted.
func (j *judge) coerce(obj tree, drop bool) error {
	metadata, found, _, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{DropMalformedFields: drop})
	if err != nil {
		return err
	}
	j.prune(obj, false)
	if err, _ := objectmeta.CoerceWithOptions(nil, obj, j.structural, false, objectmeta.CoerceOptions{DropInvalidFields: drop}); err != nil {
		return err
	}
	if !found {
		return nil
	}
	return objectmeta.SetObjectMeta(obj, metadata)
}

// warnings returns the warnings for a client.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// deprecation returns the warning about the deprecated version.
func (v *version) deprecation() string {
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	gvk := v.gvk()
	text := fmt.Sprintf("%s %s is deprecated", gvk.GroupVersion(), gvk.Kind)
	better := v.Name
	for _, other := range v.crd.Spec.Versions {
		if other.Served && !other.Deprecated && priority.CompareKubeAwareVersionStrings(other.Name, better) > 0 {
			better = other.Name
		}
	}
	if better != v.Name {
		gvk.Version = better
		text += fmt.Sprintf("; use %s %s", gvk.GroupVersion(), gvk.Kind)
	}
	return text
}

// A typer returns one kind for all objects.
type typer struct{ gvk schema.GroupVersionKind }

func (t typer) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{t.gvk}, false, nil
}

func (t typer) Recognizes(gvk schema.GroupVersionKind) bool { return gvk == t.gvk }

// judgeDefinition returns Kubernetes' errors about a new CustomResourceDefinition.
func judgeDefinition(d *definition) error {
	internal := &apiextensions.CustomResourceDefinition{}
	if err := scheme().Convert(d.crd.DeepCopy(), internal, nil); err != nil {
		return err
	}
	rest.WipeObjectMetaSystemFields(internal)
	rest.FillObjectMetaSystemFields(internal)
	ctx := request.WithRequestInfo(request.WithNamespace(context.Background(), ""), &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: apiextensions.GroupName, APIVersion: "v1", Resource: "customresourcedefinitions",
	})
	return rest.BeforeCreate(customresourcedefinition.NewStrategy(scheme()), ctx, internal)
}

// spell formats errors, sorted, because some come from maps in any order.
func spell(errs field.ErrorList) []string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		list = append(list, fmt.Sprintf("%s|%s|%T %v|%s", err.Type, err.Field, err.BadValue, err.BadValue, err.Detail))
	}
	slices.Sort(list)
	return list
}
