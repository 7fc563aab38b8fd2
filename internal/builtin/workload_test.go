package builtin

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestPreparePod(t *testing.T) {
	pod := create(t, "pods", `{metadata: {name: a, generation: 7}, spec: {containers: [{name: a, image: b}]}, status: {phase: Running, podIP: 1.2.3.4}}`)
	if diff := cmp.Diff(parse(t, `{phase: Pending, qosClass: BestEffort}`), pod["status"]); diff != "" {
		t.Error(diff)
	}
	if generation := get(pod, "metadata", "generation"); generation != int64(1) {
		t.Errorf("generation is %v", generation)
	}
	pod = create(t, "pods", `{spec: {schedulingGates: [{name: a.b/c}], containers: [{name: a, image: b}]}}`)
	conditions, _ := get(pod, "status", "conditions").([]any)
	if len(conditions) != 1 || text(conditions[0].(resource.Tree), "reason") != "SchedulingGated" {
		t.Errorf("conditions are %v", conditions)
	}
}

func TestQOS(t *testing.T) {
	const guaranteed = `{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m, memory: "1073741824"}}`
	for _, c := range []struct {
		resources []string // of containers
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
		pod := create(t, "pods", "{spec: {containers: ["+strings.Join(containers, ",")+"]}}")
		if got := text(pod, "status", "qosClass"); got != string(c.want) {
			t.Errorf("%v: got %s, want %s", c.resources, got, c.want)
		}
	}
}

func TestPodGrace(t *testing.T) {
	for obj, want := range map[string]int64{
		`{spec: {terminationGracePeriodSeconds: 5}}`:                                                      0,
		`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}}`:                                      5,
		`{spec: {nodeName: node, terminationGracePeriodSeconds: -5}}`:                                     1,
		`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Failed}}`:             0,
		`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Succeeded}}`:          0,
		`{spec: {nodeName: node, terminationGracePeriodSeconds: 5}, status: {phase: Running}, kind: Pod}`: 5,
	} {
		if got := podGrace(parse(t, obj)); got != want {
			t.Errorf("%s: got %d, want %d", obj, got, want)
		}
	}
}

func TestPrepareJob(t *testing.T) {
	for _, c := range []struct{ name, sent, metadata, template, selector string }{
		{"labels of pods", `{metadata: {name: j}, spec: {template: {metadata: {labels: {a: b}}, spec: {}}}}`,
			`{name: j, uid: u1, generation: 1, labels: {a: b, controller-uid: u1, job-name: j, batch.kubernetes.io/controller-uid: u1, batch.kubernetes.io/job-name: j}}`,
			`{labels: {a: b, controller-uid: u1, job-name: j, batch.kubernetes.io/controller-uid: u1, batch.kubernetes.io/job-name: j}}`,
			`{matchLabels: {batch.kubernetes.io/controller-uid: u1}}`},
		{"labels of its own", `{metadata: {name: j, labels: {a: b}}, spec: {template: {metadata: {labels: {a: b, job-name: x}}, spec: {}}}}`,
			`{name: j, uid: u1, generation: 1, labels: {a: b}}`,
			`{labels: {a: b, controller-uid: u1, job-name: x, batch.kubernetes.io/controller-uid: u1, batch.kubernetes.io/job-name: j}}`,
			`{matchLabels: {batch.kubernetes.io/controller-uid: u1}}`},
		{"a selector of its own", `{metadata: {name: j}, spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {}}}}`,
			`{name: j, uid: u1, generation: 1, labels: {a: b}}`, `{labels: {a: b}}`, `{matchLabels: {a: b}}`},
	} {
		job := create(t, "jobs", c.sent)
		for _, part := range []struct {
			what string
			got  any
			want string
		}{
			{"metadata", job["metadata"], c.metadata},
			{"template", get(job, "spec", "template", "metadata"), c.template},
			{"selector", get(job, "spec", "selector"), c.selector},
		} {
			if diff := cmp.Diff(any(parse(t, part.want)), part.got); diff != "" {
				t.Errorf("%s: %s: %s", c.name, part.what, diff)
			}
		}
	}
}

