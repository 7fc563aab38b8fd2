package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/builtin/defaults"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Convert converts an object as JSON, or a list of such objects, to a version; the preferred one if target is empty. For
// strict see [Decode].
func Convert(data []byte, target schema.GroupVersion, strict *[]error) (runtime.Object, error) {
	obj, err := Decode(data, strict)
	if err != nil {
		return nil, err
	}
	c, err := Converter()
	if err != nil {
		return nil, err
	}
	if target.Empty() {
		gvk := obj.GetObjectKind().GroupVersionKind()
		if gone := successorless[gvk.GroupKind()]; gone != "" {
			return nil, noSuccessor(gvk, gone)
		}
		target = settled(gvk)
	}
	out, err := c.To(obj, target)
	if errors.Is(err, convert.ErrUnknown) {
		return nil, unknownTarget(c, obj, target)
	}
	return out, err
}

// settled returns the first version of a kind in its own group if that is stable, else nothing: who is in such a group
// need not leave it (Events), and who is not has moved on to another.
func settled(gvk schema.GroupVersionKind) schema.GroupVersion {
	for _, gv := range Scheme().PrioritizedVersionsForGroup(gvk.Group) {
		if !Scheme().Recognizes(gv.WithKind(gvk.Kind)) {
			continue
		}
		if strings.Contains(gv.Version, "alpha") || strings.Contains(gv.Version, "beta") || gvk.Kind == "List" {
			break
		}
		return gv
	}
	return schema.GroupVersion{}
}

// Decode decodes an object and gives it the defaults of its version. It tells what it does not know, see [Knows]. Unless
// strict is nil it receives an error for each field that is unknown or there twice.
func Decode(data []byte, strict *[]error) (runtime.Object, error) {
	var meta runtime.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &meta); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	gvk := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	if err := Knows(gvk); err != nil {
		return nil, err
	}
	obj, err := Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", gvk, err)
	}
	found, err := kjson.UnmarshalStrict(data, obj)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", gvk, err)
	}
	if strict != nil {
		*strict = append(*strict, found...)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	defaults.Fill(obj)
	return obj, nil
}

// Knows returns what is the matter with a kind that this package does not know.
func Knows(gvk schema.GroupVersionKind) error {
	switch {
	case gvk.Kind == "":
		return errors.New("kind must not be empty")
	case gvk.Version == "":
		return errors.New("apiVersion must not be empty")
	case gvk.Version != runtime.APIVersionInternal && Scheme().Recognizes(gvk):
		return nil
	}
	if gone := successorless[gvk.GroupKind()]; gone != "" {
		return noSuccessor(gvk, gone)
	}
	var others []string
	for known := range Scheme().AllKnownTypes() {
		if known.Kind == gvk.Kind && known.Version != runtime.APIVersionInternal {
			others = append(others, known.GroupVersion().String())
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return fmt.Errorf("no version %s of kind %s is known, but %s", gvk.GroupVersion(), gvk.Kind, join(others))
	}
	return fmt.Errorf("no kind %s is known in %s", gvk.Kind, gvk.GroupVersion())
}

// IsForeign says whether a kind is of a group that is not Kubernetes' own.
func IsForeign(gvk schema.GroupVersionKind) bool {
	return !Scheme().IsGroupRegistered(gvk.Group) && successorless[gvk.GroupKind()] == ""
}

func noSuccessor(gvk schema.GroupVersionKind, gone string) error {
	return fmt.Errorf("%s, Kind=%s has no successor: %s", gvk.GroupVersion(), gvk.Kind, gone)
}

// successorless are the kinds that Kubernetes has removed without another in their place.
var successorless = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "PodSecurityPolicy"}: pspGone,
	{Group: "policy", Kind: "PodSecurityPolicy"}:     pspGone,
	{Group: "settings.k8s.io", Kind: "PodPreset"}:    "Kubernetes 1.20 removed it in favour of admission webhooks",
	{Group: "auditregistration.k8s.io", Kind: "AuditSink"}: "Kubernetes 1.19 removed it; the audit log is configured " +
		"where the server is started",
	{Group: "extensions", Kind: "DeploymentRollback"}: rollbackGone,
	{Group: "apps", Kind: "DeploymentRollback"}:       rollbackGone,
}

const rollbackGone = "Kubernetes 1.16 removed it in favour of \"kubectl rollout undo\""

const pspGone = "Kubernetes 1.25 removed it in favour of Pod Security admission, which is asked for by labels of namespaces"

func unknownTarget(c *convert.Converter, obj runtime.Object, target schema.GroupVersion) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	var known []string
	for _, v := range c.Versions(obj) {
		known = append(known, v.GroupVersion().String())
	}
	if len(known) == 0 {
		known = []string{gvk.GroupVersion().String()}
	}
	return fmt.Errorf("%s, Kind=%s cannot be converted to %s, but to %s", gvk.GroupVersion(), gvk.Kind, target, join(known))
}

func join(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	text := words[0]
	for _, word := range words[1:last] {
		text += ", " + word
	}
	return text + " or " + words[last]
}

// Converter returns the converter of the built-in kinds.
var Converter = sync.OnceValues(func() (*convert.Converter, error) {
	var all []convert.Rule
	for _, group := range []func() []convert.Rule{
		core, apps, scale, batch, autoscaling, networking, discovery, policy, rbac, storage, admission, flowcontrol, certificates,
		resources, definitions, other,
	} {
		all = append(all, group()...)
	}
	return convert.New(Scheme(), all...)
})

// same registers a version whose fields have the names of the hub's.
func same[Hub, T any, P interface {
	*T
	runtime.Object
}]() convert.Rule {
	return convert.Spoke[Hub, T, P](nil, nil)
}

// nothing is what is to be done for fields that the version beyond does not have: they are left out.
func nothing[A, B any](*A, *B) error { return nil }

// lossy lets A be converted to B and back where one has fields that the other has not.
func lossy[A, B any]() convert.Rule {
	return both(nothing[A, B], nothing[B, A])
}

// both registers a function for each direction.
func both[A, B any](to func(*A, *B) error, from func(*B, *A) error) convert.Rule {
	return convert.Rules(convert.Func(to), convert.Func(from))
}

// clone points to a copy.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// value is what a pointer points to, zero if it is nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
