package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
)

// every is how often the policy is looked at.
const every = 10 * time.Second

// policyFile is a Policy and the file that it comes from. What a policy says is judged by Kubernetes' own code.
type policyFile struct {
	file    string
	content []byte // of the file when it was read last, by the goroutine that watches
	current atomic.Pointer[audit.PolicyRuleEvaluator]
}

func loadPolicy(file string) (*policyFile, error) {
	p := &policyFile{file: file}
	if file == "" {
		return nil, errors.New("audit: what is to be written down? Name a policy (--audit-policy-file)")
	}
	_, err := p.load()
	return p, err
}

// load puts the policy of the file in force, and says whether it is another one. Fields that are unknown are told of by klog,
// as in kube-apiserver.
func (p *policyFile) load() (changed bool, err error) {
	content, err := os.ReadFile(p.file)
	if err != nil {
		return false, fmt.Errorf("audit policy: %w", err)
	}
	if bytes.Equal(content, p.content) && p.current.Load() != nil {
		return false, nil
	}
	parsed, err := policy.LoadPolicyFromBytes(content)
	if err != nil {
		return false, fmt.Errorf("audit policy %s: %w", p.file, err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(parsed)
	p.content = content
	p.current.Store(&evaluator)
	return true, nil
}

func (p *policyFile) watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := p.load()
		switch {
		case err == nil:
			complaint = ""
		case err.Error() != complaint:
			complaint = err.Error()
			log.Error("audit policy not loaded; the one before stays in force", "err", err)
		}
		if changed {
			log.Info("audit policy loaded", "file", p.file)
		}
	}
}

// rule is what the policy says of a request.
func (p *policyFile) rule(a *auth.Attributes) audit.RequestAuditConfig {
	return (*p.current.Load()).EvaluatePolicyRule(attributes{a})
}

// attributes show a request to Kubernetes' code.
type attributes struct{ *auth.Attributes }

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