// TestGeneration tells which changes count.
func TestGeneration(t *testing.T) {
	const spec = `spec: {replicas: 1, template: {spec: {containers: [{name: a}]}}}`
	for _, c := range []struct {
		plural, subresource, old, obj string
		want                          any
	}{
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {generation: 9}, ` + spec + `}`, int64(3)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{spec: {replicas: 2}}`, int64(4)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {annotations: {a: b}}, ` + spec + `}`, int64(4)},
		{"deployments", "", `{metadata: {generation: 3}, ` + spec + `}`, `{metadata: {labels: {a: b}}, ` + spec + `, status: {replicas: 3}}`, int64(3)},
		{"pods", "", `{metadata: {generation: 3}, spec: {containers: [{name: a, image: b}]}}`, `{spec: {containers: [{name: a, image: c}]}}`, int64(4)},
		{"pods", "", `{metadata: {generation: 3}, spec: {}}`, `{metadata: {annotations: {a: b}}, spec: {}}`, int64(3)},
		{"jobs", "", `{metadata: {generation: 3}, spec: {}}`, `{spec: {suspend: true}}`, int64(4)},
		{"configmaps", "", `{data: {a: b}}`, `{data: {a: c}}`, nil},
	} {
		obj := decode(t, c.plural, c.obj)
		definitionOf(t, c.plural).Hooks.PrepareUpdate(obj, decode(t, c.plural, c.old))
		if got := get(obj, "metadata", "generation"); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.plural, c.obj, got, c.want)
		}
	}
}

// TestSubresources tells what can be written through which door.
func TestSubresources(t *testing.T) {
	for _, c := range []struct{ plural, subresource, old, obj, want string }{
		{"namespaces", "", `{spec: {finalizers: [kubernetes]}, status: {phase: Active}}`, `{spec: {finalizers: []}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}`},
		{"namespaces", "status", `{spec: {finalizers: [kubernetes]}}`, `{spec: {}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}`},
		{"namespaces", "finalize", `{spec: {finalizers: [kubernetes]}}`, `{spec: {}, status: {phase: Terminating}}`,
			`{metadata: {}, spec: {}, status: {phase: Active}}`},
		{"deployments", "status", `{metadata: {labels: {a: b}}}`, `{metadata: {labels: {c: d}, annotations: {x: z}}, spec: {replicas: 7}, status: {replicas: 7}}`,
			`{metadata: {labels: {a: b}, annotations: {x: z}}, status: {replicas: 7}}`},
		{"pods", "status", `{metadata: {ownerReferences: [{name: a}]}, status: {qosClass: Burstable}}`, `{status: {phase: Running}}`,
			`{metadata: {ownerReferences: [{name: a, apiVersion: "", kind: "", uid: ""}]}, status: {phase: Running, qosClass: Burstable}}`},
	} {
		d := definitionOf(t, c.plural)
		obj, old := decode(t, c.plural, c.obj), decode(t, c.plural, c.old)
		if c.subresource == "" {
			d.Hooks.PrepareUpdate(obj, old)
		} else {
			d.Storage.Subresource(c.subresource).Prepare(obj, old)
		}
		delete(obj, "apiVersion")
		delete(obj, "kind")
		if c.plural != "namespaces" {
			if diff := cmp.Diff(old["spec"], obj["spec"]); diff != "" {
				t.Errorf("%s/%s: the spec changes: %s", c.plural, c.subresource, diff)
			}
			delete(obj, "spec")
		}
		if diff := cmp.Diff(parse(t, c.want), obj); diff != "" {
			t.Errorf("%s/%s: %s", c.plural, c.subresource, diff)
		}
	}
}

func TestScale(t *testing.T) {
	scale := definitionOf(t, "deployments").Storage.Scale
	d := decode(t, "deployments", `{spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}}}`)
	if got := scale.SelectorOf(d); got != "a=b,c" {
		t.Errorf("selector is %q", got)
	}
	if got := get(d, scale.Replicas...); got != int64(1) {
		t.Errorf("replicas are %v", got)
	}
}

const mutable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func TestValidatePod(t *testing.T) {
	pod := func(spec string) string { return `{spec: {containers: [{name: a, image: b}], ` + spec + `}}` }
	container := func(fields string) string { return `{spec: {containers: [{name: a, image: b, ` + fields + `}]}}` }
	testValidation(t, []validationCase{
		{plural: "pods", sent: pod(``)},
		{plural: "pods", sent: `{spec: {}}`, want: []string{`spec.containers: Required value`}},
		{plural: "pods", sent: `{spec: {containers: [{name: "", image: ""}, {name: A_, image: " b"}, {name: a, image: b}, {name: a, image: b}]}}`, want: []string{
			`spec.containers[0].name: Required value`,
			`spec.containers[0].image: Required value`,
			`spec.containers[1].name: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`spec.containers[3].name: Duplicate value: "a"`,
			`spec.containers[1].image: Invalid value: " b": must not have leading or trailing whitespace`,
		}},
		{plural: "pods", sent: pod(`restartPolicy: X, dnsPolicy: Z, nodeName: "A B", initContainers: [{name: a, image: b, livenessProbe: {exec: {command: [x]}}}]`), want: []string{
			`spec.initContainers[0].name: Duplicate value: "a"`,
			`spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`,
			`spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"`,
			`spec.dnsPolicy: Unsupported value: "Z": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`,
			`spec.nodeName: Invalid value: "A B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		{plural: "pods", sent: container(`imagePullPolicy: X, ports: [{name: web, containerPort: 0}, {name: web, containerPort: 99999, protocol: X}]`), want: []string{
			`spec.containers[0].ports[0].containerPort: Required value`,
			`spec.containers[0].ports[1].name: Duplicate value: "web"`,
			`spec.containers[0].ports[1].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive`,
			`spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`,
			`spec.containers[0].imagePullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"`,
		}},
		{plural: "pods", sent: container(`env: [{name: ""}, {name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {}}, {name: C, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}}, {name: D, valueFrom: {fieldRef: {fieldPath: status.phase}}}]`), want: []string{
			`spec.containers[0].env[0].name: Required value`,
			"spec.containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
			"spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
			`spec.containers[0].env[3].valueFrom.fieldRef: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.containers[0].env[4].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`,
		}},
		{plural: "pods", sent: container(`resources: {limits: {cpu: 1, foo: 1, a.b/c: 1}, requests: {cpu: 2, memory: -1, a.b/c: 2, d.e/f: 1}}`), want: []string{
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be equal to a.b/c limit of 1`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
			`spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.requests[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
		}},
		{plural: "pods", sent: container(`volumeMounts: [{name: x, mountPath: ""}], livenessProbe: {exec: {}, tcpSocket: {port: 0}, successThreshold: 2}, readinessProbe: {}`), want: []string{
			`spec.containers[0].volumeMounts[0].name: Not found: "x"`,
			`spec.containers[0].volumeMounts[0].mountPath: Required value`,
			`spec.containers[0].livenessProbe.exec.command: Required value`,
			`spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`,
			`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`,
			`spec.containers[0].readinessProbe: Required value: must specify a handler type`,
		}},
		{plural: "pods", sent: pod(`volumes: [{name: a, hostPath: {path: ""}}, {name: A}, {name: b, secret: {secretName: s, defaultMode: 1000}, configMap: {name: c}}]`), want: []string{
			`spec.volumes[0].hostPath.path: Required value`,
			`spec.volumes[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`spec.volumes[2].secret.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive`,
			`spec.volumes[2].configMap: Forbidden: may not specify more than 1 volume type`,
		}},
		{plural: "pods", sent: pod(`tolerations: [{key: a, operator: X}, {operator: Exists, value: v}, {value: b, effect: X}]`), want: []string{
			`spec.tolerations[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"`,
			"spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
			"spec.tolerations[2].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
			`spec.tolerations[2].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}},

		{plural: "pods", old: pod(``), sent: `{spec: {containers: [{name: a, image: c}], activeDeadlineSeconds: 5, tolerations: [{operator: Exists}]}}`},
		{plural: "pods", old: pod(``), sent: `{spec: {containers: [{name: a, image: b}, {name: b, image: c}]}}`, want: []string{
			`spec.containers: Forbidden: pod updates may not add or remove containers`,
		}},
		{plural: "pods", old: pod(`activeDeadlineSeconds: 5`), sent: pod(`activeDeadlineSeconds: 6`), want: []string{
			`spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value`,
		}},
		{plural: "pods", old: pod(`activeDeadlineSeconds: 5`), sent: pod(``), want: []string{
			`spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value`,
		}},
		{plural: "pods", old: pod(`tolerations: [{key: a, operator: Exists}]`), sent: pod(``), want: []string{
			`spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`,
		}},
		{plural: "pods", old: pod(``), sent: pod(`schedulingGates: [{name: a.b/c}]`), want: []string{
			`spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.b/c'`,
		}},
		{plural: "pods", subresource: "status", old: `{status: {qosClass: Burstable}}`, sent: `{status: {qosClass: BestEffort, observedGeneration: -1, nominatedNodeName: "A"}}`, want: []string{
			`status.nominatedNodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`status.observedGeneration: Invalid value: -1: must be a non-negative integer`,
			`status.qosClass: Invalid value: "BestEffort": field is immutable`,
		}},
		{plural: "pods", subresource: "status", old: `{spec: {restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}, status: {containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {terminated: {exitCode: 1}}}]}}`,
			sent: `{spec: {restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}, status: {containerStatuses: [{name: a}, {name: b}]}}`, want: []string{
				`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`,
			}},
	})
}

// TestPodIsImmutable compares the start of the message; the rest is the difference.
func TestPodIsImmutable(t *testing.T) {
	old := decode(t, "pods", `{spec: {containers: [{name: a, image: b}]}}`)
	for _, sent := range []string{
		`{spec: {nodeName: node, containers: [{name: a, image: c}]}}`,
		`{spec: {containers: [{name: a, image: b, args: [x]}]}}`,
		`{spec: {terminationGracePeriodSeconds: 1, containers: [{name: a, image: b}]}}`,
	} {
		got := messages(definitionOf(t, "pods").Storage.Model.Validate(decode(t, "pods", sent), runtime.DeepCopyJSON(old), ""))
		if len(got) != 1 || !strings.HasPrefix(got[0], "spec: Forbidden: "+mutable+"\n") {
			t.Errorf("%s: %q", sent, got)
		}
	}
}

func TestValidateDeployment(t *testing.T) {
	deployment := func(fields string) string {
		return `{spec: {` + fields + `, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}`
	}
	testValidation(t, []validationCase{
		{plural: "deployments", sent: deployment(`replicas: 0`)},
		{plural: "deployments", sent: deployment(`replicas: -1, minReadySeconds: 700, revisionHistoryLimit: -1`), want: []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
			`spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds`,
		}},
		{plural: "deployments", sent: `{spec: {template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 3, containers: [{name: a, image: b}]}}}}`, want: []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`,
		}},
		{plural: "deployments", sent: `{spec: {selector: {}, template: {spec: {containers: [{name: a, image: b}]}}}}`, want: []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for deployment`,
		}},
		{plural: "deployments", sent: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {c: d}}, spec: {}}}}`, want: []string{
			"spec.template.metadata.labels: Invalid value: {\"c\":\"d\"}: `selector` does not match template `labels`",
			`spec.template.spec.containers: Required value`,
		}},
		{plural: "deployments", sent: deployment(`strategy: {type: Recreate, rollingUpdate: {}}`), want: []string{
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
		}},
		{plural: "deployments", sent: deployment(`strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}`), want: []string{
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
		}},
		{plural: "deployments", sent: deployment(`strategy: {rollingUpdate: {maxSurge: x, maxUnavailable: 101%}}`), want: []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		}},
		{plural: "deployments", old: `{spec: {selector: {matchLabels: {c: d}}}}`, sent: deployment(`replicas: 1`), want: []string{
			`spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`,
		}},
		{plural: "deployments", subresource: "status", old: `{status: {collisionCount: 3}}`, sent: `{status: {replicas: 1, readyReplicas: 2, availableReplicas: 3, terminatingReplicas: -1, collisionCount: 2}}`, want: []string{
			`status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0`,
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`,
			`status.collisionCount: Invalid value: 2: cannot be decremented`,
		}},
	})
}

func TestValidateJob(t *testing.T) {
	job := func(fields string) string {
		return `{metadata: {name: j}, spec: {` + fields + ` template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}`
	}
	testValidation(t, []validationCase{
		{plural: "jobs", sent: job(``)},
		{plural: "jobs", sent: `{metadata: {name: j}, spec: {completions: -1, template: {spec: {containers: [{name: a, image: b}]}}}}`, want: []string{
			`spec.completions: Invalid value: -1: must be greater than or equal to 0`,
			`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		}},
		{plural: "jobs", sent: `{metadata: {name: j}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, job-name: x}}, spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}`, want: []string{
			`spec.template.metadata.labels[job-name]: Invalid value: {"a":"b","batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"j","controller-uid":"u1","job-name":"x"}: must be 'j'`,
			"spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u1\"}}: `selector` not auto-generated",
		}},
		{plural: "jobs", sent: job(`backoffLimitPerIndex: 1, maxFailedIndexes: 1, completionMode: X, podReplacementPolicy: Z, managedBy: a,`), want: []string{
			`spec.managedBy: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")`,
			`spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"`,
			`spec.podReplacementPolicy: Unsupported value: "Z": supported values: "Failed", "TerminatingOrFailed"`,
		}},
		{plural: "jobs", sent: job(`completionMode: Indexed, completions: 200000, parallelism: 100001, backoffLimitPerIndex: 1,`), want: []string{
			`spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed`,
			`spec.maxFailedIndexes: Required value: must be specified when completions is above 100000`,
			`spec.parallelism: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`,
		}},
		{plural: "jobs", sent: job(`completionMode: Indexed, completions: 3, successPolicy: {rules: [{}, {succeededIndexes: "0-1,1"}, {succeededIndexes: "0,2", succeededCount: 3}, {succeededIndexes: "3"}]},`), want: []string{
			`spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified`,
			`spec.successPolicy.rules[1].succeededIndexes: Invalid value: "0-1,1": error parsing succeededIndexes: non-increasing order, previous: 1, current: 1`,
			`spec.successPolicy.rules[2].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)`,
			`spec.successPolicy.rules[3].succeededIndexes: Invalid value: "3": error parsing succeededIndexes: too large index: "3"`,
		}},
		{plural: "jobs", sent: job(`podFailurePolicy: {rules: [{}, {action: X, onExitCodes: {containerName: z, operator: In, values: [3, 0, 3]}, onPodConditions: [{type: A}]}]},`), want: []string{
			`spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`,
			`spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required`,
			`spec.podFailurePolicy.rules[1].action: Unsupported value: "X": supported values: "Count", "FailIndex", "FailJob", "Ignore"`,
			`spec.podFailurePolicy.rules[1].onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template`,
			`spec.podFailurePolicy.rules[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator`,
			`spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 3`,
			`spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: [3,0,3]: must be ordered`,
			`spec.podFailurePolicy.rules[1]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported`,
		}},
	})
}

