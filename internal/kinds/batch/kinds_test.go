package batch_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
)

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
		job := kindtest.New(t, "jobs", c.sent)
		for _, part := range []struct {
			what string
			got  any
			want string
		}{
			{"metadata", job["metadata"], c.metadata},
			{"template", kind.Get(job, "spec", "template", "metadata"), c.template},
			{"selector", kind.Get(job, "spec", "selector"), c.selector},
		} {
			if diff := cmp.Diff(any(kindtest.Parse(t, part.want)), part.got); diff != "" {
				t.Errorf("%s: %s: %s", c.name, part.what, diff)
			}
		}
	}
}

func TestValidateJob(t *testing.T) {
	job := func(fields string) string {
		return `{metadata: {name: j}, spec: {` + fields + ` template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}`
	}
	kindtest.Validate(t, []kindtest.ValidationCase{
		{Plural: "jobs", Sent: job(``)},
		{Plural: "jobs", Sent: `{metadata: {name: j}, spec: {completions: -1, template: {spec: {containers: [{name: a, image: b}]}}}}`, Want: []string{
			`spec.completions: Invalid value: -1: must be greater than or equal to 0`,
			`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		}},
		{Plural: "jobs", Sent: `{metadata: {name: j}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, job-name: x}}, spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}`, Want: []string{
			`spec.template.metadata.labels[job-name]: Invalid value: {"a":"b","batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.io/job-name":"j","controller-uid":"u1","job-name":"x"}: must be 'j'`,
			"spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u1\"}}: `selector` not auto-generated",
		}},
		{Plural: "jobs", Sent: job(`backoffLimitPerIndex: 1, maxFailedIndexes: 1, completionMode: X, podReplacementPolicy: Z, managedBy: a,`), Want: []string{
			`spec.managedBy: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")`,
			`spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"`,
			`spec.podReplacementPolicy: Unsupported value: "Z": supported values: "Failed", "TerminatingOrFailed"`,
		}},
		{Plural: "jobs", Sent: job(`completionMode: Indexed, completions: 200000, parallelism: 100001, backoffLimitPerIndex: 1,`), Want: []string{
			`spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed`,
			`spec.maxFailedIndexes: Required value: must be specified when completions is above 100000`,
			`spec.parallelism: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`,
		}},
		{Plural: "jobs", Sent: job(`completionMode: Indexed, completions: 3, successPolicy: {rules: [{}, {succeededIndexes: "0-1,1"}, {succeededIndexes: "0,2", succeededCount: 3}, {succeededIndexes: "3"}]},`), Want: []string{
			`spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified`,
			`spec.successPolicy.rules[1].succeededIndexes: Invalid value: "0-1,1": error parsing succeededIndexes: non-increasing order, previous: 1, current: 1`,
			`spec.successPolicy.rules[2].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)`,
			`spec.successPolicy.rules[3].succeededIndexes: Invalid value: "3": error parsing succeededIndexes: too large index: "3"`,
		}},
		{Plural: "jobs", Sent: job(`podFailurePolicy: {rules: [{}, {action: X, onExitCodes: {containerName: z, operator: In, values: [3, 0, 3]}, onPodConditions: [{type: A}]}]},`), Want: []string{
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
		old := kindtest.New(t, "jobs", `{metadata: {name: j}, `+c.old[1:])
		if active := kindtest.Decode(t, "jobs", c.old)["status"]; active != nil {
			old["status"] = active
		}
		sent := kindtest.New(t, "jobs", `{metadata: {name: j}, `+c.sent[1:])
		var got []string
		for _, err := range kindtest.Definition(t, "jobs").Storage.Model.Validate(t.Context(), sent, old, "") {
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
			return kindtest.Decode(t, "jobs", `{spec: {completions: 5, template: {spec: {}}}, status: `+status+`}`)
		}
		got := kindtest.Messages(kindtest.Definition(t, "jobs").Storage.Model.Validate(t.Context(), job(c.now), job(c.old), "status"))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.now, diff)
		}
	}
}
