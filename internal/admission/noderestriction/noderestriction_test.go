package noderestriction

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func tree(t *testing.T, text string) resource.Tree {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := object.DecodeTree(data)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

const (
	own = `{metadata: {name: one, uid: node-uid}}`
	web = `{metadata: {name: web, namespace: ns, uid: web-uid}, spec: {nodeName: one, serviceAccountName: robot, volumes: [
		{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}, {podCertificate: {signerName: example.com/a}}]}},
		{name: d, persistentVolumeClaim: {claimName: data}}, {name: e, awsElasticBlockStore: {volumeID: v}}]}}`
	far    = `{metadata: {name: far, namespace: ns, uid: far-uid}, spec: {nodeName: two, serviceAccountName: robot}}`
	robot  = `{metadata: {name: robot, namespace: ns, uid: robot-uid}}`
	data   = `{metadata: {name: data, namespace: ns, uid: u}, spec: {volumeName: disk}}`
	disk   = `{metadata: {name: disk, uid: u}, spec: {csi: {driver: csi.example.com}}}`
	driver = `{metadata: {name: csi.example.com, uid: u}, spec: {tokenRequests: [{audience: storage}]}}`
	aws    = `{metadata: {name: ebs.csi.aws.com, uid: u}, spec: {tokenRequests: [{audience: aws}]}}`
	mirror = `{metadata: {name: m, annotations: {kubernetes.io/config.mirror: x},
		ownerReferences: [{apiVersion: v1, kind: Node, name: one, uid: node-uid, controller: true}]}, spec: {nodeName: one, volumes: [{name: e, emptyDir: {}}]}}`
	claimed = `{metadata: {name: data, resourceVersion: "1"}, spec: {volumeName: disk}, status: {phase: Bound}}`
	request = `{metadata: {name: c}, spec: {signerName: example.com/a, podName: web, podUID: web-uid, serviceAccountName: robot, serviceAccountUID: robot-uid, nodeName: one, nodeUID: node-uid}}`
	token   = `{spec: {audiences: [vault], boundObjectRef: {apiVersion: v1, kind: Pod, name: web, uid: web-uid}}}`
)

func newState(t *testing.T) *state.State {
	s, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		gr   schema.GroupResource
		text string
	}{{nodes, own}, {pods, web}, {pods, far}, {accounts, robot}, {claims, data}, {volumes, disk}, {csiDrivers, driver}, {csiDrivers, aws}} {
		obj := tree(t, o.text)
		metadata := obj["metadata"].(resource.Tree)
		namespace, _ := metadata["namespace"].(string)
		k := object.Key{Resource: o.gr, Namespace: namespace, Name: metadata["name"].(string)}
		stored, err := object.New(k, obj, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: k, Object: stored}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestPlugin checks each rule. The words are recorded in test/corpus: node-access.
func TestPlugin(t *testing.T) {
	s := newState(t)
	change := func(text, old, replacement string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, replacement, 1)
	}
	const create, update, del = resource.OperationCreate, resource.OperationUpdate, resource.OperationDelete
	for _, c := range []struct {
		resource    string // GROUP/PLURAL[/SUBRESOURCE]
		op          resource.Operation
		namespace   string
		object, old string
		permitted   string // VERB RESOURCE NAME
		want        string // part of the error; "" for none
		other       bool   // the error is not 403
	}{
		{resource: "/nodes", op: create, object: own},
		{resource: "/nodes", op: create, object: `{metadata: {name: two}}`, want: `node "one" is not allowed to modify node "two"`},
		{resource: "/nodes", op: create, object: `{metadata: {name: one, labels: {a: b, x/y: z, kubernetes.io/hostname: h, node.kubernetes.io/a: b, x.kubelet.kubernetes.io/a: b}}}`},
		{resource: "/nodes", op: create, object: `{metadata: {name: one, labels: {kubernetes.io/z: b, x.node-restriction.kubernetes.io/a: b, k8s.io/a: b}}}`,
			want: `node "one" is not allowed to set the following labels: k8s.io/a, kubernetes.io/z, x.node-restriction.kubernetes.io/a`},
		{resource: "/nodes", op: create, object: `{metadata: {name: one}, spec: {configSource: {}}}`, want: "non-nil configSource"},
		{resource: "/nodes", op: update, object: own, old: `{metadata: {name: one, labels: {k8s.io/a: b}}}`, want: "is not allowed to modify labels: k8s.io/a"},
		{resource: "/nodes", op: update, object: `{metadata: {name: one}, spec: {taints: [{key: a, effect: NoSchedule}]}}`, old: own, want: "not allowed to modify taints"},
		{resource: "/nodes", op: update, object: `{metadata: {name: one, ownerReferences: [{name: a}]}}`, old: own, want: "not allowed to modify ownerReferences"},
		{resource: "/nodes", op: update, object: `{metadata: {name: one}, spec: {configSource: {}}}`, old: own, want: "not allowed to update configSource"},
		{resource: "/nodes/status", op: update, object: `{metadata: {name: one}, status: {phase: x}}`, old: own},
		{resource: "/pods", op: create, namespace: "ns", object: mirror},
		{resource: "/pods", op: create, namespace: "ns", object: web, want: `pod does not have "kubernetes.io/config.mirror" annotation, node "one" can only create mirror pods`},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "nodeName: one", "nodeName: two"), want: "can only create pods with spec.nodeName set to itself"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "uid: node-uid", "uid: x"), want: "node one UID mismatch: expected x got node-uid"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "controller: true", "controller: false"), want: "controller owner reference"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "controller: true", "controller: true, blockOwnerDeletion: true"), want: "must not set blockOwnerDeletion"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "kind: Node", "kind: Pod"), want: "an owner reference set to itself"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "[{api", "[{}, {api"), want: "a single owner reference"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "spec: {", "spec: {serviceAccountName: a, "), want: "can not create pods that reference serviceaccounts"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "spec: {", "spec: {imagePullSecrets: [{name: a}], "), want: "reference secrets"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "spec: {", "spec: {resourceClaims: [{name: a}], "), want: "reference resourceclaims"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "emptyDir: {}", "configMap: {name: a}"), want: "reference configmaps"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "emptyDir: {}", "persistentVolumeClaim: {claimName: a}"), want: "reference persistentvolumeclaims"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "emptyDir: {}", "projected: {sources: [{clusterTrustBundle: {path: a}}]}"), want: "reference clustertrustbundles"},
		{resource: "/pods", op: create, namespace: "ns", object: change(mirror, "emptyDir: {}", "unknown: {}"), want: `unknown volume type for volume  "e"`},
		{resource: "/pods", op: update, namespace: "ns", object: web, old: web, want: `unexpected operation "UPDATE", node "one" can only create and delete mirror pods`},
		{resource: "/pods", op: del, namespace: "ns", old: web},
		{resource: "/pods", op: del, namespace: "ns", old: far, want: "can only delete pods with spec.nodeName set to itself"},
		{resource: "/pods/status", op: update, namespace: "ns", object: change(web, "spec:", "status: {phase: Running}, spec:"), old: web},
		{resource: "/pods/status", op: update, namespace: "ns", object: far, old: far, want: "can only update pod status for pods with spec.nodeName set to itself"},
		{resource: "/pods/status", op: update, namespace: "ns", object: change(web, "uid:", "labels: {a: b}, uid:"), old: web, want: "cannot update labels through pod status"},
		{resource: "/pods/status", op: update, namespace: "ns", object: change(web, "spec:", "status: {resourceClaimStatuses: [{name: a}]}, spec:"), old: web, want: "cannot update resource claim statues"},
		{resource: "/pods/status", op: update, namespace: "ns", object: change(web, "spec:", "status: {extendedResourceClaimStatus: {resourceClaimName: a}}, spec:"), old: web, want: "extended resource claim status"},
		{resource: "/pods/eviction", op: create, namespace: "ns", object: `{metadata: {name: web}}`},
		{resource: "/pods/eviction", op: create, namespace: "ns", object: `{metadata: {name: far}}`, want: "node one can only evict pods"},
		{resource: "/pods/eviction", op: create, namespace: "ns", object: `{metadata: {name: none}}`, want: `"none" not found`, other: true},
		{resource: "/pods/binding", op: create, namespace: "ns", object: `{metadata: {name: web}}`, want: `unexpected pod subresource "binding"`},
		{resource: "/persistentvolumeclaims", op: create, namespace: "ns", object: claimed, want: "may only update PVC status"},
		{resource: "/persistentvolumeclaims/status", op: update, namespace: "ns", object: change(change(claimed, `"1"`, `""`), "phase: Bound", "phase: Bound, capacity: {storage: 1Gi}, conditions: [{type: a}]"), old: claimed},
		{resource: "/persistentvolumeclaims/status", op: update, namespace: "ns", object: change(claimed, "phase: Bound", "phase: Lost"), old: claimed, want: "not allowed to update fields other than status.quantity and status.conditions"},
		{resource: "/serviceaccounts", op: create, namespace: "ns", object: robot},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: token},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "vault", "storage")},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "vault", "aws")},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "vault", "other"), want: `system:node:one is not authorized to request tokens for audience "other"`},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "vault", "other"), permitted: "request-serviceaccounts-token-audience other "},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "vault", "a, b"), want: "node may only request 0 or 1 audiences"},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: `{spec: {}}`, want: "node requested token not bound to a pod"},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, ", uid: web-uid", ""), want: "a pod binding without a uid"},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "uid: web-uid", "uid: x"), want: "the UID in the bound object reference (x) does not match"},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(change(token, "name: web", "name: far"), "web-uid", "far-uid"), want: "scheduled on a different node"},
		{resource: "/serviceaccounts/token", op: create, namespace: "ns", object: change(token, "name: web", "name: none"), want: "not found", other: true},
		{resource: "coordination.k8s.io/leases", op: create, namespace: "kube-node-lease", object: own},
		{resource: "coordination.k8s.io/leases", op: create, namespace: "ns", object: own, want: `can only access leases in the "kube-node-lease" system namespace`},
		{resource: "coordination.k8s.io/leases", op: create, namespace: "kube-node-lease", object: far, want: "can only access node lease with the same name"},
		{resource: "storage.k8s.io/csinodes", op: create, object: own},
		{resource: "storage.k8s.io/csinodes", op: update, object: far, old: far, want: "can only access CSINode with the same name"},
		{resource: "storage.k8s.io/csinodes/status", op: update, object: own, old: own, want: "CSIVolumeHealth feature gate is disabled"},
		{resource: "resource.k8s.io/resourceslices", op: create, object: `{metadata: {name: s}, spec: {nodeName: one}}`},
		{resource: "resource.k8s.io/resourceslices", op: create, object: `{metadata: {name: s}, spec: {allNodes: true}}`, want: "can only create ResourceSlice with the same NodeName"},
		{resource: "resource.k8s.io/resourceslices", op: del, old: `{metadata: {name: s}, spec: {nodeName: two}}`, want: "can only delete ResourceSlice with the same NodeName"},
		{resource: "certificates.k8s.io/certificatesigningrequests", op: create, object: `{metadata: {name: r}, spec: {signerName: example.com/a, request: eA==}}`},
		{resource: "certificates.k8s.io/certificatesigningrequests", op: create, object: `{metadata: {name: r}, spec: {signerName: kubernetes.io/kubelet-serving, request: eA==}}`, want: "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: request},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "nodeName: one", "nodeName: two"), want: "which is not the requesting node"},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "node-uid", "x"), want: "inconsistent with the running node", other: true},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "web-uid", "x"), want: "which differs from running pod", other: true},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(change(request, "web-uid", "far-uid"), "podName: web", "podName: far"), want: "is not running on node"},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "serviceAccountName: robot", "serviceAccountName: x"), want: "differs from running pod"},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "robot-uid", "x"), want: "differs from the running service account", other: true},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "example.com/a", "example.com/b"), want: `does not mount a podCertificate projected volume for signer "example.com/b"`},
		{resource: "certificates.k8s.io/podcertificaterequests", op: create, namespace: "ns", object: change(request, "example.com/a", "example.com/b"), permitted: "request-serviceaccounts-podcertificate-signer example.com:b robot"},
		{resource: "certificates.k8s.io/podcertificaterequests", op: update, namespace: "ns", object: request, old: request, want: "unexpected operation UPDATE"},
	} {
		parts := append(strings.Split(c.resource, "/"), "")
		version := &resource.Version{Name: "v1"}
		r := &resource.Request{
			Definition: &resource.Definition{Group: parts[0], Plural: parts[1]}, Version: version,
			Namespace: c.namespace, Subresource: parts[2], User: &authn.User{Name: "system:node:one", Groups: []string{"system:nodes"}},
		}
		a := &resource.Admitted{Request: r, Operation: c.op, Object: tree(t, c.object), Old: tree(t, c.old)}
		for _, obj := range []resource.Tree{a.Old, a.Object} {
			if metadata, ok := obj["metadata"].(resource.Tree); ok {
				a.Name, _ = metadata["name"].(string)
			}
		}
		p := &Plugin{State: s, Active: func() bool { return true }, Permit: func(_ context.Context, _ *resource.Request, a *authz.Attributes) error {
			if c.permitted != "" && a.Verb+" "+a.Resource+" "+a.Name == c.permitted {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
		}}
		if !p.Handles(r, c.op) {
			t.Errorf("%s %s: not handled", c.op, c.resource)
			continue
		}
		err := p.Mutate(t.Context(), a)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s %s: %v, want no error", c.op, c.resource, c.object, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s %s: error %v, want %s", c.op, c.resource, c.object, err, c.want)
		case c.want != "" && apierrors.IsForbidden(err) == c.other:
			t.Errorf("%s %s %s: %v: forbidden %t, want %t", c.op, c.resource, c.object, err, !c.other, !c.other)
		}
	}
}

