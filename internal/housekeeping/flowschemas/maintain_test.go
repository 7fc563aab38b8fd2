package flowschemas

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rig is a store with the default objects, maintained, and a Limiter that follows it.
type rig struct {
	*testing.T
	limiter *fairness.Limiter
	*Maintainer
}

func newRig(t *testing.T) *rig {
	store := newStore(t)
	if err := Ensure(t.Context(), store, false); err != nil {
		t.Fatal(err)
	}
	l := fairness.New(fairness.Config{State: store.State()})
	t.Cleanup(l.Close)
	m := Start(store, slog.New(slog.DiscardHandler))
	t.Cleanup(m.Close)
	return &rig{T: t, limiter: l, Maintainer: m}
}

func (r *rig) create(key object.Key, body string) {
	r.Helper()
	request := r.request(key, "", "kubectl")
	request.Name = ""
	kind := map[object.Key]string{{Resource: fairness.FlowSchemas}: "FlowSchema", {Resource: fairness.PriorityLevels}: "PriorityLevelConfiguration"}[object.Key{Resource: key.Resource}]
	data := fmt.Sprintf(`{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": %q, %s}`, kind, body)
	if _, err := r.store.Create(r.Context(), request, resource.Body{Data: []byte(data)}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) delete(key object.Key) {
	r.Helper()
	if _, err := r.store.Delete(r.Context(), r.request(key, "", ""), &metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) patch(key object.Key, patch string) {
	r.Helper()
	if _, err := r.store.Patch(r.Context(), r.request(key, "", "kubectl"), resource.Patch{Type: types.MergePatchType, Data: []byte(patch)}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) wants(key object.Key, parts ...string) {
	r.Helper()
	o, _ := r.store.State().Get(key)
	if o == nil {
		r.Errorf("%s is not there", key)
		return
	}
	for _, part := range parts {
		if !strings.Contains(string(o.Raw), part) {
			r.Errorf("%s: want %s in\n%s", key, part, o.Raw)
		}
	}
}

func (r *rig) wantsNone(key object.Key) {
	r.Helper()
	if o, _ := r.store.State().Get(key); o != nil {
		r.Errorf("%s is there: %s", key, o.Raw)
	}
}

func schemaKey(name string) object.Key { return object.Key{Resource: fairness.FlowSchemas, Name: name} }
func levelKey(name string) object.Key {
	return object.Key{Resource: fairness.PriorityLevels, Name: name}
}

const everything = `"rules": [{"subjects": [{"kind": "User", "user": {"name": %q}}],
	"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]}]`

// classified checks which FlowSchema a request of a user belongs to; none that is stored for "".
func (r *rig) classified(user *authn.User, want string) {
	r.Helper()
	p, _ := r.limiter.Enter(r.Context(), &fairness.Request{
		Attributes: &authz.Attributes{User: user, Verb: "get", Resource: "pods", APIVersion: "v1", Namespace: "default", Name: "a", ResourceRequest: true},
		Reads:      true,
	})
	defer p.Leave()
	uid := ""
	if o, _ := r.store.State().Get(schemaKey(want)); o != nil {
		uid = string(o.Meta.UID)
	}
	if got := strings.Join(p.FlowSchemaUID(), ""); got != uid {
		r.Errorf("the request belongs to the FlowSchema with uid %q, want %s with uid %q", got, want, uid)
	}
}

// TestDangling checks the condition of a FlowSchema whose level is created and deleted. Its
// requests belong to another schema as long as the level is missing.
func TestDangling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bob := &authn.User{Name: "bob", Groups: []string{"system:authenticated"}}
		r.classified(bob, "global-default")
		r.create(schemaKey("mine"), `"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "own"}, `+fmt.Sprintf(everything, "bob")+`}`)
		r.classified(bob, "global-default") // from the next request on
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"NotFound","status":"True"`, `named \"own\" but there is no such object`, `"manager":"`+consumer+`"`)

		r.create(levelKey("own"), `"metadata": {"name": "own"}, "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}`)
		r.classified(bob, "mine")
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"Found","status":"False"`, `named \"own\" and it exists`)

		r.delete(levelKey("own"))
		r.classified(bob, "global-default")
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"NotFound","status":"True"`)
		if o, _ := r.store.State().Get(schemaKey("mine")); o.Meta.UID == "" || strings.Count(string(o.Raw), `"type":"Dangling"`) != 1 {
			t.Errorf("more than one condition: %s", o.Raw)
		}
	})
}

// TestRestore changes default objects. After a minute those that belong to the server are restored,
// and no others.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before := r.store.State().Revision()
		time.Sleep(time.Hour)
		if after := r.store.State().Revision(); after != before {
			t.Fatalf("%d writes, want none", after-before)
		}
		r.delete(schemaKey("exempt"))
		r.delete(levelKey("workload-low"))
		r.delete(schemaKey("probes"))
		r.patch(schemaKey("service-accounts"), `{"spec": {"matchingPrecedence": 8000}}`)
		r.patch(levelKey("workload-high"), `{"spec": {"limited": {"nominalConcurrencyShares": 7}}, "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}`)
		r.patch(levelKey("system"), `{"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": null}}}`)
		r.patch(levelKey("exempt"), `{"spec": {"exempt": {"lendablePercent": 6}}, "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "no"}}}`)
		r.create(schemaKey("former"), `"metadata": {"name": "former", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}, "spec": {"priorityLevelConfiguration": {"name": "system"}}`)
		r.create(schemaKey("mine"), `"metadata": {"name": "mine", "annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}, "spec": {"priorityLevelConfiguration": {"name": "system"}}`)

		r.classified(authn.Admin(), "") // the mandatory schema applies, although it is not stored
		time.Sleep(59 * time.Second)
		synctest.Wait()
		r.wantsNone(schemaKey("probes"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.wants(schemaKey("exempt"), `"status":"False","type":"Dangling"`)
		r.wants(levelKey("workload-low"))
		r.wants(schemaKey("probes"))
		r.wants(schemaKey("service-accounts"), `"matchingPrecedence":9000`, `"generation":3`)
		r.wants(levelKey("workload-high"), `"nominalConcurrencyShares":7`)
		r.wants(levelKey("system"), `"apf.kubernetes.io/autoupdate-spec":"true"`)
		r.wants(levelKey("exempt"), `"lendablePercent":6`, `"apf.kubernetes.io/autoupdate-spec":"true"`)
		r.wantsNone(schemaKey("former"))
		r.wants(schemaKey("mine"))
		if r.damaged() {
			t.Error("an object still differs")
		}
	})
}

// TestEnsure creates only missing objects. The Maintainer sets the status of those that a server
// without fairness has created.
func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		if err := Ensure(t.Context(), store, true); err != nil {
			t.Fatal(err)
		}
		if o, _ := store.State().Get(schemaKey("probes")); o == nil || !strings.Contains(string(o.Raw), `"status":{}`) {
			t.Errorf("without fairness: %+v", o)
		}
		head := store.State().Revision()
		if err := Ensure(t.Context(), store, false); err != nil || store.State().Revision() != head {
			t.Errorf("once more: %v, %d writes", err, store.State().Revision()-head)
		}
		m := Start(store, slog.New(slog.DiscardHandler))
		defer m.Close()
		synctest.Wait()
		o, _ := store.State().Get(schemaKey("probes"))
		if !strings.Contains(string(o.Raw), `"reason":"Found","status":"False","type":"Dangling"`) {
			t.Errorf("with fairness: %s", o.Raw)
		}
	})
}
