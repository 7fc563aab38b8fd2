package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/tolerations"
	podkind "github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodTolerationRestriction is Kubernetes' plugin of that name: it adds the default tolerations of a
// namespace to new pods, and rejects pods with tolerations that the list of the namespace does not
// cover. Both are annotations of the namespace, and where these are missing, those of the
// configuration. Pods with requests or limits tolerate memory pressure of their node.
type PodTolerationRestriction struct {
	state  *state.State
	config restrictions
}

// restrictions is the configuration: Configuration of
// podtolerationrestriction.admission.k8s.io/v1alpha1.
type restrictions struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`
	Whitelist       []corev1.Toleration `json:"whitelist,omitempty"`
}

const (
	defaultsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedAnnotation  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// NewPodTolerationRestriction returns the plugin with a configuration in JSON or YAML, which is
// empty for none.
func NewPodTolerationRestriction(st *state.State, configuration []byte) (*PodTolerationRestriction, error) {
	p := &PodTolerationRestriction{state: st}
	if len(configuration) == 0 {
		return p, nil
	}
	gvk := schema.GroupVersionKind{Group: "podtolerationrestriction.admission.k8s.io", Version: "v1alpha1", Kind: "Configuration"}
	if err := admission.DecodeConfiguration(configuration, &p.config, gvk); err != nil {
		return nil, err
	}
	at := field.NewPath("podtolerationrestriction")
	errs := slices.Concat(podkind.ValidateTolerations(p.config.Default, at.Child("default")),
		podkind.ValidateTolerations(p.config.Whitelist, at.Child("whitelist")))
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid config: %v", errs)
	}
	return p, nil
}

// Handles implements admission.Plugin.
func (p *PodTolerationRestriction) Handles(r *resource.Request, op resource.Operation) bool {
	return writes(r, op)
}

// Mutate implements admission.Mutator.
func (p *PodTolerationRestriction) Mutate(ctx context.Context, a *resource.Admitted) error {
	var more []corev1.Toleration
	if a.Operation == resource.OperationCreate {
		var err error
		if more, err = p.listed(a, defaultsAnnotation); err != nil {
			return err
		}
		if more == nil {
			more = slices.Clone(p.config.Default)
		}
	}
	pod, err := admission.Decode[corev1.Pod](a.Object)
	if err != nil {
		return err
	}
	if cmp.Or(pod.Status.QOSClass, podkind.QOSClass(&pod.Spec)) != corev1.PodQOSBestEffort {
		more = append(more, corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(more) > 0 {
		if err := tolerations.Add(admission.Child(a.Object, "spec"), more); err != nil {
			return err
		}
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (p *PodTolerationRestriction) Validate(_ context.Context, a *resource.Admitted) error {
	spec, _ := a.Object["spec"].(map[string]any)
	given, err := tolerations.Of(spec)
	if len(given) == 0 || err != nil {
		return err
	}
	allowed, err := p.listed(a, allowedAnnotation)
	if err != nil {
		return err
	}
	scope := "namespace"
	if allowed == nil {
		allowed, scope = p.config.Whitelist, "cluster"
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range given {
		if !slices.ContainsFunc(allowed, func(wide corev1.Toleration) bool { return tolerations.Covers(wide, t) }) {
			// Kubernetes does not make this 403: the response is 500.
			return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
		}
	}
	return nil
}

// listed returns the tolerations in an annotation of the namespace: nil without the annotation, and
// not nil if it is empty.
func (p *PodTolerationRestriction) listed(a *resource.Admitted, key string) ([]corev1.Toleration, error) {
	value, found, err := annotation(p.state, a.Request.Namespace, key)
	if err != nil || !found {
		return nil, err
	}
	list := []corev1.Toleration{}
	if value == "" {
		return list, nil
	}
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, err
	}
	if list == nil { // "null"
		list = []corev1.Toleration{}
	}
	return list, nil
}
