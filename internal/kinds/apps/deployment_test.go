package apps_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

func TestValidateDeployment(t *testing.T) {
	deployment := func(fields string) string {
		return `{spec: {` + fields + `, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}`
	}
	kindtest.Validate(t, []kindtest.ValidationCase{
		{Plural: "deployments", Sent: deployment(`replicas: 0`)},
		{Plural: "deployments", Sent: deployment(`replicas: -1, minReadySeconds: 700, revisionHistoryLimit: -1`), Want: []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
			`spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds`,
		}},
		{Plural: "deployments", Sent: `{spec: {template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 3, containers: [{name: a, image: b}]}}}}`, Want: []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`,
		}},
		{Plural: "deployments", Sent: `{spec: {selector: {}, template: {spec: {containers: [{name: a, image: b}]}}}}`, Want: []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for deployment`,
		}},
		{Plural: "deployments", Sent: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {c: d}}, spec: {}}}}`, Want: []string{
			"spec.template.metadata.labels: Invalid value: {\"c\":\"d\"}: `selector` does not match template `labels`",
			`spec.template.spec.containers: Required value`,
		}},
		{Plural: "deployments", Sent: deployment(`strategy: {type: Recreate, rollingUpdate: {}}`), Want: []string{
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
		}},
		{Plural: "deployments", Sent: deployment(`strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}`), Want: []string{
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
		}},
		{Plural: "deployments", Sent: deployment(`strategy: {rollingUpdate: {maxSurge: x, maxUnavailable: 101%}}`), Want: []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		}},
		{Plural: "deployments", Old: `{spec: {selector: {matchLabels: {c: d}}}}`, Sent: deployment(`replicas: 1`), Want: []string{
			`spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`,
		}},
		{Plural: "deployments", Subresource: "status", Old: `{status: {collisionCount: 3}}`, Sent: `{status: {replicas: 1, readyReplicas: 2, availableReplicas: 3, terminatingReplicas: -1, collisionCount: 2}}`, Want: []string{
			`status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0`,
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`,
			`status.collisionCount: Invalid value: 2: cannot be decremented`,
		}},
	})
}
