package builtin

import (
	"encoding/json"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kapok-dev/kapok/internal/resource"
)

// TestFlowcontrolOfKubernetes creates what kube-apiserver has from its start, and
// finds that of this only what is meant to be changed can be.
func TestFlowcontrolOfKubernetes(t *testing.T) {
	s := newServer(t)
	plurals := map[string]string{"FlowSchema": "flowschemas", "PriorityLevelConfiguration": "prioritylevelconfigurations"}
	count := map[string]int{}
	for _, tree := range flowcontrolOfKubernetes() {
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		kind := text(tree, "kind")
		count[kind]++
		if _, err := s.store.Create(t.Context(), s.request(plurals[kind], "", ""), resource.Body{Data: data}); err != nil {
			t.Errorf("%s %s: %v", kind, text(tree, "metadata", "name"), err)
		}
	}
	if count["FlowSchema"] != 11 || count["PriorityLevelConfiguration"] != 8 {
		t.Errorf("created %v", count)
	}
	for _, c := range []struct{ plural, name, patch, want string }{
		{"flowschemas", "catch-all", `{spec: {matchingPrecedence: 9999}}`, "spec of 'catch-all' must equal the fixed value"},
		{"prioritylevelconfigurations", "catch-all", `{spec: {limited: {nominalConcurrencyShares: 6}}}`, "spec of 'catch-all' must equal the fixed value"},
		{"prioritylevelconfigurations", "exempt", `{spec: {exempt: {lendablePercent: 6}}}`, ""},
		{"prioritylevelconfigurations", "system", `{spec: {limited: {nominalConcurrencyShares: 6}}}`, ""},
	} {
		_, err := s.patch(c.plural, c.name, "", mergePatch, c.patch)
		if !says(err, c.want) {
			t.Errorf("%s %s %s: %v", c.plural, c.name, c.patch, err)
		}
	}
}

// flowcontrolOfKubernetes are the priority levels and flow schemas that
// kube-apiserver makes where they are missing.
func flowcontrolOfKubernetes() []resource.Tree {
	var trees []resource.Tree
	for _, all := range [][]*flowcontrolv1.PriorityLevelConfiguration{
		bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations,
	} {
		for _, level := range all {
			trees = append(trees, asTree(level, "PriorityLevelConfiguration"))
		}
	}
	for _, all := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, schema := range all {
			trees = append(trees, asTree(schema, "FlowSchema"))
		}
	}
	return trees
}

func asTree(obj any, kind string) resource.Tree {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil { // the types are those of k8s.io/api, which fit
		return nil
	}
	delete(tree, "status")
	tree["apiVersion"], tree["kind"] = flowcontrolv1.SchemeGroupVersion.String(), kind
	return tree
}