func TestJobIsImmutable(t *testing.T) {
	const template = `template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}`
	const other = `template: {spec: {restartPolicy: Never, nodeSelector: {x: v}, containers: [{name: a, image: b, resources: {limits: {cpu: 1}}}]}}`
	for _, c := range []struct{ name, old, sent, want string }{
		{"parallelism changes", `{spec: {` + template + `}}`, `{spec: {completions: 1, parallelism: 7, ` + template + `}}`, ""},
		{"the template does not", `{spec: {` + template + `}}`, `{spec: {` + other + `}}`, "spec.template"},
		{"but of a suspended job where and with what pods run", `{spec: {suspend: true, ` + template + `}}`, `{spec: {` + other + `}}`, ""},
		{"until it has pods", `{spec: {suspend: true, ` + template + `}, status: {active: 1}}`, `{spec: {` + other + `}}`, "spec.template"},
		{"not what they run", `{spec: {suspend: true, ` + template + `}}`, `{spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: c}]}}}}`, "spec.template.spec"},
		{"completions do not change", `{spec: {` + template + `}}`, `{spec: {completions: 2, ` + template + `}}`, "spec.completions"},
		{"completions of an indexed job do", `{spec: {completionMode: Indexed, completions: 1, ` + template + `}}`, `{spec: {completionMode: Indexed, completions: 2, parallelism: 2, ` + template + `}}`, ""},
		{"in tandem", `{spec: {completionMode: Indexed, completions: 1, ` + template + `}}`, `{spec: {completionMode: Indexed, completions: 2, ` + template + `}}`, "spec.completions"},
		{"nor does the mode", `{spec: {completions: 1, ` + template + `}}`, `{spec: {completionMode: Indexed, completions: 1, ` + template + `}}`, "spec.completionMode"},
	} {
		old := create(t, "jobs", `{metadata: {name: j}, `+c.old[1:])
		if active := decode(t, "jobs", c.old)["status"]; active != nil {
			old["status"] = active
		}
		sent := create(t, "jobs", `{metadata: {name: j}, `+c.sent[1:])
		var got []string
		for _, err := range definitionOf(t, "jobs").Storage.Model.Validate(sent, old, "") {
			got = append(got, err.Field)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

func TestValidateJobStatus(t *testing.T) {
	const complete = `conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]`
	const started = `startTime: "2026-01-01T00:00:00Z"`
	for _, c := range []struct {
		old, now string
		want     []string
	}{
		{`{}`, `{` + complete + `, ` + started + `, completionTime: "2026-01-01T00:00:01Z"}`, nil},
		{`{}`, `{active: -5}`, []string{`status.active: Invalid value: -5: must be greater than or equal to 0`}},
		{`{}`, `{` + complete + `, active: 1, terminating: 1, uncountedTerminatedPods: {failed: [a]}}`, []string{
			`status.completionTime: Required value: completionTime is required for Complete jobs`,
			`status.active: Invalid value: 1: active>0 is invalid for finished job`,
			`status.startTime: Required value: startTime is required for finished job`,
			`status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for finished job`,
			`status.terminating: Invalid value: 1: terminating>0 is invalid for finished job`,
		}},
		{`{}`, `{conditions: [{type: Complete, status: "True"}, {type: Failed, status: "True"}], ` + started + `, completionTime: "2025-01-01T00:00:00Z"}`, []string{
			`status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions`,
			`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`,
			`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
			"status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`",
		}},
		{`{` + complete + `, ` + started + `, completionTime: "2026-01-01T00:00:01Z"}`, `{` + started + `}`, []string{
			`status.conditions: Invalid value: cannot disable the terminal Complete=True condition`,
			`status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition`,
		}},
		{`{succeeded: 3, failed: 3, ` + started + `}`, `{succeeded: 2, failed: 2, ready: 1, active: 0, startTime: "2026-02-01T00:00:00Z"}`, []string{
			`status.startTime: Invalid value: "2026-02-01T00:00:00Z": field is immutable for unsuspended job once set`,
			`status.ready: Invalid value: 1: cannot set more ready pods than active`,
			`status.failed: Invalid value: 2: cannot decrease the failed counter`,
			`status.succeeded: Invalid value: 2: cannot decrease the succeeded counter`,
		}},
		{`{}`, `{completedIndexes: "1", failedIndexes: "1", uncountedTerminatedPods: {failed: [a, a, ""]}}`, []string{
			`status.uncountedTerminatedPods.failed[1]: Duplicate value: "a"`,
			`status.uncountedTerminatedPods.failed[2]: Invalid value: "": must not be empty`,
			`status.completedIndexes: Invalid value: "1": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null`,
			`status.failedIndexes: Invalid value: "1": failedIndexes and completedIndexes overlap at index: 1`,
		}},
	} {
		job := func(status string) resource.Tree {
			return decode(t, "jobs", `{spec: {completions: 5, template: {spec: {}}}, status: `+status+`}`)
		}
		got := messages(definitionOf(t, "jobs").Storage.Model.Validate(job(c.now), job(c.old), "status"))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.now, diff)
		}
	}
}
