package kinds_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

func TestCells(t *testing.T) {
	const created = `creationTimestamp: "2026-05-06T07:03:09Z"` // five minutes ago
	spec := `spec: {containers: [{name: a, image: x}, {name: b, image: v2}]}`
	kindtest.Cells(t, []kindtest.CellsCase{
		{"namespaces", `{metadata: {name: a, ` + created + `}}`, `a|Active|5m`},
		{"configmaps", `{metadata: {name: a, ` + created + `}, data: {a: b}, binaryData: {c: ""}}`, `a|2|5m`},
		{"secrets", `{metadata: {name: a}, stringData: {a: b}}`, `a|Opaque|1|<unknown>`},
		{"serviceaccounts", `{metadata: {name: a, ` + created + `}}`, `a|5m`},
		{"leases", `{metadata: {name: a, ` + created + `}, spec: {holderIdentity: h}}`, `a|h|5m`},
		{"leases", `{metadata: {name: a, ` + created + `}}`, `a||5m`},
		{"events", `{metadata: {name: a}, involvedObject: {kind: Pod, name: p, fieldPath: f}, reason: R, type: Normal, message: " m\n", source: {component: c, host: h},
			firstTimestamp: "2026-05-06T07:03:09Z", lastTimestamp: "2026-05-06T07:08:00Z", count: 3}`, `9s|Normal|R|pod/p|f|c, h|m|5m|3|a`},
		{"events", `{metadata: {name: a}, involvedObject: {kind: Node}, reportingComponent: rc, eventTime: "2026-05-06T07:03:09.000000Z"}`, `5m|||node||rc||5m|1|a`},
		{"events", `{metadata: {name: a}, involvedObject: {kind: Node}, eventTime: "2026-05-06T07:03:09.000000Z", series: {count: 7, lastObservedTime: "2026-05-06T07:08:08.000000Z"}}`, `1s|||node||||5m|7|a`},
		{"deployments", `{metadata: {name: a, ` + created + `}, spec: {replicas: 3, selector: {matchLabels: {x: v}}, template: {` + spec + `}}, status: {readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1}}`,
			`a|1/3|2|1|5m|a,b|x,v2|x=v`},
		{"jobs", `{metadata: {name: a, ` + created + `}, spec: {selector: {matchLabels: {x: v}}, template: {` + spec + `}}, status: {startTime: "2026-05-06T07:04:09Z"}}`,
			`a|Running|0/1|4m|5m|a,b|x,v2|x=v`},
		{"jobs", `{metadata: {name: a}, spec: {parallelism: 3}, status: {succeeded: 1, startTime: "2026-05-06T07:04:09Z", completionTime: "2026-05-06T07:04:20Z", conditions: [{type: Complete, status: "True"}]}}`,
			`a|Complete|1/1 of 3|11s|<unknown>|||<none>`},
		{"jobs", `{metadata: {name: a}, spec: {parallelism: 1}, status: {conditions: [{type: Complete, status: "False"}, {type: Suspended, status: "True"}]}}`, `a|Suspended|0/1||<unknown>|||<none>`},

		{"pods", `{metadata: {name: a, ` + created + `}, ` + spec + `, status: {phase: Pending}}`, `a|0/2|Pending|0|5m|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a, ` + created + `}, spec: {nodeName: node, readinessGates: [{conditionType: x}, {conditionType: z}], containers: [{name: a}]},
			status: {phase: Running, podIP: 1.2.3.4, nominatedNodeName: m, conditions: [{type: x, status: "True"}, {type: z, status: "False"}],
			containerStatuses: [{name: a, ready: true, restartCount: 2, state: {running: {}}, lastState: {terminated: {exitCode: 1, finishedAt: "2026-05-06T07:07:09Z"}}}]}}`,
			`a|1/1|Running|2 (60s ago)|5m|1.2.3.4|node|m|1/2`},
		{"pods", `{metadata: {name: a}, ` + spec + `, status: {phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}}, {name: b, ready: true, state: {running: {}}}]}}`,
			`a|1/2|CrashLoopBackOff|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a, deletionTimestamp: "2026-05-06T07:07:09Z"}, ` + spec + `, status: {phase: Running}}`, `a|0/2|Terminating|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a, deletionTimestamp: "2026-05-06T07:07:09Z"}, ` + spec + `, status: {phase: Running, reason: NodeLost}}`, `a|0/2|Unknown|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, ` + spec + `, status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}]}}`, `a|0/2|ExitCode:3|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, ` + spec + `, status: {containerStatuses: [{name: a, state: {terminated: {signal: 9, exitCode: 1}}}]}}`, `a|0/2|Signal:9|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, ` + spec + `, status: {containerStatuses: [{name: a, state: {terminated: {reason: Completed, exitCode: 0}}}, {name: b, state: {terminated: {reason: Error, exitCode: 1}}}]}}`,
			`a|0/2|Error|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, ` + spec + `, status: {containerStatuses: [{name: a, state: {terminated: {reason: Completed, exitCode: 0}}}, {name: b, ready: true, state: {running: {}}}]}}`,
			`a|1/2|NotReady|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, spec: {schedulingGates: [{name: g}], containers: [{name: a}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}}`,
			`a|0/1|SchedulingGated|0|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, spec: {initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}]},
			status: {phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}, restartCount: 4}, {name: s}]}}`, `a|0/2|Init:0/2|4|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, spec: {initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}]},
			status: {phase: Running, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}, restartCount: 4}, {name: s, ready: true, started: true, restartCount: 1, state: {running: {}}}],
			containerStatuses: [{name: a, ready: true, state: {running: {}}}]}}`, `a|2/2|Running|1|<unknown>|<none>|<none>|<none>|<none>`},
		{"pods", `{metadata: {name: a}, spec: {initContainers: [{name: i}], containers: [{name: a}]}, status: {initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]}}`,
			`a|0/1|Init:Error|0|<unknown>|<none>|<none>|<none>|<none>`},
	})
}
