package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// fixture is a state with objects, and an Authorizer over it.
type fixture struct {
	t      testing.TB
	state  *state.State
	by     *Authorizer
	stored map[object.Key]object.Revision
}

func newFixture(t testing.TB) *fixture {
	s, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	services := rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"services"}}
	return &fixture{t, s, New(s, []rbacv1.PolicyRule{services}), map[object.Key]object.Revision{}}
}

// put stores an object, which is YAML without metadata other than annotations, or removes it if
// text is "".
func (f *fixture) put(gr schema.GroupResource, namespace, name, text string) {
	f.t.Helper()
	k := object.Key{Resource: gr, Namespace: namespace, Name: name}
	entry := journal.Entry{Key: k, Prev: f.stored[k]}
	if text != "" {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.t.Fatal(err)
		}
		tree, err := object.DecodeTree(data)
		if err != nil {
			f.t.Fatal(err)
		}
		metadata, _ := tree["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"], metadata["uid"] = name, "u"
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		tree["metadata"] = metadata
		if entry.Object, err = object.New(k, tree, 0, time.Now()); err != nil {
			f.t.Fatal(err)
		}
	} else if entry.Prev == 0 {
		return
	}
	rev, err := f.state.Append(f.t.Context(), journal.Batch{Entries: []journal.Entry{entry}})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.stored[k] = rev; text == "" {
		delete(f.stored, k)
	}
}

// ask returns the reason why a node may not send a request, "" if it may, and "-" for a denial
// without a reason. A request is "VERB GROUP/RESOURCE[/SUBRESOURCE] NAMESPACE NAME [FIELDS]", with
// - for what is empty.
func (f *fixture) ask(node, request string) string {
	f.t.Helper()
	words := strings.Fields(strings.ReplaceAll(request, " - ", "  - "))
	for i, w := range words {
		words[i] = strings.TrimPrefix(w, "-")
	}
	parts := append(strings.Split(words[1], "/"), "")
	a := &authz.Attributes{
		User: &authn.User{Name: "system:node:" + node, Groups: []string{Group}}, ResourceRequest: true, Verb: words[0],
		APIGroup: parts[0], Resource: parts[1], Subresource: parts[2], Namespace: words[2], Name: words[3],
	}
	if len(words) > 4 {
		a.Fields = fields.ParseSelectorOrDie(words[4]).Requirements()
	}
	d, reason, err := f.by.Authorize(context.Background(), a)
	switch {
	case err != nil || d == authz.Deny:
		f.t.Errorf("node %s: %s: decision %v, error %v", node, request, d, err)
	case d == authz.NoOpinion && reason == "":
		return "-"
	}
	return reason
}

const mounting = `
spec:
  nodeName: one
  serviceAccountName: robot
  imagePullSecrets: [{name: pull}]
  initContainers: [{name: i, env: [{name: A, valueFrom: {secretKeyRef: {name: init, key: a}}}]}]
  containers: [{name: c, envFrom: [{secretRef: {name: all}}, {configMapRef: {name: settings}}]}]
  ephemeralContainers: [{name: e, env: [{name: A, valueFrom: {configMapKeyRef: {name: debug, key: a}}}]}]
  resourceClaims: [{name: r, resourceClaimName: gpu}, {name: t, resourceClaimTemplateName: x}, {name: u, resourceClaimTemplateName: x}]
  volumes:
  - {name: s, secret: {secretName: mounted}}
  - {name: d, persistentVolumeClaim: {claimName: data}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {}}}}
  - {name: p, projected: {sources: [{secret: {name: part}}, {configMap: {name: partmap}}]}}
  - {name: v, csi: {driver: x, nodePublishSecretRef: {name: publish}}}
status:
  resourceClaimStatuses: [{name: t, resourceClaimName: made}, {name: u}]
  extendedResourceClaimStatus: {resourceClaimName: extended, requestMappings: []}
`

const noRelation = "no relationship found between node '%s' and this object"

