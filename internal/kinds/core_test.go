package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestDefaults compares what clients send, in YAML, with what is returned.
func TestDefaults(t *testing.T) {
	for _, c := range []struct{ name, plural, sent, want string }{
		{"a namespace", "namespaces", `{metadata: {name: a}}`,
			`{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {kubernetes.io/metadata.name: a}}, spec: {}, status: {phase: Active}}`},
		{"a namespace without a name yet", "namespaces", `{metadata: {generateName: a}}`,
			`{apiVersion: v1, kind: Namespace, metadata: {generateName: a}, spec: {}, status: {phase: Active}}`},
		{"a config map", "configmaps", `{metadata: {name: a, labels: {}}, data: {}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`},
		{"a secret", "secrets", `{metadata: {name: a}, data: {a: eA==, b: eA==}, stringData: {b: xyz}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, data: {a: eA==, b: eHl6}}`},
		{"an old event", "events", `{metadata: {name: a}, firstTimestamp: "2026-01-01T01:00:00+01:00"}`,
			`{apiVersion: v1, kind: Event, metadata: {name: a}, eventTime: null, firstTimestamp: "2026-01-01T00:00:00Z",
			lastTimestamp: null, involvedObject: {}, source: {}, reportingComponent: "", reportingInstance: ""}`},
		{"a lease", "leases", `{metadata: {name: a}, spec: {renewTime: "2026-01-01T01:00:00.500000+01:00"}}`,
			`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {renewTime: "2026-01-01T00:00:00.500000Z"}}`},
		{"a pod", "pods", `
metadata: {name: a}
spec:
  serviceAccount: sa
  containers:
  - name: a
    image: nginx
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 0.5, memory: 1Gi}, requests: {cpu: 100m}}
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    livenessProbe: {httpGet: {port: 80}}
  volumes: [{name: a}, {name: b, secret: {secretName: c}}]`, `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  serviceAccount: sa
  serviceAccountName: sa
  restartPolicy: Always
  dnsPolicy: ClusterFirst
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
  enableServiceLinks: true
  containers:
  - name: a
    image: nginx
    imagePullPolicy: Always
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    ports: [{containerPort: 80, protocol: TCP}]
    resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}
    env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
    livenessProbe: {httpGet: {path: /, port: 80, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
  volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: c, defaultMode: 420}}]
status: {}`},
		{"a pod in the network of its host", "pods", `
spec: {hostNetwork: true, terminationGracePeriodSeconds: -1, containers: [{name: a, image: "a:b", ports: [{containerPort: 80}]}]}`, `
apiVersion: v1
kind: Pod
metadata: {}
spec:
  hostNetwork: true
  restartPolicy: Always
  dnsPolicy: ClusterFirst
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 1
  enableServiceLinks: true
  containers:
  - {name: a, image: "a:b", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
    resources: {}, ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]}
status: {}`},
		{"a deployment", "deployments", `
metadata: {name: a}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: "a:b"}]}}}`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 1
  revisionHistoryLimit: 10
  progressDeadlineSeconds: 600
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      restartPolicy: Always
      dnsPolicy: ClusterFirst
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
      containers:
      - {name: a, image: "a:b", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, resources: {}}
status: {}`},
	} {
		if diff := cmp.Diff(kindtest.Parse(t, c.want), kindtest.Decode(t, c.plural, c.sent)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestPrepareCreate(t *testing.T) {
	for _, c := range []struct{ name, plural, sent, want string }{
		{"a namespace is active and waits for its contents", "namespaces",
			`{metadata: {name: a}, spec: {finalizers: [x.y/z]}, status: {phase: Terminating, conditions: [{type: a, status: "True"}]}}`,
			`{metadata: {uid: u1, name: a, labels: {kubernetes.io/metadata.name: a}}, spec: {finalizers: [x.y/z, kubernetes]}, status: {phase: Active}}`},
		{"a service account knows secrets by name", "serviceaccounts",
			`{metadata: {name: a}, secrets: [{name: b, kind: Secret}, {kind: Secret}]}`,
			`{metadata: {uid: u1, name: a}, secrets: [{name: b}, {}]}`},
		{"a lease is not coordinated", "leases",
			`{metadata: {name: a}, spec: {holderIdentity: b, strategy: OldestEmulationVersion, preferredHolder: c}}`,
			`{metadata: {uid: u1, name: a}, spec: {holderIdentity: b}}`},
	} {
		got := kindtest.New(t, c.plural, c.sent)
		delete(got, "apiVersion")
		delete(got, "kind")
		if diff := cmp.Diff(kindtest.Parse(t, c.want), got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestValidateCore(t *testing.T) {
	large := strings.Repeat("x", corev1.MaxSecretSize+1)
	kindtest.Validate(t, []kindtest.ValidationCase{
		{Plural: "namespaces", Sent: `{spec: {finalizers: [a, "a b/c", x.y/z]}}`, Want: []string{
			`spec.finalizers: Invalid value: "a": name is neither a standard finalizer name nor is it fully qualified`,
			`spec.finalizers: Invalid value: "a b/c": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		{Plural: "namespaces", Subresource: "finalize", Old: `{}`, Sent: `{spec: {finalizers: [kubernetes, a]}}`, Want: []string{
			`spec.finalizers[1]: Invalid value: "a": name is neither a standard finalizer name nor is it fully qualified`,
		}},
		{Plural: "namespaces", Subresource: "status", Old: `{}`, Sent: `{status: {phase: Terminating}}`, Want: []string{
			"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
		}},
		{Plural: "namespaces", Subresource: "status", Old: `{}`, Sent: `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {phase: Active}}`, Want: []string{
			"status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
		}},
		{Plural: "configmaps", Sent: `{data: {"a b": "", c: ""}, binaryData: {c: "", "..": ""}}`, Want: []string{
			`data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			`data[c]: Invalid value: "c": duplicate of key present in binaryData`,
			`binaryData[..]: Invalid value: "..": must not be '..'`,
		}},
		{Plural: "configmaps", Sent: `{data: {a: ` + large + `}}`, Want: []string{`[]: Too long: may not be more than 1048576 bytes`}},
		{Plural: "configmaps", Old: `{immutable: true, data: {a: b}}`, Sent: `{data: {a: c}, binaryData: {x: eA==}}`, Want: []string{
			"immutable: Forbidden: field is immutable when `immutable` is set",
			"data: Forbidden: field is immutable when `immutable` is set",
			"binaryData: Forbidden: field is immutable when `immutable` is set",
		}},
		{Plural: "configmaps", Old: `{immutable: true, data: {a: b}}`, Sent: `{immutable: true, data: {a: b}}`},
		{Plural: "secrets", Sent: `{stringData: {a: ` + large + `, "/": ""}}`, Want: []string{
			`data[/]: Invalid value: "/": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			`data: Too long: may not be more than 1048576 bytes`,
		}},
		{Plural: "secrets", Old: `{type: a}`, Sent: `{}`, Want: []string{`type: Invalid value: "Opaque": field is immutable`}},
		{Plural: "secrets", Old: `{immutable: true, data: {a: eA==}}`, Sent: `{immutable: false, data: {}}`, Want: []string{
			"immutable: Forbidden: field is immutable when `immutable` is set",
			"data: Forbidden: field is immutable when `immutable` is set",
		}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/tls}`, Want: []string{`data[tls.crt]: Required value`, `data[tls.key]: Required value`}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/basic-auth}`, Want: []string{`data[username]: Required value`, `data[password]: Required value`}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/basic-auth, stringData: {password: ""}}`},
		{Plural: "secrets", Sent: `{type: kubernetes.io/ssh-auth, stringData: {ssh-privatekey: ""}}`, Want: []string{`data[ssh-privatekey]: Required value`}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/dockercfg}`, Want: []string{`data[.dockercfg]: Required value`}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: "{"}}`, Want: []string{
			`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input`,
		}},
		{Plural: "secrets", Sent: `{type: kubernetes.io/service-account-token}`, Want: []string{
			`metadata.annotations[kubernetes.io/service-account.name]: Required value`,
		}},
		{Plural: "events", Sent: `{metadata: {namespace: a}, involvedObject: {namespace: b}}`, Want: []string{
			`involvedObject.namespace: Invalid value: "b": does not match event.namespace`,
		}},
		{Plural: "events", Sent: `{metadata: {namespace: a}, involvedObject: {}}`, Want: []string{
			`involvedObject.namespace: Invalid value: "": does not match event.namespace`,
		}},
		{Plural: "events", Sent: `{metadata: {namespace: default}, involvedObject: {}}`},
		{Plural: "events", Sent: `{metadata: {namespace: a}, involvedObject: {namespace: a}, eventTime: "2026-01-01T00:00:00.000000Z", message: "` + large[:1025] + `"}`, Want: []string{
			`reportingComponent: Required value`,
			`reportingComponent: Invalid value: "": name part must be non-empty`,
			`reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`reportingInstance: Required value`,
			`action: Required value`,
			`reason: Required value`,
			`message: Invalid value: "": can have at most 1024 characters`,
		}},
		{Plural: "leases", Sent: `{spec: {leaseDurationSeconds: 0, leaseTransitions: -1}}`, Want: []string{
			`spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`,
			`spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0`,
		}},
	})
}

