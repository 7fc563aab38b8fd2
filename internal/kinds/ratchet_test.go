package kinds_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

// TestWorkloadUpdatesTolerateOldErrors checks that updates tolerate errors of the stored object.
func TestWorkloadUpdatesTolerateOldErrors(t *testing.T) {
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
	kindtest.Validate(t, []kindtest.ValidationCase{
		{Plural: "statefulsets", Old: stateful(`serviceName: "a b"`), Sent: stateful(`serviceName: "a b", replicas: 3`)},
		{Plural: "statefulsets", Old: stateful(`volumeClaimTemplates: [{metadata: {name: v}}]`), Sent: stateful(`replicas: 3, volumeClaimTemplates: [{metadata: {name: v}}]`)},
		{Plural: "statefulsets", Old: stateful(`volumeClaimTemplates: [{metadata: {name: v}}]`), Sent: stateful(`volumeClaimTemplates: []`), Want: []string{
			`spec.volumeClaimTemplates: Invalid value: null: field is immutable`,
		}},
		{Plural: "statefulsets", Old: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}}}`,
			Sent: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}}`},

		{Plural: "daemonsets", Old: `{spec: {` + wrongLabel + `}}`, Sent: `{spec: {` + wrongLabel + `, template: {spec: {containers: [{name: a, image: b}]}}}}`},

		{Plural: "cronjobs", Old: cron(`schedule: "TZ=UTC * * * * *"`), Sent: cron(`schedule: "CRON_TZ=UTC 1 * * * *"`)},
		{Plural: "cronjobs", Old: cron(`schedule: "TZ=UTC * * * * *"`), Sent: cron(`schedule: "TZ=UTC * * * * *", timeZone: UTC`), Want: []string{
			`spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule`,
		}},
		{Plural: "cronjobs", Old: cron(`timeZone: Nowhere, schedule: "@daily"`), Sent: cron(`timeZone: Nowhere, schedule: "@hourly"`)},
		{Plural: "cronjobs", Old: `{metadata: {name: ` + strings.Repeat("a", 60) + `}}`, Sent: `{metadata: {name: ` + strings.Repeat("a", 60) + `}, spec: {schedule: "@daily",
			jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}`},

		{Plural: "horizontalpodautoscalers", Old: scaler(`apiVersion: a/b/c`, ``), Sent: scaler(`apiVersion: a/b/c`, `, minReplicas: 2`)},
		{Plural: "horizontalpodautoscalers", Old: scaler(`apiVersion: apps/v1`, ``), Sent: scaler(`apiVersion: v1`, ``), Want: []string{
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`,
		}},
		{Plural: "horizontalpodautoscalers",
			Old:  scaler(`apiVersion: apps/v1`, `, metrics: [{type: Object, object: {describedObject: {kind: K, name: o, apiVersion: a/b/c}}}]`),
			Sent: scaler(`apiVersion: apps/v1`, `, metrics: [{type: Object, object: {describedObject: {kind: K, name: o, apiVersion: d/e/f}, metric: {name: m}, target: {type: Value, value: 1}}}]`)},

		{Plural: "poddisruptionbudgets", Old: `{spec: {` + wrongLabel + `}}`, Sent: `{spec: {minAvailable: 2, ` + wrongLabel + `}}`},
		{Plural: "poddisruptionbudgets", Old: `{spec: {}}`, Sent: `{spec: {minAvailable: 2, ` + wrongLabel + `}}`, Want: []string{
			`spec.selector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		}},
	})
}
