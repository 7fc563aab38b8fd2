package pods_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestPreparePod(t *testing.T) {
	pod := kindtest.New(t, "pods", `{metadata: {name: a, generation: 7}, spec: {containers: [{name: a, image: b}]}, status: {phase: Running, podIP: 1.2.3.4}}`)
	if diff := cmp.Diff(kindtest.Parse(t, `{phase: Pending, qosClass: BestEffort}`), pod["status"]); diff != "" {
		t.Error(diff)
	}
	if generation := kind.Get(pod, "metadata", "generation"); generation != int64(1) {
		t.Errorf("generation is %v", generation)
	}
	pod = kindtest.New(t, "pods", `{spec: {schedulingGates: [{name: a.b/c}], containers: [{name: a, image: b}]}}`)
	conditions, _ := kind.Get(pod, "status", "conditions").([]any)
	if len(conditions) != 1 || kind.Text(conditions[0].(resource.Tree), "reason") != "SchedulingGated" {
		t.Errorf("conditions are %v", conditions)
	}
}

func TestQOS(t *testing.T) {
	const guaranteed = `{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m, memory: "1073741824"}}`
	for _, c := range []struct {
		resources []string // resources of the containers
		want      corev1.PodQOSClass
	}{
		{nil, corev1.PodQOSBestEffort},
		{[]string{"{}"}, corev1.PodQOSBestEffort},
		{[]string{guaranteed}, corev1.PodQOSGuaranteed},
		{[]string{guaranteed, guaranteed}, corev1.PodQOSGuaranteed},
		{[]string{guaranteed, "{}"}, corev1.PodQOSBurstable},
		{[]string{"{limits: {cpu: 1}}"}, corev1.PodQOSBurstable},
		{[]string{"{requests: {cpu: 1}}"}, corev1.PodQOSBurstable},
		{[]string{"{limits: {example.com/gpu: 1}}"}, corev1.PodQOSBestEffort},
	} {
		var containers []string
		for _, r := range c.resources {
			containers = append(containers, "{resources: "+r+"}")
		}
		pod := kindtest.New(t, "pods", "{spec: {containers: ["+strings.Join(containers, ",")+"]}}")
		if got := kind.Text(pod, "status", "qosClass"); got != string(c.want) {
			t.Errorf("%v: got %s, want %s", c.resources, got, c.want)
		}
	}
}

func TestPodGrace(t *testing.T) {
	asks := func(seconds int64) *int64 { return &seconds }
	for _, c := range []struct {
		pod   string
		asked *int64
		want  int64
	}{
		{`{spec: {terminationGracePeriodSeconds: 5}}`, nil, 0},
		{`{spec: {nodeName: node}}`, nil, 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}}`, nil, 5},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: -5}}`, nil, 1},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Failed}}`, nil, 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Succeeded}}`, nil, 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Running}, kind: Pod}`, nil, 5},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 0}, status: {phase: Running}}`, asks(60), 60},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Running}}`, asks(60), 60},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Running}}`, asks(0), 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: -5}}`, asks(60), 60},
		{`{spec: {nodeName: node}}`, asks(-60), 1},
		{`{spec: {terminationGracePeriodSeconds: 5}}`, asks(60), 0},
		{`{spec: {terminationGracePeriodSeconds: 5}}`, asks(-60), 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Failed}}`, asks(60), 0},
		{`{spec: {nodeName: node, terminationGracePeriodSeconds: 0}, status: {phase: Succeeded}}`, asks(60), 0},
	} {
		if got := pods.Grace(kindtest.Parse(t, c.pod), c.asked); got != c.want {
			asked := "nothing"
			if c.asked != nil {
				asked = strconv.FormatInt(*c.asked, 10)
			}
			t.Errorf("%s, asked for %s: got %d, want %d", c.pod, asked, got, c.want)
		}
	}
}

