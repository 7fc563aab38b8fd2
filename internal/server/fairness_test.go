package server

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// TestFlowSchemaActs checks that unauthenticated requests wait and time out at a level without
// seats, and succeed before the level exists and after its removal.
func TestFlowSchemaActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		config := s.Config()
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate.UserName = "system:anonymous"
		stranger, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(code int, schema, level string, waits time.Duration) {
			t.Helper()
			begin := time.Now()
			r, err := stranger.Get(config.Host + "/version")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if took := time.Since(begin); r.StatusCode != code || took != waits {
				t.Errorf("%s after %s, want %d after %s", r.Status, took, code, waits)
			}
			h := r.Header
			if h.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != schema || h.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) != level {
				t.Errorf("headers %v, want schema %s and level %s", h, schema, level)
			}
			if (r.StatusCode == http.StatusTooManyRequests) != (h.Get("Retry-After") != "") {
				t.Errorf("%s, Retry-After: %s", r.Status, h.Get("Retry-After"))
			}
		}
		flowcontrol := client.FlowcontrolV1()
		get := func(schema, level string) (string, string) {
			t.Helper()
			s, err := flowcontrol.FlowSchemas().Get(t.Context(), schema, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := flowcontrol.PriorityLevelConfigurations().Get(t.Context(), level, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return string(s.UID), string(l.UID)
		}
		schema, level := get("global-default", "global-default")
		ask(200, schema, level, 0)

		_, err = flowcontrol.PriorityLevelConfigurations().Create(t.Context(), &flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "jail"},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To[int32](0), BorrowingLimitPercent: ptr.To[int32](0),
				LimitResponse: flowcontrolv1.LimitResponse{Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 2, HandSize: 1, QueueLengthLimit: 5}},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = flowcontrol.FlowSchemas().Create(t.Context(), &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "jail"},
			Spec: flowcontrolv1.FlowSchemaSpec{
				MatchingPrecedence: 3, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "jail"},
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "system:anonymous"}}},
					NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}}},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		jailed, jail := get("jail", "jail")
		ask(429, jailed, jail, 15*time.Second)
		if err := flowcontrol.FlowSchemas().Delete(t.Context(), "jail", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ask(200, schema, level, 0)
	})
}

// TestFairnessOptions checks that limits without any seats are rejected.
func TestFairnessOptions(t *testing.T) {
	none := fairness.Options{MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1}
	if _, err := Start(t.Context(), Options{Fairness: none}); err == nil || !strings.Contains(err.Error(), "MaxMutatingRequestsInFlight are negative but Unfair is not set") {
		t.Errorf("no seats: %v", err)
	}
	none.Unfair = true
	s, err := Start(t.Context(), Options{Fairness: none})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
}
