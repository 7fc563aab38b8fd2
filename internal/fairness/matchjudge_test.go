package fairness

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/test/seeds"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestClassifyAsKubernetes generates schemas and requests, and checks that each request gets the
// schema and the flow that it has in Kubernetes.
func TestClassifyAsKubernetes(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		c := &configuration{flows: newFlows()}
		for i := range 60 {
			s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", r.IntN(1000), "-", i)}, Spec: randomSchema(r)}
			objects = append(objects, s)
			c.flows.Set(&flow{schema: newMatcher(s.Name, &s.Spec)})
		}
		for _, d := range defaults() {
			switch {
			case d.matcher != nil && d.Mandatory:
				f := &flow{schema: d.matcher}
				c.flows.Set(f)
				if d.Key.Name == flowcontrolv1.FlowSchemaNameCatchAll {
					c.catchAll = f
				}
			case d.Level != nil:
				objects = append(objects, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: d.Key.Name}, Spec: *d.Level})
			}
		}

		client := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(client, 0)
		judge := flowcontrol.New(factory, client.FlowcontrolV1(), 600)
		stop := make(chan struct{})
		factory.Start(stop)
		var running sync.WaitGroup
		running.Go(func() { _ = judge.Run(stop) })
		defer func() {
			close(stop)
			running.Wait()
			factory.Shutdown()
			time.Sleep(time.Minute)
		}()
		time.Sleep(time.Second) // until the judge has read the schemas
		synctest.Wait()

		seen := map[string]bool{}
		for range 3000 {
			a := randomRequest(r)
			info := &request.RequestInfo{
				IsResourceRequest: a.ResourceRequest, Path: a.Path, Verb: a.Verb, APIGroup: a.APIGroup, APIVersion: a.APIVersion,
				Namespace: a.Namespace, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
			}
			var want, wantFlow string
			judge.Handle(t.Context(), flowcontrol.RequestDigest{RequestInfo: info, User: a.User},
				func(s *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, d string) {
					want, wantFlow = s.Name, d
				},
				func() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} },
				func(bool) {}, func() {})
			f := c.classify(a)
			if f.schema.name != want {
				t.Fatalf("seed %d: %+v of %+v: %s, in Kubernetes %s", seed, a, a.User, f.schema.name, want)
			}
			if got := f.schema.distinguisher(a); wantFlow != "" && got != wantFlow {
				t.Fatalf("seed %d: %+v of %+v: flow %q, in Kubernetes %q", seed, a, a.User, got, wantFlow)
			}
			seen[want] = true
		}
		if len(seen) < 10 {
			t.Errorf("seed %d: only %d schemas were ever matched", seed, len(seen))
		}
	})
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// some returns a few of the values, or all.
func some(r *rand.Rand, from ...string) []string {
	if r.IntN(4) == 0 {
		return []string{"*"}
	}
	all := make([]string, 1+r.IntN(3))
	for i := range all {
		all[i] = pick(r, from...)
	}
	return all
}

var (
	someUsers      = []string{"alice", "bob", "system:serviceaccount:a:x", "system:serviceaccount:a:y", "system:serviceaccount:ab:x", "system:serviceaccount:a", "system:anonymous"}
	someGroups     = []string{"devs", "ops", "system:authenticated", "system:serviceaccounts", "system:masters"}
	someVerbs      = []string{"get", "list", "watch", "create", "patch"}
	someAPIGroups  = []string{"", "apps", "example.com"}
	someResources  = []string{"pods", "pods/log", "pods/status", "deployments", "nodes"}
	someNamespaces = []string{"a", "ab", "b"}
	somePaths      = []string{"/healthz", "/healthz/*", "/healthz*", "/api", "/apis/*", "/", "/a/b", "/a"}
)

func randomSchema(r *rand.Rand) flowcontrolv1.FlowSchemaSpec {
	s := flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: int32(2 + r.IntN(20))}
	s.PriorityLevelConfiguration.Name = pick(r, "workload-low", "workload-high", "exempt")
	if kind := pick(r, "", "ByUser", "ByNamespace"); kind != "" {
		s.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodType(kind)}
	}
	for range 1 + r.IntN(2) {
		var rule flowcontrolv1.PolicyRulesWithSubjects
		for range 1 + r.IntN(2) {
			rule.Subjects = append(rule.Subjects, randomSubject(r))
		}
		for range r.IntN(3) {
			rule.ResourceRules = append(rule.ResourceRules, flowcontrolv1.ResourcePolicyRule{
				Verbs: some(r, someVerbs...), APIGroups: some(r, someAPIGroups...), Resources: some(r, someResources...),
				Namespaces: some(r, someNamespaces...), ClusterScope: r.IntN(2) == 0,
			})
		}
		for range r.IntN(3) {
			rule.NonResourceRules = append(rule.NonResourceRules, flowcontrolv1.NonResourcePolicyRule{Verbs: some(r, someVerbs...), NonResourceURLs: some(r, somePaths...)})
		}
		s.Rules = append(s.Rules, rule)
	}
	return s
}

func randomSubject(r *rand.Rand) flowcontrolv1.Subject {
	switch r.IntN(3) {
	case 0:
		return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: pick(r, append(someUsers, "*")...)}}
	case 1:
		return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: pick(r, append(someGroups, "*")...)}}
	}
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: pick(r, "a", "ab"), Name: pick(r, "x", "y", "*")}}
}

func randomRequest(r *rand.Rand) *authz.Attributes {
	a := &authz.Attributes{User: &authn.User{Name: pick(r, someUsers...)}, Verb: pick(r, someVerbs...)}
	for range r.IntN(3) {
		a.User.Groups = append(a.User.Groups, pick(r, someGroups...))
	}
	if r.IntN(3) == 0 {
		a.Path = pick(r, "/healthz", "/healthz/", "/healthz/ping", "/healthzz", "/api", "/api/v1", "/apis/apps", "/", "/a", "/a/b", "/a/b/c")
		return a
	}
	a.ResourceRequest, a.APIVersion = true, "v1"
	a.APIGroup, a.Resource = pick(r, someAPIGroups...), pick(r, "pods", "deployments", "nodes")
	a.Subresource, a.Namespace, a.Name = pick(r, "", "", "log", "status"), pick(r, append(someNamespaces, "", "c")...), pick(r, "", "x")
	return a
}
