package fairness

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rig is a store that has what every server has, and a Limiter that follows it.
type rig struct {
	*testing.T
	store   *resource.Store
	limiter *Limiter
	client  *maintainer // for requests
}

func newRig(t *testing.T) *rig {
	store := newStore(t)
	if err := Ensure(t.Context(), store, false); err != nil {
		t.Fatal(err)
	}
	l := New(Options{Store: store})
	t.Cleanup(l.Close)
	return &rig{T: t, store: store, limiter: l, client: &maintainer{store: store}}
}

func (r *rig) create(key object.Key, body string) {
	r.Helper()
	request := r.client.request(key, "", "kubectl")
	request.Name = ""
	kind := map[object.Key]string{{Resource: flowSchemas}: "FlowSchema", {Resource: priorityLevels}: "PriorityLevelConfiguration"}[object.Key{Resource: key.Resource}]
	data := fmt.Sprintf(`{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": %q, %s}`, kind, body)
	if _, err := r.store.Create(r.Context(), request, resource.Body{Data: []byte(data)}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) delete(key object.Key) {
	r.Helper()
	if _, err := r.store.Delete(r.Context(), r.client.request(key, "", ""), &metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) patch(key object.Key, patch string) {
	r.Helper()
	if _, err := r.store.Patch(r.Context(), r.client.request(key, "", "kubectl"), resource.Patch{Type: types.MergePatchType, Data: []byte(patch)}); err != nil {
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

func schemaKey(name string) object.Key { return object.Key{Resource: flowSchemas, Name: name} }
func levelKey(name string) object.Key  { return object.Key{Resource: priorityLevels, Name: name} }

const everything = `"rules": [{"subjects": [{"kind": "User", "user": {"name": %q}}],
	"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]}]`

// TestDangling tells of a schema whether its level is there, as that comes and goes; requests go elsewhere meanwhile.
func TestDangling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		classified := func(want string) {
			t.Helper()
			if f := r.limiter.configuration().classify(asked("bob", "get").Attributes); f.schema.name != want {
				t.Errorf("bob's requests are of %s, want %s", f.schema.name, want)
			}
		}
		classified("global-default")
		r.create(schemaKey("mine"), `"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "own"}, `+fmt.Sprintf(everything, "bob")+`}`)
		classified("global-default") // from the next request on
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"NotFound","status":"True"`, `named \"own\" but there is no such object`, `"manager":"`+consumer+`"`)

		r.create(levelKey("own"), `"metadata": {"name": "own"}, "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}`)
		classified("mine")
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"Found","status":"False"`, `named \"own\" and it exists`)

		p, _ := r.limiter.Enter(t.Context(), asked("bob", "get"))
		r.delete(levelKey("own"))
		classified("global-default")
		p.Leave() // of a level that is gone
		synctest.Wait()
		r.wants(schemaKey("mine"), `"reason":"NotFound","status":"True"`)
		if o, _ := r.store.State().Get(schemaKey("mine")); o.Meta.UID == "" || strings.Count(string(o.Raw), `"type":"Dangling"`) != 1 {
			t.Errorf("more than one condition: %s", o.Raw)
		}
	})
}

// TestKept changes what every server has, and finds after a minute put right what is the server's, and nothing else.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before := r.store.State().Revision()
		time.Sleep(time.Hour)
		if after := r.store.State().Revision(); after != before {
			t.Fatalf("%d writes although all is as it should be", after-before)
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

		admin := asked("x", "get")
		admin.User = auth.Admin()
		if f := r.limiter.configuration().classify(admin.Attributes); f.schema.name != "exempt" || !f.exempt || f.schemaUID[0] != "" {
			t.Errorf("without its schema, the admin's request is of %s", f.schema.name)
		}
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
		if r.client.amiss() {
			t.Error("something is still amiss")
		}
	})
}

// TestEnsure makes only what is missing, in a store of a server without fairness too.
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
		l := New(Options{Store: store})
		defer l.Close()
		synctest.Wait()
		o, _ := store.State().Get(schemaKey("probes"))
		if !strings.Contains(string(o.Raw), `"reason":"Found","status":"False","type":"Dangling"`) {
			t.Errorf("with fairness: %s", o.Raw)
		}
		l.configuration()
		if got := len(l.current.Load().flows); got != 11 {
			t.Errorf("%d flows", got)
		}
	})
}
