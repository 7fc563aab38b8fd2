package flow_test

import (
	"encoding/json"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/resource"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// TestFlowcontrolOfKubernetes creates kube-apiserver's default objects and checks which of their
// fields may change.
func TestFlowcontrolOfKubernetes(t *testing.T) {
	s := kindtest.NewServer(t)
	plurals := map[string]string{"FlowSchema": "flowschemas", "PriorityLevelConfiguration": "prioritylevelconfigurations"}
	count := map[string]int{}
	for _, tree := range flowcontrolOfKubernetes() {
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		kindName := kind.Text(tree, "kind")
		count[kindName]++
		if _, err := s.Store.Create(t.Context(), s.Request(plurals[kindName], "", ""), resource.Body{Data: data}); err != nil {
			t.Errorf("%s %s: %v", kindName, kind.Text(tree, "metadata", "name"), err)
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
		_, err := s.Patch(c.plural, c.name, "", types.MergePatchType, c.patch)
		if !kindtest.Says(err, c.want) {
			t.Errorf("%s %s %s: %v", c.plural, c.name, c.patch, err)
		}
	}
}

// flowcontrolOfKubernetes returns the priority levels and flow schemas that kube-apiserver creates.
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

func asTree(obj any, kindName string) resource.Tree {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil { // types of k8s.io/api always convert
		return nil
	}
	delete(tree, "status")
	tree["apiVersion"], tree["kind"] = flowcontrolv1.SchemeGroupVersion.String(), kindName
	return tree
}
