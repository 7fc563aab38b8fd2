// Package podsecurity is Kubernetes' plugin PodSecurity. The labels of a namespace name the Pod
// Security Standard whose violation rejects a pod (enforce), annotates the audit event (audit), or
// returns a warning to the client that creates the pod or a workload with a pod template (warn).
//
// The standards are those of k8s.io/pod-security-admission, whose plugin judges this one in the
// tests. That plugin is not used because it imports a client for all kinds of Kubernetes. A
// namespace without such labels has no restrictions, unless the configuration sets defaults.
package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	config "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Name is the name of the plugin.
const Name = "PodSecurity"

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// A Plugin implements admission.Validator over a state, and prometheus.Collector. It is
// initialized on first use, as few servers ever have a pod. It is safe for concurrent use.
type Plugin struct {
	state    *state.State
	config   []byte
	counters *counters

	mu    sync.Mutex
	ready *rules
}

// rules are a configuration, and the checks of the standards.
type rules struct {
	state      *state.State
	exemptions config.PodSecurityExemptions
	defaults   api.Policy // of namespaces without labels
	evaluator  policy.Evaluator
}

// New returns a Plugin with a PodSecurityConfiguration in JSON or YAML, or with Kubernetes'
// defaults if it is empty.
func New(st *state.State, configuration []byte) (*Plugin, error) {
	p := &Plugin{state: st, config: configuration, counters: newCounters()}
	if len(configuration) == 0 {
		return p, nil
	}
	_, err := p.rules()
	return p, err
}

func (p *Plugin) rules() (*rules, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != nil {
		return p.ready, nil
	}
	loaded, err := load.LoadFromData(p.config)
	if err != nil {
		return nil, err
	}
	r := &rules{state: p.state, exemptions: loaded.Exemptions}
	if r.defaults, err = config.ToPolicy(loaded.Defaults); err != nil {
		return nil, fmt.Errorf("%s configuration error: %w", Name, err)
	}
	if errs := validation.ValidatePodSecurityConfiguration(loaded); len(errs) > 0 {
		return nil, fmt.Errorf("%s invalid: %w", Name, errs.ToAggregate())
	}
	if r.evaluator, err = policy.NewEvaluator(policy.DefaultChecks(), nil); err != nil {
		return nil, err
	}
	p.ready = r
	return r, nil
}

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if op != resource.OperationCreate && op != resource.OperationUpdate {
		return false
	}
	gr := r.Definition.GroupResource()
	return gr == namespaces || gr == pods || templates[gr] != nil
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	rules, err := p.rules()
	if err != nil {
		return err
	}
	var v verdict
	switch a.Request.Definition.GroupResource() {
	case namespaces:
		v = rules.namespace(ctx, a)
	case pods:
		v = rules.pod(a)
	default:
		v = rules.template(a)
	}
	p.counters.count(a, &v)
	for _, w := range v.warnings {
		a.Request.Warn(w)
	}
	if annotate := a.Request.Annotate; annotate != nil {
		for _, key := range slices.Sorted(maps.Keys(v.annotations)) {
			annotate(api.AuditAnnotationPrefix+key, v.annotations[key])
		}
	}
	if v.refusal == nil {
		return nil
	}
	return refusal(a, &v.refusal.ErrStatus)
}

// A verdict is the result of the plugin for one request. The zero value allows it.
type verdict struct {
	refusal     *apierrors.StatusError // nil if the request is allowed
	warnings    []string
	annotations map[string]string // of the audit event, without their prefix

	evaluations []evaluation
	exempt      bool
	failure     failure
}

// exempt allows a request that the configuration exempts for a reason.
func exempt(reason string) verdict {
	return verdict{exempt: true, annotations: map[string]string{api.ExemptionReasonAnnotationKey: reason}}
}

// undecidable rejects a request that could not be evaluated because of err.
func undecidable(status *apierrors.StatusError, err error) verdict {
	return verdict{failure: fatal, refusal: status, annotations: map[string]string{"error": fmt.Sprintf("%s: %v", status.ErrStatus.Message, err)}}
}

// refusal returns a status as the error of a plugin: what it leaves open is that of a plugin that
// forbids a request.
func refusal(a *resource.Admitted, said *metav1.Status) error {
	//lint:ignore ST1005 Kubernetes' words
	err := admission.Forbidden(a, errors.New("Not allowed by PodSecurity"))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	status.ErrStatus.Message, status.ErrStatus.Reason, status.ErrStatus.Code = said.Message, said.Reason, said.Code
	if said.Details != nil {
		status.ErrStatus.Details = said.Details
	}
	return status
}

// policyOf returns the policy of a namespace with labels, and errors for invalid labels.
func (r *rules) policyOf(labels map[string]string) (api.Policy, field.ErrorList) {
	return api.PolicyToEvaluate(labels, r.defaults)
}

func (r *rules) exemptsClass(class *string) bool {
	return class != nil && *class != "" && slices.Contains(r.exemptions.RuntimeClasses, *class)
}

func (r *rules) exemptsNamespace(name string) bool {
	return name != "" && slices.Contains(r.exemptions.Namespaces, name)
}

func (r *rules) exemptsUser(name string) bool {
	return name != "" && slices.Contains(r.exemptions.Usernames, name)
}