// TestRelated looks at objects that a pod of a node refers to.
func TestRelated(t *testing.T) {
	f := newFixture(t)
	f.put(pods, "ns", "web", mounting)
	f.put(volumes, "", "disk", `{spec: {claimRef: {namespace: ns, name: data}, csi: {driver: x, volumeHandle: h,
		nodeStageSecretRef: {namespace: vault, name: stage}, controllerPublishSecretRef: {namespace: vault, name: controller}}}}`)
	f.put(volumes, "", "free", `{spec: {csi: {driver: x, volumeHandle: h, nodeStageSecretRef: {namespace: vault, name: free}}}}`)
	f.put(attachments, "", "att", `{spec: {nodeName: one}}`)
	f.put(resourceSlices, "", "slice", `{spec: {nodeName: one}}`)
	f.put(resourceSlices, "", "shared", `{spec: {allNodes: true}}`)
	f.put(podCertificates, "ns", "cert", `{spec: {nodeName: one}}`)
	mine := []string{
		"get /pods ns web", "list /pods ns web", "get /serviceaccounts ns robot", "create /serviceaccounts/token ns robot",
		"get /secrets ns pull", "watch /secrets ns init", "list /secrets ns all", "get /secrets ns mounted", "get /secrets ns part", "get /secrets ns publish",
		"get /configmaps ns settings", "get /configmaps ns debug", "get /configmaps ns partmap",
		"get /persistentvolumeclaims ns data", "patch /persistentvolumeclaims/status ns data", "get /persistentvolumeclaims ns web-scratch",
		"get /persistentvolumes - disk", "get /secrets vault stage",
		"get resource.k8s.io/resourceclaims ns gpu", "get resource.k8s.io/resourceclaims ns made", "get resource.k8s.io/resourceclaims ns extended",
		"get storage.k8s.io/volumeattachments - att", "delete resource.k8s.io/resourceslices - slice",
		"get certificates.k8s.io/podcertificaterequests ns cert",
	}
	for _, request := range mine {
		if got := f.ask("one", request); got != "" {
			t.Errorf("its node: %s: %q, want allowed", request, got)
		}
		if got, want := f.ask("two", request), fmt.Sprintf(noRelation, "two"); got != want {
			t.Errorf("another node: %s: %q, want %q", request, got, want)
		}
	}
	for _, request := range []string{
		"get /secrets ns other", "get /secrets other mounted", "get /configmaps ns mounted", "get /secrets vault controller", "get /secrets vault free",
		"get /persistentvolumes - free", "get resource.k8s.io/resourceclaims ns x", "get resource.k8s.io/resourceslices - shared",
	} {
		if got, want := f.ask("one", request), fmt.Sprintf(noRelation, "one"); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	f.put(pods, "ns", "web", "")
	for _, request := range mine[:21] {
		if got, want := f.ask("one", request), fmt.Sprintf(noRelation, "one"); got != want {
			t.Errorf("after the pod was deleted: %s: %q, want %q", request, got, want)
		}
	}
	f.put(pods, "ns", "web", "metadata: {annotations: {kubernetes.io/config.mirror: x}}\n"+strings.TrimSpace(mounting))
	if got := f.ask("one", "get /pods ns web"); got != "" {
		t.Errorf("a mirror pod: %q, want allowed", got)
	}
	if got, want := f.ask("one", "get /secrets ns mounted"), fmt.Sprintf(noRelation, "one"); got != want {
		t.Errorf("a secret of a mirror pod: %q, want %q", got, want)
	}
	f.put(pods, "ns", "web", strings.Replace(mounting, "nodeName: one", "schedulerName: x", 1))
	if got, want := f.ask("one", "get /secrets ns mounted"), fmt.Sprintf(noRelation, "one"); got != want {
		t.Errorf("a secret of a pod without a node: %q, want %q", got, want)
	}
}

// TestReasons looks at requests that do not depend on relations.
func TestReasons(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ request, want string }{
		{"get /services ns web", ""},
		{"delete /services ns web", "-"},
		{"get /services/status ns web", "-"},
		{"create /secrets ns a", "can only read resources of this type"},
		{"get /secrets/status ns a", "cannot read subresource"},
		{"list /secrets - -", "can only read namespaced object of this type"},
		{"list /secrets ns -", "No Object name found"},
		{"list /persistentvolumes - -", "can only get individual resources of this type"},
		{"get /persistentvolumes/status - a", "cannot get subresource"},
		{"get /persistentvolumeclaims/status ns a", "can only get/update/patch this type"},
		{"list /serviceaccounts ns a", "can only create tokens for individual service accounts"},
		{"create /serviceaccounts ns a", "can only create token subresource of serviceaccount"},
		{"list coordination.k8s.io/leases kube-node-lease -", "can only get, create, update, patch, or delete a node lease"},
		{"get coordination.k8s.io/leases ns n", `can only access leases in the "kube-node-lease" system namespace`},
		{"get coordination.k8s.io/leases kube-node-lease m", "can only access node lease with the same name as the requesting node"},
		{"get coordination.k8s.io/leases kube-node-lease n", ""},
		{"create coordination.k8s.io/leases kube-node-lease -", ""},
		{"list storage.k8s.io/csinodes - -", "can only get, create, update, patch, or delete a CSINode"},
		{"get storage.k8s.io/csinodes - m", "can only access CSINode with the same name as the requesting node"},
		{"patch storage.k8s.io/csinodes - n", ""},
		{"patch storage.k8s.io/csinodes/status - n", "CSINode status access requires CSIVolumeHealth feature"},
		{"patch storage.k8s.io/csinodes/scale - n", "cannot authorize CSINode subresources"},
		{"create resource.k8s.io/resourceslices - -", ""},
		{"list resource.k8s.io/resourceslices - - spec.nodeName=n", ""},
		{"deletecollection resource.k8s.io/resourceslices - - spec.nodeName=m", "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"get resource.k8s.io/resourceslices/status - a", "cannot authorize ResourceSlice subresources"},
		{"escalate resource.k8s.io/resourceslices - a", "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"},
		{"create certificates.k8s.io/podcertificaterequests ns -", ""},
		{"watch certificates.k8s.io/podcertificaterequests - - spec.nodeName=n", ""},
		{"watch certificates.k8s.io/podcertificaterequests - -", "can only list/watch podcertificaterequests with nodeName field selector"},
		{"delete certificates.k8s.io/podcertificaterequests ns a", "nodes may not delete podcertificaterequests"},
		{"get certificates.k8s.io/podcertificaterequests/status ns a", "nodes may not access the status subresource of PodCertificateRequests"},
		{"create /nodes - -", ""},
		{"patch /nodes - n", ""},
		{"get /nodes - n", ""},
		{"list /nodes - -", "node 'n' cannot read all nodes, only its own Node object"},
		{"get /nodes - m", "node 'n' cannot read 'm', only its own Node object"},
		{"delete /nodes - n", "-"},
		{"patch /nodes/status - n", ""},
		{"get /nodes/proxy - n", "-"},
		{"list /pods - - spec.nodeName=n", ""},
		{"watch /pods - - spec.nodeName!=n", "can only list/watch pods with spec.nodeName field selector"},
		{"list /pods ns -", "can only list/watch pods with spec.nodeName field selector"},
		{"create /pods ns -", ""},
		{"delete /pods ns a", ""},
		{"update /pods ns a", "-"},
		{"patch /pods/status ns a", ""},
		{"create /pods/eviction ns a", ""},
		{"create /pods/binding ns a", "-"},
		{"get /pods/log ns a", "-"},
	} {
		if got := f.ask("n", c.request); got != c.want {
			t.Errorf("%s: %q, want %q", c.request, got, c.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		user *authn.User
		name string
		ok   bool
	}{
		{nil, "", false},
		{&authn.User{Name: "system:node:a", Groups: []string{"x", Group}}, "a", true},
		{&authn.User{Name: "system:node:a"}, "", false},
		{&authn.User{Name: "a", Groups: []string{Group}}, "", false},
		{&authn.User{Name: "system:node:", Groups: []string{Group}}, "", true},
	} {
		if name, ok := Identity(c.user); name != c.name || ok != c.ok {
			t.Errorf("Identity(%+v) = %q, %t, want %q, %t", c.user, name, ok, c.name, c.ok)
		}
	}
	f := newFixture(t)
	if got, want := f.ask("", "get /nodes - -"), `unknown node for user "system:node:"`; got != want {
		t.Errorf("a node without a name: %q, want %q", got, want)
	}
	if _, incomplete, err := f.by.RulesFor(t.Context(), &authn.User{Name: "system:node:a", Groups: []string{Group}}, ""); !incomplete || err == nil {
		t.Errorf("RulesFor(a node): incomplete %t, %v", incomplete, err)
	}
}

// TestRandom compares a graph that has followed many changes with one that is made from the
// objects.
func TestRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 1))
	f := newFixture(t)
	pick := func(from string) string { list := strings.Fields(from); return list[rnd.IntN(len(list))] }
	few := "a b c"
	for range 400 {
		namespace, name := pick("x y"), pick(few)
		switch text := ""; rnd.IntN(4) {
		case 0:
			if rnd.IntN(4) > 0 {
				text = fmt.Sprintf(`{spec: {claimRef: {namespace: %s, name: %s}, csi: {driver: d, volumeHandle: h, nodeStageSecretRef: {namespace: %s, name: %s}}}}`,
					pick("x y"), pick(few), pick("x y"), pick(few))
			}
			f.put(volumes, "", name, text)
		case 1:
			if rnd.IntN(4) > 0 {
				text = fmt.Sprintf(`{spec: {nodeName: %s}}`, pick("n m"))
			}
			f.put(attachments, "", name, text)
		default:
			if rnd.IntN(4) > 0 {
				text = fmt.Sprintf(`{spec: {nodeName: %s, imagePullSecrets: [{name: %s}, {name: %s}], volumes: [{name: v, persistentVolumeClaim: {claimName: %s}}]}}`,
					pick("n m"), pick(few), pick(few), pick(few))
			}
			f.put(pods, namespace, name, text)
		}
		if rnd.IntN(3) > 0 {
			continue
		}
		got, want := dump(f.by.graph.Load()), dump(New(f.state, nil).graph.Load())
		if got != want {
			t.Fatalf("the graph after changes is\n%s\nwant\n%s", got, want)
		}
	}
}

