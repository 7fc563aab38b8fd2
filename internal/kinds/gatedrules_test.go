package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestRulesOfFeatures validates objects with a feature on and off. The corpus compares more of them
// with kube-apiserver; this is what its requests cannot reach.
func TestRulesOfFeatures(t *testing.T) {
	const (
		labels   = `{metadata: {name: a, namespace: ns}, spec: {containers: [{name: c, image: i}], securityContext: {seLinuxChangePolicy: %s}}}`
		address  = `{metadata: {name: a, namespace: ns}, spec: {ports: [{port: 80}], clusterIPs: [%[1]s], clusterIP: %[1]s}}`
		external = `{metadata: {name: a, namespace: ns}, spec: {ports: [{port: 80}], externalIPs: [%s]}}`
		job      = `{metadata: {name: a, namespace: ns}, spec: {suspend: true, selector: {matchLabels: {a: b}}, manualSelector: true, template: {metadata: {labels: {a: b}},
			spec: {restartPolicy: Never, nodeSelector: {a: %s}, containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]}}}, status: {%s}}`
		ran = `startTime: "2026-01-01T00:00:00Z", conditions: [{type: Suspended, status: "True"}]`
	)
	f := fmt.Sprintf
	for _, tc := range []struct {
		gate, plural, obj, old string
		with, without          string // field of the error
	}{
		{gates.SELinuxMount, "pods", f(labels, "MountOption"), "", "", "spec.securityContext.seLinuxChangePolicy"},
		{gates.SELinuxMount, "pods", f(labels, "Recursive"), "", "", ""},
		{gates.SELinuxMount, "pods", f(labels, "MountOption"), f(labels, "MountOption"), "", ""},
		{gates.StrictIPCIDRValidation, "services", f(external, "010.1.1.1"), "", "spec.externalIPs[0]", ""},
		{gates.StrictIPCIDRValidation, "services", f(external, "10.1.1.256"), "", "spec.externalIPs[0]", "spec.externalIPs[0]"},
		{gates.StrictIPCIDRValidation, "services", f(external, "127.0.0.1"), "", "spec.externalIPs[0]", "spec.externalIPs[0]"},
		{gates.StrictIPCIDRValidation, "services", f(address, "010.96.1.1"), "", "spec.clusterIPs[0]", "spec.clusterIPs[0]"},
		{gates.MutableSchedulingOfJobs, "jobs", f(job, "b", "1", ""), f(job, "a", "1", ""), "", ""},
		{gates.MutableSchedulingOfJobs, "jobs", f(job, "b", "1", ran), f(job, "a", "1", ran), "", "spec.template.spec"},
		{gates.MutableSchedulingOfJobs, "jobs", f(job, "a", "2", ran), f(job, "a", "1", ran), "", ""},
		{gates.MutablePodResourcesOfJobs, "jobs", f(job, "a", "2", ""), f(job, "a", "1", ""), "", "spec.template"},
		{gates.MutablePodResourcesOfJobs, "jobs", f(job, "b", "1", ran), f(job, "a", "1", ran), "", ""},
	} {
		for _, on := range []bool{true, false} {
			want := tc.with
			if !on {
				want = tc.without
			}
			settings := gates.Settings{Release: emulation.Newest, Set: map[string]bool{tc.gate: on}}
			var got []string
			for _, e := range validated(t, settings, tc.plural, tc.obj, tc.old) {
				got = append(got, e.Field)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s=%t: %s: errors of %q, want %q", tc.gate, on, tc.obj, got, want)
			}
		}
	}
}

// validated returns the errors of a write with settings; old is empty for a create.
func validated(t *testing.T, s gates.Settings, plural, obj, old string) field.ErrorList {
	t.Helper()
	definitions := Definitions()
	Emulate(definitions, s)
	d := definitions[slices.IndexFunc(definitions, func(d *resource.Definition) bool { return d.Plural == plural })]
	model := d.Storage.Model
	parse := func(text string) resource.Tree {
		if text == "" {
			return nil
		}
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := model.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tree, err = model.Normalise(tree, nil); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	before := parse(old)
	now := parse(obj)
	if before != nil {
		before["metadata"].(resource.Tree)["resourceVersion"], now["metadata"].(resource.Tree)["resourceVersion"] = "1", "1"
	}
	return model.Validate(t.Context(), now, before, "")
}
