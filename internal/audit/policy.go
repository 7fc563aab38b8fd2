package audit

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/reload"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
)

// policyFile is a Policy and the file that it comes from. Kubernetes' own code decodes and
// evaluates it.
type policyFile struct {
	file    *reload.File
	current atomic.Pointer[audit.PolicyRuleEvaluator]
}

func loadPolicy(ctx context.Context, path string) (_ *policyFile, err error) {
	if path == "" {
		return nil, errors.New("audit policy: the name of the file is empty: set Options.Audit.PolicyFile (--audit-policy-file)")
	}
	p := &policyFile{}
	p.file, err = reload.Open(ctx, "audit policy", p.load, path)
	return p, err
}

// load puts a policy in force. Unknown fields are logged with klog, as in kube-apiserver.
func (p *policyFile) load(_ context.Context, contents [][]byte) error {
	parsed, err := policy.LoadPolicyFromBytes(contents[0])
	if err != nil {
		return err
	}
	evaluator := policy.NewPolicyRuleEvaluator(parsed)
	p.current.Store(&evaluator)
	return nil
}

// rule returns the audit configuration of a request.
func (p *policyFile) rule(a *authz.Attributes) audit.RequestAuditConfig {
	return (*p.current.Load()).EvaluatePolicyRule(attributes{a})
}

// attributes show a request to Kubernetes' code.
type attributes struct{ *authz.Attributes }

func (a attributes) GetUser() user.Info {
	if a.User == nil {
		return nil
	}
	return a.User
}
func (a attributes) GetVerb() string { return a.Verb }
func (a attributes) IsReadOnly() bool {
	return a.Verb == "get" || a.Verb == "list" || a.Verb == "watch"
}
func (a attributes) GetNamespace() string    { return a.Namespace }
func (a attributes) GetResource() string     { return a.Resource }
func (a attributes) GetSubresource() string  { return a.Subresource }
func (a attributes) GetName() string         { return a.Name }
func (a attributes) GetAPIGroup() string     { return a.APIGroup }
func (a attributes) GetAPIVersion() string   { return a.APIVersion }
func (a attributes) IsResourceRequest() bool { return a.ResourceRequest }
func (a attributes) GetPath() string         { return a.Path }
func (a attributes) GetFieldSelector() (fields.Requirements, error) {
	return nil, nil
}
func (a attributes) GetLabelSelector() (labels.Requirements, error) {
	return nil, nil
}
