package kinds_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

// TestWorkloadCells checks the cells of workloads, budgets and autoscalers.
func TestWorkloadCells(t *testing.T) {
	const (
		created  = `creationTimestamp: "2026-05-06T07:03:09Z"` // five minutes ago
		template = `template: {metadata: {labels: {x: v, a: b}}, spec: {nodeSelector: {disk: ssd}, containers: [{name: a, image: x}, {name: b, image: v2}]}}`
	)
	metrics := func(specs, statuses string) string {
		return `{metadata: {name: a, ` + created + `}, spec: {scaleTargetRef: {kind: Deployment, name: d}, minReplicas: 2, maxReplicas: 9, metrics: [` + specs +
			`]}, status: {currentReplicas: 3, currentMetrics: [` + statuses + `]}}`
	}
	kindtest.Cells(t, []kindtest.CellsCase{
		{"replicasets", `{metadata: {name: a, ` + created + `}, spec: {replicas: 3, selector: {matchLabels: {x: v}}, ` + template + `}, status: {replicas: 2, readyReplicas: 1}}`,
			`a|3|2|1|5m|a,b|x,v2|x=v`},
		{"replicasets", `{metadata: {name: a}}`, `a|1|0|0|<unknown>|||<none>`},
		{"replicationcontrollers", `{metadata: {name: a, ` + created + `}, spec: {replicas: 3, ` + template + `}, status: {replicas: 2, readyReplicas: 1}}`,
			`a|3|2|1|5m|a,b|x,v2|a=b,x=v`},
		{"replicationcontrollers", `{metadata: {name: a}}`, `a|1|0|0|<unknown>|||<none>`},
		{"podtemplates", `{metadata: {name: a}, ` + template + `}`, `a|a,b|x,v2|a=b,x=v`},
		{"statefulsets", `{metadata: {name: a, ` + created + `}, spec: {replicas: 3, ` + template + `}, status: {readyReplicas: 1}}`, `a|1/3|5m|a,b|x,v2`},
		{"daemonsets", `{metadata: {name: a, ` + created + `}, spec: {selector: {matchLabels: {x: v}}, ` + template + `},
			status: {desiredNumberScheduled: 1, currentNumberScheduled: 2, numberReady: 3, updatedNumberScheduled: 4, numberAvailable: 5}}`, `a|1|2|3|4|5|disk=ssd|5m|a,b|x,v2|x=v`},
		{"daemonsets", `{metadata: {name: a}}`, `a|0|0|0|0|0|<none>|<unknown>|||<none>`},
		{"controllerrevisions", `{metadata: {name: a, ` + created + `, ownerReferences: [{apiVersion: v1, kind: X, name: x}, {apiVersion: apps/v1, kind: StatefulSet, name: s, controller: true}]}, revision: 4}`,
			`a|statefulset.apps/s|4|5m`},
		{"controllerrevisions", `{metadata: {name: a}}`, `a|<none>|0|<unknown>`},
		{"cronjobs", `{metadata: {name: a, ` + created + `}, spec: {schedule: "@daily", timeZone: UTC, suspend: true, jobTemplate: {spec: {` + template + `}}},
			status: {active: [{name: j}], lastScheduleTime: "2026-05-06T07:07:09Z"}}`, `a|@daily|UTC|True|1|60s|5m|a,b|x,v2|<none>`},
		{"cronjobs", `{metadata: {name: a}, spec: {schedule: "@daily"}}`, `a|@daily|<none>|False|0|<none>|<unknown>|||<none>`},
		{"poddisruptionbudgets", `{metadata: {name: a, ` + created + `}, spec: {minAvailable: 50%}, status: {disruptionsAllowed: 2}}`, `a|50%|N/A|2|5m`},
		{"poddisruptionbudgets", `{metadata: {name: a}, spec: {maxUnavailable: 1}}`, `a|N/A|1|0|<unknown>`},
		{"horizontalpodautoscalers", metrics(``, ``), `a|Deployment/d|cpu: <unknown>/80%|2|9|3|5m`},
		{"horizontalpodautoscalers", metrics(`{type: Resource, resource: {name: cpu, target: {averageUtilization: 50}}}, {type: Resource, resource: {name: memory, target: {averageValue: 1Gi}}}`,
			`{type: Resource, resource: {name: cpu, current: {averageUtilization: 40}}}, {type: Resource, resource: {name: memory, current: {averageValue: 2Gi}}}`),
			`a|Deployment/d|cpu: 40%/50%, memory: 2Gi/1Gi|2|9|3|5m`},
		{"horizontalpodautoscalers", metrics(`{type: Pods, pods: {target: {averageValue: 5}}}, {type: Object, object: {target: {value: 7}}}, {type: External}, {type: Resource}`,
			`{type: Pods, pods: {current: {averageValue: 4}}}, {type: Object, object: {current: {value: 6}}}`),
			`a|Deployment/d|4/5, 6/7 + 2 more...|2|9|3|5m`},
		{"horizontalpodautoscalers", metrics(`{type: External, external: {target: {averageValue: 5}}}, {type: Object, object: {target: {averageValue: 7}}}`,
			`{type: External, external: {current: {averageValue: 4}}}`),
			`a|Deployment/d|4/5 (avg), <unknown>/7 (avg)|2|9|3|5m`},
		{"horizontalpodautoscalers", metrics(`{type: ContainerResource, containerResource: {name: cpu, container: c, target: {averageUtilization: 5}}}, {type: Wrong}`, ``),
			`a|Deployment/d|cpu: <unknown>/5%, <unknown type>|2|9|3|5m`},
	})
}