func TestNamespaceDeletion(t *testing.T) {
	deletion := kindtest.Definition(t, "namespaces").Deletion
	ns := kindtest.New(t, "namespaces", `{metadata: {name: a}}`)
	if !deletion.Finalization.Waits(ns) {
		t.Error("a namespace does not wait for its objects")
	}
	deletion.Finalization.Begin(ns)
	if phase := kind.Text(ns, "status", "phase"); phase != "Terminating" {
		t.Errorf("phase is %s", phase)
	}
	ns = kindtest.Parse(t, `{metadata: {name: a}, spec: {}}`)
	if deletion.Finalization.Waits(ns) {
		t.Error("a finalized namespace waits")
	}
	d := kindtest.Definition(t, "namespaces")
	for name, want := range map[string]string{
		"default":         `namespaces "default" is forbidden: this namespace may not be deleted`,
		"kube-system":     `namespaces "kube-system" is forbidden: this namespace may not be deleted`,
		"kube-public":     `namespaces "kube-public" is forbidden: this namespace may not be deleted`,
		"kube-node-lease": "",
		"other":           "",
	} {
		got := ""
		if err := deletion.Allow(&object.Object{Key: d.Key("", name)}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	const dns = "[must not contain dots]"
	for _, c := range []struct{ plural, obj, old, want string }{
		{"pods", `{metadata: {name: a.b}}`, "", "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: " + dns},
		{"pods", `{metadata: {name: a.b}}`, `{metadata: {name: a.b}}`, ""},
		{"jobs", `{metadata: {name: a.b}}`, "", "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: " + dns},
		{"deployments", `{metadata: {name: a}}`, "", ""},
		{"secrets", `{type: kubernetes.io/tls, stringData: {tls.crt: a, tls.key: b}}`, "", "tls: failed to find any PEM data in certificate input"},
		{"secrets", `{stringData: {tls.crt: a, tls.key: b}}`, "", ""},
		{"serviceaccounts", `{metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}}`, "",
			"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"},
		{"serviceaccounts", `{metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}}`, `{metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: "false"}}}`, ""},
	} {
		var old map[string]any
		if c.old != "" {
			old = kindtest.Decode(t, c.plural, c.old)
		}
		got := strings.Join(kindtest.Definition(t, c.plural).Strategy.Warnings(kindtest.Decode(t, c.plural, c.obj), old), "\n")
		if got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.plural, c.obj, got, c.want)
		}
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		plural, obj string
		want        map[string]string
	}{
		{"pods", `{spec: {nodeName: node, serviceAccountName: s, containers: [{name: a}]}, status: {phase: Running, podIPs: [{ip: 1.2.3.4}], nominatedNodeName: m}}`, map[string]string{
			"spec.nodeName": "node", "spec.host": "node", "spec.restartPolicy": "Always", "spec.schedulerName": "default-scheduler", "spec.serviceAccountName": "s",
			"spec.hostNetwork": "false", "status.phase": "Running", "status.podIP": "1.2.3.4", "status.podIPs": "", "status.nominatedNodeName": "m",
		}},
		{"secrets", `{}`, map[string]string{"type": "Opaque"}},
		{"namespaces", `{}`, map[string]string{"status.phase": "Active"}},
		{"jobs", `{status: {succeeded: 3}}`, map[string]string{"status.successful": "3"}},
		{"events", `{involvedObject: {kind: Pod, namespace: a, name: b, uid: c, apiVersion: v1, resourceVersion: "7", fieldPath: spec.x}, reason: r, reportingComponent: rc, type: Normal}`, map[string]string{
			"involvedObject.kind": "Pod", "involvedObject.namespace": "a", "involvedObject.name": "b", "involvedObject.uid": "c", "involvedObject.apiVersion": "v1",
			"involvedObject.resourceVersion": "7", "involvedObject.fieldPath": "spec.x", "reason": "r", "reportingComponent": "rc", "source": "rc", "type": "Normal",
		}},
	} {
		if diff := cmp.Diff(c.want, kindtest.Definition(t, c.plural).Storage.Fields(kindtest.Decode(t, c.plural, c.obj))); diff != "" {
			t.Errorf("%s: %s", c.plural, diff)
		}
	}
}

// TestFieldPaths checks that Fields reads nothing but FieldPaths, on random objects.
func TestFieldPaths(t *testing.T) {
	fill := filler(int64(seeds.Of(t)))
	for _, d := range kinds.Definitions() {
		for _, v := range d.Versions {
			if v.FieldPaths == nil {
				continue
			}
			for range 50 {
				obj := v.Model.New()
				fill.Fill(obj)
				data, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				tree, err := v.Model.Decode(data, nil)
				if err != nil {
					t.Fatal(err)
				}
				tree["metadata"].(resource.Tree)["uid"] = "u"
				o, err := object.New(object.Key{}, tree, 0, time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				part, err := o.Part(v.FieldPaths)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(v.Fields(tree), v.Fields(part)); diff != "" {
					t.Fatalf("%s: %s: %s", d.GroupVersionKind(v), diff, o.Raw)
				}
			}
		}
	}
}
