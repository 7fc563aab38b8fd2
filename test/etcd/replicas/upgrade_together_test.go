//go:build unix

package replicas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// together checks what two servers must agree on, in both directions. The name is a part of those
// of objects.
func together(t *testing.T, name string, servers []*process) {
	t.Helper()
	for i, direction := range []string{"there", "back"} {
		a, b := servers[i], servers[1-i]
		t.Run(name+"-"+direction, func(t *testing.T) {
			for what, check := range map[string]func(t *testing.T, name string, a, b *process){
				"definition": definitionTogether,
				"watch":      watchTogether,
				"namespace":  namespaceTogether,
				"owner":      ownerTogether,
				"services":   servicesTogether,
				"token":      tokenTogether,
				"quota":      quotaTogether,
				"deployment": deploymentTogether,
				"apply":      applyTogether,
				"policy":     policyTogether,
			} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					check(t, name+"-"+direction, a, b)
				})
			}
		})
	}
	agree(t, servers)
}

// definitionTogether uses a definition of one server through the other one, as soon as it is
// established.
func definitionTogether(t *testing.T, name string, a, b *process) {
	plural := strings.ReplaceAll(name, "-", "") + "s"
	a.establish(t, plural, 20*time.Second)
	path := collection(plural, "default")
	b.must(t, 201, "POST", path, custom(plural, "x"))
	a.must(t, 200, "PATCH", path+"/x", `{"data":{"value":"y"}}`)
	if got := b.must(t, 200, "GET", path+"/x", "").Data["value"]; got != "y" {
		t.Errorf("value %q, want y", got)
	}

	b.must(t, 200, "PATCH", definitions+"/"+plural+".test.example.org", `{"spec":{"versions":[
{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	later := strings.Replace(path, "/v1/", "/v2/", 1)
	for _, s := range []*process{a, b} {
		s.eventually(t, "the second version is served", func() bool { return s.do(t, "GET", later+"/x", "").status == 200 })
	}
	a.must(t, 201, "POST", later, strings.Replace(custom(plural, "z"), "/v1", "/v2", 1))
	if got := b.must(t, 200, "GET", path, "").items; len(got) != 2 {
		t.Errorf("%d objects, want 2", len(got))
	}
	b.must(t, 200, "DELETE", path+"/x", "")
	a.must(t, 404, "GET", path+"/x", "")
}

// watchTogether watches through one server from a resourceVersion of the other one.
func watchTogether(t *testing.T, name string, a, b *process) {
	start := a.must(t, 200, "GET", configMaps+"?limit=1", "").Metadata.ResourceVersion
	w := b.watch(t, configMaps, start+"&fieldSelector=metadata.name%3D"+name)
	var want []string
	for i, s := range []*process{a, b, a} {
		if i == 0 {
			s.must(t, 201, "POST", configMaps, configMap(name, "0"))
			want = append(want, "ADDED 0")
			continue
		}
		s.must(t, 200, "PUT", configMaps+"/"+name, configMap(name, fmt.Sprint(i)))
		want = append(want, fmt.Sprint("MODIFIED ", i))
	}
	b.must(t, 200, "DELETE", configMaps+"/"+name, "")
	want = append(want, "DELETED 2")
	var got []string
	for _, e := range w.next(t, len(want)) {
		got = append(got, e.Type+" "+e.Object.Data["value"])
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// namespaceTogether deletes a namespace with objects of both servers.
func namespaceTogether(t *testing.T, name string, a, b *process) {
	path := "/api/v1/namespaces/" + name
	a.must(t, 201, "POST", "/api/v1/namespaces", namespace(name))
	for i, s := range []*process{a, b} {
		s.must(t, 201, "POST", path+"/configmaps", configMap(fmt.Sprint("c", i), ""))
	}
	b.must(t, 200, "DELETE", path, "")
	for _, s := range []*process{a, b} {
		s.eventually(t, "the namespace is gone", func() bool { return s.do(t, "GET", path, "").status == 404 })
	}
	a.must(t, 201, "POST", "/api/v1/namespaces", namespace(name))
	if left := b.must(t, 200, "GET", path+"/configmaps", "").items; slices.ContainsFunc(left, func(m meta) bool { return m.Metadata.Name != "kube-root-ca.crt" }) {
		t.Errorf("left of the deleted namespace: %v", left)
	}
}

// ownerTogether deletes the owner of an object of the other server.
func ownerTogether(t *testing.T, name string, a, b *process) {
	uid := a.must(t, 201, "POST", configMaps, configMap("owner-"+name, "")).Metadata.UID
	b.must(t, 201, "POST", configMaps, dependent("owned-"+name, uid))
	a.must(t, 200, "DELETE", configMaps+"/owner-"+name, "")
	b.eventually(t, "the dependent is gone", func() bool { return b.do(t, "GET", configMaps+"/owned-"+name, "").status == 404 })
}

// servicesTogether creates services through both servers at the same time: each has an address and
// a port of its own, also after some were deleted.
func servicesTogether(t *testing.T, name string, a, b *process) {
	const services = "/api/v1/namespaces/default/services"
	var creating sync.WaitGroup
	for i, s := range []*process{a, b} {
		creating.Go(func() {
			for n := range 10 {
				service := fmt.Sprintf("s-%s-%d-%d", name, i, n)
				body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":80}]}}`, service)
				if got, err := s.try(t.Context(), "POST", services, body); err != nil || got.status != 201 {
					t.Errorf("create %s: %v, %v", service, got, err)
				}
				if n%2 == 0 {
					if got, err := s.try(t.Context(), "DELETE", services+"/"+service, ""); err != nil || got.status != 200 {
						t.Errorf("delete %s: %v, %v", service, got, err)
					}
				}
			}
		})
	}
	creating.Wait()
	var list struct {
		Items []struct {
			Spec struct {
				ClusterIP string
				Ports     []struct{ NodePort int }
			}
		}
	}
	if err := json.Unmarshal([]byte(a.must(t, 200, "GET", services, "").body), &list); err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, s := range list.Items {
		keys := []string{s.Spec.ClusterIP}
		for _, port := range s.Spec.Ports {
			if port.NodePort != 0 {
				keys = append(keys, fmt.Sprint(port.NodePort))
			}
		}
		for _, key := range keys {
			if taken[key] {
				t.Errorf("two services have %s", key)
			}
			taken[key] = true
		}
	}
}