// TestHandles looks at whose requests are handled.
func TestHandles(t *testing.T) {
	active := true
	p := &Plugin{Active: func() bool { return active }}
	handles := func(user resource.User, plural string, op resource.Operation) bool {
		return p.Handles(&resource.Request{Definition: &resource.Definition{Plural: plural}, User: user}, op)
	}
	node := &authn.User{Name: "system:node:one", Groups: []string{"system:nodes"}}
	for _, c := range []struct {
		what string
		got  bool
		want bool
	}{
		{"a node", handles(node, "nodes", resource.OperationCreate), true},
		{"a connection", handles(node, "pods", resource.OperationConnect), false},
		{"another resource", handles(node, "services", resource.OperationCreate), false},
		{"a user", handles(&authn.User{Name: "system:node:one"}, "nodes", resource.OperationCreate), false},
		{"the server", handles(nil, "nodes", resource.OperationCreate), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: handled %t, want %t", c.what, c.got, c.want)
		}
	}
	if active = false; handles(node, "nodes", resource.OperationCreate) {
		t.Error("handled without the mode Node")
	}
	err := p.Mutate(t.Context(), &resource.Admitted{Request: &resource.Request{
		Definition: &resource.Definition{Plural: "nodes"}, Version: &resource.Version{Name: "v1"}, User: &authn.User{Name: "system:node:", Groups: []string{"system:nodes"}},
	}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `could not determine node from user "system:node:"`) {
		t.Errorf("a node without a name: %v", err)
	}
}
