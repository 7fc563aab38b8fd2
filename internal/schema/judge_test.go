package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"

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
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
)

// judge is Kubernetes' implementation of a schema: the packages of apiextensions-apiserver, called
// in the order of its handler and its strategies.
type judge struct {
	structural *structural.Structural
	validator  validation.SchemaValidator
	status     validation.SchemaValidator
	rules      *cel.Validator
	preserve   bool
}

func newJudge(t testing.TB, s *apiextensionsv1.JSONSchemaProps, preserve bool) (j *judge, err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil { // for field paths below additionalProperties without a schema
			err = fmt.Errorf("the judge panics: %v", r)
		}
	}()
	var in *apiextensions.JSONSchemaProps
	if s != nil {
		in = &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, in, nil); err != nil {
			return nil, err
		}
	}
	j = &judge{preserve: preserve || s == nil}
	if j.structural, err = structural.NewStructural(in); err != nil {
		return nil, err
	}
	if !j.preserve {
		j.structural = j.structural.DeepCopy()
		if err := defaulting.PruneDefaults(j.structural); err != nil {
			return nil, err
		}
	}
	if j.structural != nil {
		j.rules = cel.NewValidator(j.structural, true, celconfig.PerCallLimit)
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
	return j, nil
}

func (j *judge) prune(obj map[string]any, track bool) []string {
	if j.preserve {
		return nil
	}
	unknown := pruning.PruneWithOptions(obj, j.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: track})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, j.structural)
	return unknown
}

func (j *judge) coerce(obj map[string]any, track, drop bool) ([]string, error) {
	err, unknown := objectmeta.CoerceWithOptions(nil, obj, j.structural, false,
		objectmeta.CoerceOptions{DropInvalidFields: drop, ReturnUnknownFieldPaths: track})
	if err != nil {
		return nil, err
	}
	return unknown, nil
}

func (j *judge) normalise(obj map[string]any, track bool) ([]string, error) {
	unknown := j.prune(obj, track)
	more, err := j.coerce(obj, track, false)
	if err != nil {
		return nil, err
	}
	defaulting.Default(obj, j.structural)
	return append(unknown, more...), nil
}

func (j *judge) validate(obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, j.validator)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, j.structural, false)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, obj)...)
}

func (j *judge) validateUpdate(obj, old map[string]any) field.ErrorList {
	c := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: j.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, j.validator, validation.WithRatcheting(c))
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj, j.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, j.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, obj)...)
	}
	return errs
}

func (j *judge) validateStatus(obj, old map[string]any) (errs field.ErrorList) {
	c := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: j.structural})
	var options []validation.ValidationOption
	if j.structural != nil {
		options = append(options, validation.WithRatcheting(c.Key("status")))
	}
	if status, ok := obj["status"]; ok {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], j.status, options...)
	}
	if newErrs := listtype.ValidateListSetsAndMaps(nil, j.structural, obj); len(newErrs) > 0 &&
		len(listtype.ValidateListSetsAndMaps(nil, j.structural, old)) == 0 {
		errs = append(errs, newErrs...)
	}
	return errs
}

