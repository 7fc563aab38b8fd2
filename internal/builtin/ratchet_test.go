package builtin

import (
	"strings"
	"testing"
)

// TestWrongWorkloadsStay has updates of objects that were there before somebody looked. What they leave as it was is
// not held against them.
func TestWrongWorkloadsStay(t *testing.T) {
	stateful := func(spec string) string {
		return `{spec: {` + spec + `, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}`
	}
	cron := func(spec string) string {
		return `{spec: {` + spec + `, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}`
	}
	scaler := func(ref, spec string) string {
		return `{spec: {scaleTargetRef: {kind: Deployment, name: d, ` + ref + `}, maxReplicas: 3` + spec + `}}`
	}
	const wrongLabel = `selector: {matchExpressions: [{key: a, operator: In, values: ["b c"]}]}`
	testValidation(t, []validationCase{
		{plural: "statefulsets", old: stateful(`serviceName: "a b"`), sent: stateful(`serviceName: "a b", replicas: 3`)},
		{plural: "statefulsets", old: stateful(`volumeClaimTemplates: [{metadata: {name: v}}]`), sent: stateful(`replicas: 3, volumeClaimTemplates: [{metadata: {name: v}}]`)},
		{plural: "statefulsets", old: stateful(`volumeClaimTemplates: [{metadata: {name: v}}]`), sent: stateful(`volumeClaimTemplates: []`), want: []string{
			`spec.volumeClaimTemplates: Invalid value: null: field is immutable`,
		}},
		{plural: "statefulsets", old: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}}}`,
			sent: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}}`},

		{plural: "daemonsets", old: `{spec: {` + wrongLabel + `}}`, sent: `{spec: {` + wrongLabel + `, template: {spec: {containers: [{name: a, image: b}]}}}}`},

		{plural: "cronjobs", old: cron(`schedule: "TZ=UTC * * * * *"`), sent: cron(`schedule: "CRON_TZ=UTC 1 * * * *"`)},
		{plural: "cronjobs", old: cron(`schedule: "TZ=UTC * * * * *"`), sent: cron(`schedule: "TZ=UTC * * * * *", timeZone: UTC`), want: []string{
			`spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule`,
		}},
		{plural: "cronjobs", old: cron(`timeZone: Nowhere, schedule: "@daily"`), sent: cron(`timeZone: Nowhere, schedule: "@hourly"`)},
		{plural: "cronjobs", old: `{metadata: {name: ` + strings.Repeat("a", 60) + `}}`, sent: `{metadata: {name: ` + strings.Repeat("a", 60) + `}, spec: {schedule: "@daily",
			jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}`},

		{plural: "horizontalpodautoscalers", old: scaler(`apiVersion: a/b/c`, ``), sent: scaler(`apiVersion: a/b/c`, `, minReplicas: 2`)},
		{plural: "horizontalpodautoscalers", old: scaler(`apiVersion: apps/v1`, ``), sent: scaler(`apiVersion: v1`, ``), want: []string{
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`,
		}},
		{plural: "horizontalpodautoscalers",
			old:  scaler(`apiVersion: apps/v1`, `, metrics: [{type: Object, object: {describedObject: {kind: K, name: o, apiVersion: a/b/c}}}]`),
			sent: scaler(`apiVersion: apps/v1`, `, metrics: [{type: Object, object: {describedObject: {kind: K, name: o, apiVersion: d/e/f}, metric: {name: m}, target: {type: Value, value: 1}}}]`)},

		{plural: "poddisruptionbudgets", old: `{spec: {` + wrongLabel + `}}`, sent: `{spec: {minAvailable: 2, ` + wrongLabel + `}}`},
		{plural: "poddisruptionbudgets", old: `{spec: {}}`, sent: `{spec: {minAvailable: 2, ` + wrongLabel + `}}`, want: []string{
			`spec.selector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		}},
	})
}