func dump(g *graph) string {
	var lines []string
	g.edges.Scan(func(e edge) bool { lines = append(lines, fmt.Sprintf("%v", e)); return true })
	g.secrets.Scan(func(v volumeSecret) bool { lines = append(lines, fmt.Sprintf("%v", v)); return true })
	g.claims.Scan(func(name string, to thing) bool { lines = append(lines, fmt.Sprintf("%s %v", name, to)); return true })
	g.sources.Scan(func(s source) bool { lines = append(lines, fmt.Sprintf("%v", s)); return true })
	return strings.Join(lines, "\n")
}

// TestChangeCostsWhatItChanges counts the work of a step: it does not depend on other objects.
func TestChangeCostsWhatItChanges(t *testing.T) {
	f := newFixture(t)
	for i := range 200 {
		f.put(pods, "ns", fmt.Sprintf("pod-%d", i), mounting)
	}
	f.by.graph.Load()
	f.put(pods, "ns", "pod-7", strings.Replace(mounting, "name: pull", "name: other", 1))
	if got := f.by.graph.Load().work; got.objects != 1 || got.edges > 40 {
		t.Errorf("one changed pod: %+v", got)
	}
	f.put(pods, "ns", "pod-7", strings.Replace(mounting, "name: pull", "name: other", 1)+"  phase: Running\n")
	if got := f.by.graph.Load().work; got != (work{objects: 1}) {
		t.Errorf("a status without references: %+v, want no changed edges", got)
	}
}