// evaluate returns the errors of rules, the warnings about excused errors, and the rest of the
// budget.
func (j *judge) evaluate(obj, old map[string]any) (errs field.ErrorList, warned []string, left int64) {
	if j.rules == nil {
		return nil, nil, celconfig.RuntimeCELCostBudget
	}
	var before any
	var options []cel.Option
	if old != nil {
		before = old
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: j.structural})))
	}
	var heard warnings
	ctx := warning.WithWarningRecorder(context.Background(), &heard)
	errs, left = j.rules.Validate(ctx, nil, j.structural, obj, before, celconfig.RuntimeCELCostBudget, options...)
	return errs, heard, left
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// compareRules compares the results of rules on an object with the given other errors.
func compareRules(what string, p *Program, j *judge, obj, old map[string]any, found field.ErrorList) error {
	var heard warnings
	got := p.Evaluate(context.Background(), obj, old, found, func(w string) { heard.AddWarning("", w) })
	slices.Sort(heard)
	e := evaluation{ctx: context.Background(), program: p, obj: obj, old: old, budget: celconfig.RuntimeCELCostBudget}
	if p.conditions != nil {
		e.run()
	}
	if blocked(found) && j.rules != nil {
		if len(got) != 1 || got[0].Error() != notChecked {
			return fmt.Errorf("%s: blocked: got %v", what, got)
		}
		return nil
	}
	var err error
	// If one rule has several errors, the judge returns any of them, and the cost of its iteration
	// over a map depends on the random order; this package sorts the keys.
	for range 5000 {
		want, wanted, left := j.evaluate(obj, old)
		slices.Sort(wanted)
		if err = compareErrors(what+": rules", got, want); err == nil && !slices.Equal(heard, warnings(wanted)) {
			err = fmt.Errorf("%s: warnings\n got %q\nwant %q", what, heard, wanted)
		}
		if err == nil && e.budget != left {
			err = fmt.Errorf("%s: budget left: got %d, want %d", what, e.budget, left)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// compare runs program and judge on copies of obj, and returns the first difference. old is the
// object that obj replaces.
func compare(p *Program, j *judge, obj, old map[string]any) error {
	ours, theirs := clone(obj).(map[string]any), clone(obj).(map[string]any)
	p.Default(ours)
	defaulting.Default(theirs, j.structural)
	if err := sameObjects("default", ours, theirs); err != nil {
		return err
	}
	if err := compareErrors("validate raw", p.Validate(context.Background(), clone(obj).(map[string]any)), j.validate(clone(obj).(map[string]any))); err != nil {
		return err
	}

	ours, theirs = clone(obj).(map[string]any), clone(obj).(map[string]any)
	var unknown []string
	p.Prune(ours, &unknown)
	if want := j.prune(theirs, true); !slices.Equal(unknown, want) {
		return fmt.Errorf("prune: unknown fields\n got %q\nwant %q", unknown, want)
	}
	if err := sameObjects("prune", ours, theirs); err != nil {
		return err
	}
	p.CoerceStored(ours)
	if _, err := j.coerce(theirs, false, true); err != nil {
		return err
	}
	if err := sameObjects("coerce stored", ours, theirs); err != nil {
		return err
	}

	ours, theirs = clone(obj).(map[string]any), clone(obj).(map[string]any)
	unknown = nil
	err := p.Normalise(ours, &unknown)
	want, wantErr := j.normalise(theirs, true)
	for range 200 { // the judge returns any of several errors
		if err == nil || wantErr == nil || err.Error() == wantErr.Error() {
			break
		}
		_, wantErr = j.normalise(clone(obj).(map[string]any), true)
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		return fmt.Errorf("normalise: error\n got %v\nwant %v", err, wantErr)
	}
	if err != nil {
		return nil
	}
	if !slices.Equal(unknown, want) {
		return fmt.Errorf("normalise: unknown fields\n got %q\nwant %q", unknown, want)
	}
	if err := sameObjects("normalise", ours, theirs); err != nil {
		return err
	}
	silent := clone(obj).(map[string]any)
	if err := p.Normalise(silent, nil); err != nil {
		return fmt.Errorf("normalise: error without unknown fields: %v", err)
	}
	if err := sameObjects("normalise without unknown fields", silent, ours); err != nil {
		return err
	}
	created, updated := p.Validate(context.Background(), ours), p.ValidateUpdate(context.Background(), ours, old)
	if err := compareErrors("validate", created, j.validate(theirs)); err != nil {
		return err
	}
	if err := compareErrors("update", updated, j.validateUpdate(theirs, old)); err != nil {
		return err
	}
	if err := compareRules("create", p, j, ours, nil, created); err != nil {
		return err
	}
	if err := compareRules("update", p, j, ours, old, updated); err != nil {
		return err
	}
	if j.status == nil {
		return nil
	}
	return compareErrors("status", p.ValidateStatus(context.Background(), ours, old), j.validateStatus(theirs, old))
}

func sameObjects(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s:\n got %s\nwant %s", what, toJSON(got), toJSON(want))
	}
	return nil
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// compareErrors compares errors without their order, which is random for the judge.
func compareErrors(what string, got, want field.ErrorList) error {
	g, w := spell(got), spell(want)
	if !slices.Equal(g, w) {
		return fmt.Errorf("%s: errors\n got %s\nwant %s", what, toJSON(g), toJSON(w))
	}
	return nil
}

func spell(errs field.ErrorList) []string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		detail := selfTypes.ReplaceAllString(err.Detail, "selfType")
		list = append(list, fmt.Sprintf("%s|%s|%T %v|%s", err.Type, err.Field, err.BadValue, err.BadValue, detail))
	}
	slices.Sort(list)
	return list
}

// selfTypes matches the names of types in errors about rules that do not compile; those of the
// judge are random.
var selfTypes = regexp.MustCompile(`selfType\d*`)

const notChecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; " +
	"correct the existing errors to complete validation"
