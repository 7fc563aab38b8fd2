package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/access"
	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/autoscaling"
	"github.com/kapok-dev/kapok/internal/kinds/batch"
	"github.com/kapok-dev/kapok/internal/kinds/certificates"
	"github.com/kapok-dev/kapok/internal/kinds/cluster"
	"github.com/kapok-dev/kapok/internal/kinds/devices"
	"github.com/kapok-dev/kapok/internal/kinds/flow"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Convert converts an object in JSON, or a list of objects, to the version target; to the preferred
// version if target is empty. For strict see [Decode].
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

// settled returns the first version of a kind in its own group if it is stable, and otherwise
// nothing. Kinds with a stable version need not leave their group (Events); others have moved to
// another one.
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

// Decode decodes an object in JSON and applies the defaults of its version. It returns the error of
// [Knows] for unknown kinds. Unless strict is nil, it receives an error for each unknown or
// duplicate field.
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
	Fill(obj)
	return obj, nil
}

// Knows returns nil for a kind that this package can decode, and otherwise an error that names the
// known versions or the reason of the removal.
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
		return fmt.Errorf("kind %[2]s has no version %[1]s, but %[3]s", gvk.GroupVersion(), gvk.Kind, join(others))
	}
	return fmt.Errorf("no kind %s is known in %s", gvk.Kind, gvk.GroupVersion())
}

// IsForeign reports whether a kind belongs to a group that is not one of Kubernetes' own.
func IsForeign(gvk schema.GroupVersionKind) bool {
	return !Scheme().IsGroupRegistered(gvk.Group) && successorless[gvk.GroupKind()] == ""
}

func noSuccessor(gvk schema.GroupVersionKind, gone string) error {
	return fmt.Errorf("%s, Kind=%s has no successor: %s", gvk.GroupVersion(), gvk.Kind, gone)
}

// successorless are the kinds that Kubernetes has removed without a replacement.
var successorless = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "PodSecurityPolicy"}: pspGone,
	{Group: "policy", Kind: "PodSecurityPolicy"}:     pspGone,
	{Group: "settings.k8s.io", Kind: "PodPreset"}:    "Kubernetes 1.20 removed it in favour of admission webhooks",
	{Group: "auditregistration.k8s.io", Kind: "AuditSink"}: "Kubernetes 1.19 removed it; the audit log is configured " +
		"by flags of the server",
	{Group: "extensions", Kind: "DeploymentRollback"}: rollbackGone,
	{Group: "apps", Kind: "DeploymentRollback"}:       rollbackGone,
}

const rollbackGone = "Kubernetes 1.16 removed it in favour of \"kubectl rollout undo\""

const pspGone = "Kubernetes 1.25 removed it in favour of Pod Security admission, which labels of namespaces enable"

func unknownTarget(c *convert.Converter, obj runtime.Object, target schema.GroupVersion) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	var known []string
	for _, v := range c.Versions(obj) {
		known = append(known, v.GroupVersion().String())
	}
	if len(known) == 0 {
		known = []string{gvk.GroupVersion().String()}
	}
	return fmt.Errorf("%s, Kind=%s cannot be converted to %s, only to %s", gvk.GroupVersion(), gvk.Kind, target, join(known))
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
		cluster.Conversions, pods.Conversions, apps.Conversions, apps.ScaleConversions, batch.Conversions, autoscaling.Conversions, services.Conversions, services.SliceConversions, access.Conversions, access.ReviewConversions, storage.Conversions, policies.Conversions, flow.Conversions, certificates.Conversions,
		devices.Conversions, definitions,
	} {
		all = append(all, group()...)
	}
	return convert.New(Scheme(), all...)
})