func TestValidatePod(t *testing.T) {
	pod := func(spec string) string { return `{spec: {containers: [{name: a, image: b}], ` + spec + `}}` }
	container := func(fields string) string { return `{spec: {containers: [{name: a, image: b, ` + fields + `}]}}` }
	kindtest.Validate(t, []kindtest.ValidationCase{
		{Plural: "pods", Sent: pod(``)},
		{Plural: "pods", Sent: `{spec: {}}`, Want: []string{`spec.containers: Required value`}},
		{Plural: "pods", Sent: `{spec: {containers: [{name: "", image: ""}, {name: A_, image: " b"}, {name: a, image: b}, {name: a, image: b}]}}`, Want: []string{
			`spec.containers[0].name: Required value`,
			`spec.containers[0].image: Required value`,
			`spec.containers[1].name: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`spec.containers[3].name: Duplicate value: "a"`,
			`spec.containers[1].image: Invalid value: " b": must not have leading or trailing whitespace`,
		}},
		{Plural: "pods", Sent: pod(`restartPolicy: X, dnsPolicy: Z, nodeName: "A B", initContainers: [{name: a, image: b, livenessProbe: {exec: {command: [x]}}}]`), Want: []string{
			`spec.initContainers[0].name: Duplicate value: "a"`,
			`spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`,
			`spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"`,
			`spec.dnsPolicy: Unsupported value: "Z": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`,
			`spec.nodeName: Invalid value: "A B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		{Plural: "pods", Sent: container(`imagePullPolicy: X, ports: [{name: web, containerPort: 0}, {name: web, containerPort: 99999, protocol: X}]`), Want: []string{
			`spec.containers[0].ports[0].containerPort: Required value`,
			`spec.containers[0].ports[1].name: Duplicate value: "web"`,
			`spec.containers[0].ports[1].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive`,
			`spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`,
			`spec.containers[0].imagePullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"`,
		}},
		{Plural: "pods", Sent: container(`env: [{name: ""}, {name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {}}, {name: C, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}}, {name: D, valueFrom: {fieldRef: {fieldPath: status.phase}}}]`), Want: []string{
			`spec.containers[0].env[0].name: Required value`,
			"spec.containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
			"spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
			`spec.containers[0].env[3].valueFrom.fieldRef: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.containers[0].env[4].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`,
		}},
		{Plural: "pods", Sent: container(`resources: {limits: {cpu: 1, foo: 1, a.b/c: 1}, requests: {cpu: 2, memory: -1, a.b/c: 2, d.e/f: 1}}`), Want: []string{
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be equal to a.b/c limit of 1`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
			`spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
		}},
		{Plural: "pods", Sent: container(`volumeMounts: [{name: x, mountPath: ""}], livenessProbe: {exec: {}, tcpSocket: {port: 0}, successThreshold: 2}, readinessProbe: {}`), Want: []string{
			`spec.containers[0].volumeMounts[0].name: Not found: "x"`,
			`spec.containers[0].volumeMounts[0].mountPath: Required value`,
			`spec.containers[0].livenessProbe.exec.command: Required value`,
			`spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`,
			`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`,
			`spec.containers[0].readinessProbe: Required value: must specify a handler type`,
		}},
		{Plural: "pods", Sent: pod(`volumes: [{name: a, hostPath: {path: ""}}, {name: A}, {name: b, secret: {secretName: s, defaultMode: 1000}, configMap: {name: c}}]`), Want: []string{
			`spec.volumes[0].hostPath.path: Required value`,
			`spec.volumes[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`spec.volumes[2].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive`,
			`spec.volumes[2].configMap: Forbidden: may not specify more than 1 volume type`,
		}},
		{Plural: "pods", Sent: pod(`tolerations: [{key: a, operator: X}, {operator: Exists, value: v}, {value: b, effect: X}]`), Want: []string{
			`spec.tolerations[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"`,
			"spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
			"spec.tolerations[2].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
			`spec.tolerations[2].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}},

		{Plural: "pods", Old: pod(``), Sent: `{spec: {containers: [{name: a, image: c}], activeDeadlineSeconds: 5, tolerations: [{operator: Exists}]}}`},
		{Plural: "pods", Old: pod(``), Sent: `{spec: {containers: [{name: a, image: b}, {name: b, image: c}]}}`, Want: []string{
			`spec.containers: Forbidden: pod updates may not add or remove containers`,
		}},
		{Plural: "pods", Old: pod(`activeDeadlineSeconds: 5`), Sent: pod(`activeDeadlineSeconds: 6`), Want: []string{
			`spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value`,
		}},
		{Plural: "pods", Old: pod(`activeDeadlineSeconds: 5`), Sent: pod(``), Want: []string{
			`spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value`,
		}},
		{Plural: "pods", Old: pod(`tolerations: [{key: a, operator: Exists}]`), Sent: pod(``), Want: []string{
			`spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`,
		}},
		{Plural: "pods", Old: pod(``), Sent: pod(`schedulingGates: [{name: a.b/c}]`), Want: []string{
			`spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.b/c'`,
		}},
		{Plural: "pods", Subresource: "status", Old: `{status: {qosClass: Burstable}}`, Sent: `{status: {qosClass: BestEffort, observedGeneration: -1, nominatedNodeName: "A"}}`, Want: []string{
			`status.nominatedNodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`status.observedGeneration: Invalid value: -1: must be a non-negative integer`,
			`status.qosClass: Invalid value: "BestEffort": field is immutable`,
		}},
		{Plural: "pods", Subresource: "status", Old: `{spec: {restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}, status: {containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {terminated: {exitCode: 1}}}]}}`,
			Sent: `{spec: {restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}, status: {containerStatuses: [{name: a}, {name: b}]}}`, Want: []string{
				`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`,
			}},
	})
}

const mutable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// TestPodIsImmutable compares the start of the message, which is followed by a diff.
func TestPodIsImmutable(t *testing.T) {
	old := kindtest.Decode(t, "pods", `{spec: {containers: [{name: a, image: b}]}}`)
	for _, sent := range []string{
		`{spec: {nodeName: node, containers: [{name: a, image: c}]}}`,
		`{spec: {containers: [{name: a, image: b, args: [x]}]}}`,
		`{spec: {terminationGracePeriodSeconds: 1, containers: [{name: a, image: b}]}}`,
	} {
		got := kindtest.Messages(kindtest.Definition(t, "pods").Storage.Model.Validate(t.Context(), kindtest.Decode(t, "pods", sent), runtime.DeepCopyJSON(old), ""))
		if len(got) != 1 || !strings.HasPrefix(got[0], "spec: Forbidden: "+mutable+"\n") {
			t.Errorf("%s: %q", sent, got)
		}
	}
}