// BenchmarkChange measures the first decision after the status of a pod has changed.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			f := newFixture(b)
			for i := range n {
				f.put(pods, "ns", fmt.Sprintf("pod-%d", i), mounting)
			}
			f.ask("one", "get /secrets ns mounted")
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				f.put(pods, "ns", "pod-7", mounting+fmt.Sprintf("  phase: %d\n", i))
				b.StartTimer()
				f.ask("one", "get /secrets ns mounted")
			}
		})
	}
}

// BenchmarkAuthorize measures decisions about a secret that the pods of all nodes refer to.
func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{100, 10000} {
		f := newFixture(b)
		for i := range n {
			f.put(pods, "ns", fmt.Sprintf("pod-%d", i), strings.Replace(mounting, "nodeName: one", fmt.Sprintf("nodeName: node-%d", i), 1))
		}
		f.by.graph.Load()
		for _, node := range []string{"node-7", "other"} {
			b.Run(fmt.Sprintf("nodes=%d/%s", n, node), func(b *testing.B) {
				b.ReportAllocs()
				a := &authz.Attributes{
					User: &authn.User{Name: "system:node:" + node, Groups: []string{Group}}, ResourceRequest: true, Verb: "get", Resource: "secrets", Namespace: "ns", Name: "mounted",
				}
				for b.Loop() {
					f.by.Authorize(b.Context(), a)
				}
			})
		}
	}
}