// tokenTogether sends the token that one server has issued to the other one.
func tokenTogether(t *testing.T, _ string, a, b *process) {
	got := a.must(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", `{"spec":{}}`)
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(got.body), &request); err != nil {
		t.Fatal(err)
	}
	config := *b.config
	config.CertData, config.KeyData, config.BearerToken = nil, nil, request.Status.Token
	newAPI(t, &config).must(t, 200, "GET", "/apis", "")
	if got := newAPI(t, &config).must(t, 403, "GET", configMaps, ""); !strings.Contains(got.Message, "system:serviceaccount:default:default") {
		t.Errorf("the answer does not name the account: %v", got)
	}
}

// quotaTogether uses up a quota through both servers at the same time.
func quotaTogether(t *testing.T, name string, a, b *process) {
	name = "quota-" + name
	path := "/api/v1/namespaces/" + name
	a.must(t, 201, "POST", "/api/v1/namespaces", namespace(name))
	b.must(t, 201, "POST", path+"/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"count/secrets":"7"}}}`)
	a.eventually(t, "the quota has a status", func() bool {
		return strings.Contains(a.must(t, 200, "GET", path+"/resourcequotas/q", "").body, `"used"`)
	})
	var created atomic.Int64
	var creating sync.WaitGroup
	for i, s := range []*process{a, b} {
		creating.Go(func() {
			for n := range 6 {
				got, err := s.try(t.Context(), "POST", path+"/secrets", fmt.Sprintf(`{"metadata":{"name":"s-%d-%d"}}`, i, n))
				switch {
				case err == nil && got.status == 201:
					created.Add(1)
				case err != nil || got.status != 403 || !strings.Contains(got.Message, "exceeded quota"):
					t.Errorf("create a secret: %v, %v", got, err)
				}
			}
		})
	}
	creating.Wait()
	if got := created.Load(); got != 7 {
		t.Errorf("%d secrets are created, want 7", got)
	}
}

// deploymentTogether scales a deployment of one server through the other one.
func deploymentTogether(t *testing.T, name string, a, b *process) {
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	a.must(t, 201, "POST", deployments, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"replicas":1,"selector":{"matchLabels":{"app":%q}},
"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, name, name, name))
	for i, s := range []*process{b, a} {
		s.must(t, 200, "PATCH", deployments+"/"+name+"/scale", fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+i))
		s.eventually(t, "the deployment has its pods", func() bool {
			return len(s.must(t, 200, "GET", "/api/v1/namespaces/default/pods?labelSelector=app%3D"+name, "").items) == 2+i
		})
	}
}

// applyTogether applies the fields of an object as two managers, one at each server.
func applyTogether(t *testing.T, name string, a, b *process) {
	name = "applied-" + name
	for _, step := range []struct {
		s             *process
		manager, data string
		status        int
	}{
		{a, "one", `{"a":"1"}`, 201},
		{b, "two", `{"b":"2"}`, 200},
		{b, "two", `{"a":"2","b":"2"}`, 409},
		{a, "one", `{}`, 200},
		{b, "two", `{"a":"2","b":"2"}`, 200},
	} {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":%s}`, name, step.data)
		if got := step.s.do(t, apply, configMaps+"/"+name+"?fieldManager="+step.manager, body); got.status != step.status {
			t.Fatalf("apply %s as %s: %v, want %d", step.data, step.manager, got, step.status)
		}
	}
	if got := a.must(t, 200, "GET", configMaps+"/"+name, "").Data; len(got) != 2 || got["a"] != "2" {
		t.Errorf("data %v, want a and b of the second manager", got)
	}
}

// policyTogether creates an admission policy through one server, which the other one enforces.
func policyTogether(t *testing.T, name string, a, b *process) {
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	a.must(t, 201, "POST", policies+"ies", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[
{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"],"resourceNames":["forbidden-%s"]}]},
"validations":[{"expression":"false"}]}}`, name, name))
	a.must(t, 201, "POST", policies+"ybindings", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name))
	for _, s := range []*process{b, a} {
		s.eventually(t, "the policy is enforced", func() bool {
			return s.do(t, "POST", configMaps+"?dryRun=All", configMap("forbidden-"+name, "")).status == 422
		})
	}
}

// agree compares all objects of both servers, each kind at one revision. A kind that only one of
// them serves is left out.
func agree(t *testing.T, servers []*process) {
	t.Helper()
	a, b := servers[0], servers[1]
	compared := 0
	for _, path := range a.collections(t) {
		mine := a.must(t, 200, "GET", path, "")
		theirs := b.do(t, "GET", path+"?resourceVersionMatch=Exact&resourceVersion="+mine.Metadata.ResourceVersion, "")
		if theirs.status == 404 {
			t.Logf("%s is not served by both", path)
			continue
		}
		if theirs.status != 200 {
			t.Errorf("list %s at %s: %v", path, mine.Metadata.ResourceVersion, theirs)
			continue
		}
		x, y := objects(t, mine), objects(t, theirs)
		if !slices.EqualFunc(x, y, func(x, y any) bool { return reflect.DeepEqual(x, y) }) {
			t.Errorf("%s at %s differs:\n%s\n%s", path, mine.Metadata.ResourceVersion, mine.body, theirs.body)
		}
		compared += len(x)
	}
	t.Logf("%d objects are equal", compared)
}

func objects(t *testing.T, list answer) []any {
	t.Helper()
	var l struct{ Items []any }
	if err := json.Unmarshal([]byte(list.body), &l); err != nil {
		t.Fatal(err)
	}
	return l.Items
}

// collections returns the paths of all lists that a server serves.
func (a *api) collections(t *testing.T) (paths []string) {
	t.Helper()
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	if err := json.Unmarshal([]byte(a.must(t, 200, "GET", "/apis", "").body), &groups); err != nil {
		t.Fatal(err)
	}
	versions := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, "/apis/"+v.GroupVersion)
		}
	}
	for _, v := range versions {
		var list struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		if err := json.Unmarshal([]byte(a.must(t, 200, "GET", v, "").body), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Resources {
			if slices.Contains(r.Verbs, "watch") {
				paths = append(paths, v+"/"+r.Name)
			}
		}
	}
	return paths
}
