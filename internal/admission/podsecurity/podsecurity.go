// Package podsecurity is Kubernetes' plugin PodSecurity. The labels of a namespace name the Pod
// Security Standard whose violation rejects a pod (enforce), annotates the audit event (audit), or
// returns a warning to the client that creates the pod or a workload with a pod template (warn).
//
// The standards and their evaluation are those of k8s.io/pod-security-admission. A namespace
// without such labels has no restrictions, unless the configuration sets defaults.
package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	security "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// Name is the name of the plugin.
const Name = "PodSecurity"

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// A Plugin implements admission.Validator over a state. It is initialized on first use, as few
// servers ever have a pod. It is safe for concurrent use.
type Plugin struct {
	state  *state.State
	config []byte

	mu    sync.Mutex
	ready *security.Admission
}

// New returns a Plugin with a PodSecurityConfiguration in JSON or YAML, or with Kubernetes'
// defaults if config is empty.
func New(st *state.State, config []byte) (*Plugin, error) {
	p := &Plugin{state: st, config: config}
	if len(config) == 0 {
		return p, nil
	}
	_, err := p.admission()
	return p, err
}

func (p *Plugin) admission() (*security.Admission, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != nil {
		return p.ready, nil
	}
	config, err := load.LoadFromData(p.config)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	a := &security.Admission{
		Configuration: config, Evaluator: evaluator, Metrics: unrecorded{}, PodSpecExtractor: security.DefaultPodSpecExtractor{},
		NamespaceGetter: stored{p.state}, PodLister: stored{p.state},
	}
	if err := a.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("%s configuration error: %w", Name, err)
	}
	if err := a.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("%s invalid: %w", Name, err)
	}
	p.ready = a
	return a, nil
}

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if op != resource.OperationCreate && op != resource.OperationUpdate {
		return false
	}
	gr := r.Definition.GroupResource()
	return gr == namespaces || types[gr] != nil
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	by, err := p.admission()
	if err != nil {
		return err
	}
	answer := by.Validate(ctx, attributes{a})
	for _, w := range answer.Warnings {
		a.Request.Warn(w)
	}
	if annotate := a.Request.Annotate; annotate != nil {
		for _, key := range slices.Sorted(maps.Keys(answer.AuditAnnotations)) {
			annotate(api.AuditAnnotationPrefix+key, answer.AuditAnnotations[key])
		}
	}
	if answer.Allowed {
		return nil
	}
	return refusal(a, answer.Result)
}

// refusal returns the library's message as an API error.
func refusal(a *resource.Admitted, said *metav1.Status) error {
	//lint:ignore ST1005 Kubernetes' words
	err := admission.Forbidden(a, errors.New("Not allowed by PodSecurity"))
	var status *apierrors.StatusError
	if said == nil || !errors.As(err, &status) {
		return err
	}
	if said.Message != "" {
		status.ErrStatus.Message = said.Message
	}
	if said.Reason != "" {
		status.ErrStatus.Reason = said.Reason
	}
	if said.Details != nil {
		status.ErrStatus.Details = said.Details
	}
	if said.Code != 0 {
		status.ErrStatus.Code = said.Code
	}
	return status
}

// A stored gives the library access to the objects of a state.
type stored struct{ state *state.State }

// GetNamespace implements admission.NamespaceGetter of the library.
func (s stored) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	o, _ := s.state.Get(object.Key{Resource: namespaces, Name: name})
	if o == nil {
		return nil, apierrors.NewNotFound(namespaces, name)
	}
	tree, err := o.Tree()
	if err != nil {
		return nil, err
	}
	return admission.Decode[corev1.Namespace](tree)
}

// ListPods implements admission.PodLister of the library.
func (s stored) ListPods(_ context.Context, namespace string) ([]*corev1.Pod, error) {
	var all []*corev1.Pod
	for o := range s.state.Snapshot(pods).All(namespace) {
		tree, err := o.Tree()
		if err != nil {
			return nil, err
		}
		pod, err := admission.Decode[corev1.Pod](tree)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Key, err)
		}
		all = append(all, pod)
	}
	return all, nil
}

// unrecorded discards metrics.
type unrecorded struct{}

func (unrecorded) RecordEvaluation(metrics.Decision, api.LevelVersion, metrics.Mode, api.Attributes) {
}
func (unrecorded) RecordExemption(api.Attributes)   {}
func (unrecorded) RecordError(bool, api.Attributes) {}
