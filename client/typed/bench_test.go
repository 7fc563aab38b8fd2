package typed

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Objects as a server stores them: with defaults, and with managed fields.
var (
	podYAML = `
apiVersion: v1
kind: Pod
metadata:
  annotations: {kubernetes.io/config.seen: "2026-01-02T03:04:05Z", prometheus.io/scrape: "true"}
  creationTimestamp: "2026-01-02T03:04:05Z"
  generateName: web-7c9d8f6b5-
  labels: {app: web, pod-template-hash: 7c9d8f6b5, tier: front}
  managedFields:
  - apiVersion: v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}}
    manager: kube-controller-manager
    operation: Update
    time: "2026-01-02T03:04:05Z"
  name: web-7c9d8f6b5-x2x4z
  namespace: default
  ownerReferences:
  - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet, name: web-7c9d8f6b5, uid: 6f0c3a0e-58a9-4b0e-9d3c-0d4f8e1d8c11}
  resourceVersion: "12345"
  uid: 0b0b2c6e-1f0d-4a43-8f5a-0f7f5f1b8a22
spec:
  containers:
  - env:
    - {name: MODE, value: production}
    - {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
    image: registry.example.com/web:1.2.3
    imagePullPolicy: IfNotPresent
    livenessProbe: {failureThreshold: 3, httpGet: {path: /healthz, port: 8080, scheme: HTTP}, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
    name: web
    ports: [{containerPort: 8080, name: http, protocol: TCP}]
    readinessProbe: {failureThreshold: 3, httpGet: {path: /ready, port: http, scheme: HTTP}, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
    resources: {limits: {cpu: 500m, memory: 256Mi}, requests: {cpu: 100m, memory: 128Mi}}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - {mountPath: /etc/web, name: config}
    - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access-abcde, readOnly: true}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  nodeName: node-1
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {fsGroup: 1000}
  serviceAccount: default
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  - {effect: NoExecute, key: node.kubernetes.io/unreachable, operator: Exists, tolerationSeconds: 300}
  volumes:
  - {configMap: {defaultMode: 420, name: web}, name: config}
  - name: kube-api-access-abcde
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {expirationSeconds: 3607, path: token}
      - configMap: {items: [{key: ca.crt, path: ca.crt}], name: kube-root-ca.crt}
status:
  conditions:
  - {lastProbeTime: null, lastTransitionTime: "2026-01-02T03:04:05Z", status: "True", type: PodScheduled}
  - {lastProbeTime: null, lastTransitionTime: "2026-01-02T03:04:06Z", status: "True", type: Ready}
  phase: Running
  podIP: 10.0.0.12
  podIPs: [{ip: 10.0.0.12}]
  qosClass: Burstable
  startTime: "2026-01-02T03:04:05Z"
`
	deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {creationTimestamp: "2026-01-02T03:04:05Z", generation: 2, labels: {app: web}, name: web, namespace: default, resourceVersion: "99", uid: 5d0d}
spec:
  progressDeadlineSeconds: 600
  replicas: 3
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}, type: RollingUpdate}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {image: "web:1", imagePullPolicy: Always, name: web, resources: {requests: {cpu: 100m}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
status: {availableReplicas: 3, observedGeneration: 2, readyReplicas: 3, replicas: 3, updatedReplicas: 3}
`
	configMapYAML = `
apiVersion: v1
kind: ConfigMap
metadata: {creationTimestamp: "2026-01-02T03:04:05Z", name: config, namespace: default, resourceVersion: "99", uid: 5d0d}
data: {a: "1", b: "2", c: "3", d: "4", e: "5", f: "6", g: "7", h: "8", i: "9", j: "10"}
`
)

// BenchmarkConvert compares the cost of both converters.
func BenchmarkConvert(b *testing.B) {
	for _, c := range []struct {
		name, yaml string
		typ        reflect.Type
	}{
		{"Pod", podYAML, reflect.TypeFor[corev1.Pod]()},
		{"Deployment", deploymentYAML, reflect.TypeFor[appsv1.Deployment]()},
		{"ConfigMap", configMapYAML, reflect.TypeFor[corev1.ConfigMap]()},
	} {
		obj := reflect.New(c.typ).Interface()
		if err := yaml.UnmarshalStrict([]byte(c.yaml), obj); err != nil {
			b.Fatal(err)
		}
		tree, err := converter.ToUnstructured(obj)
		if err != nil {
			b.Fatal(err)
		}
		if err := compareFrom(c.typ, tree); err != nil {
			b.Fatal(err)
		}
		for name, from := range map[string]func(map[string]any, any) error{"typed": FromTree, "apimachinery": converter.FromUnstructured} {
			b.Run(c.name+"/from/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := from(tree, reflect.New(c.typ).Interface()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for name, to := range map[string]func(any) (map[string]any, error){"typed": ToTree, "apimachinery": converter.ToUnstructured} {
			b.Run(c.name+"/to/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := to(obj); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
