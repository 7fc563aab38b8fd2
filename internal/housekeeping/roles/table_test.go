package roles

import (
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed policy.txt
var policyText string

var rewrite = flag.Bool("rewrite", false, "write standards.txt")

// TestStandards compares standards.txt with policy.txt.
func TestStandards(t *testing.T) {
	made := parse(policyText)
	gathered := gatherAll(made)
	var out strings.Builder
	line := func(s *listed, when string) {
		namespace, gathers := s.key.Namespace, "-"
		if namespace == "" {
			namespace = "-"
		}
		if s.aggregated {
			gathers = "gathers"
		}
		fmt.Fprintf(&out, "%s %s %s %s %s %s\n", s.key.Resource.Resource, namespace, s.key.Name, when, gathers, s.encode(t))
	}
	for i := range made {
		if made[i] == gathered[i] {
			line(made[i], "both")
			continue
		}
		line(made[i], "made")
		line(gathered[i], "gathered")
	}
	if *rewrite {
		if err := os.WriteFile("standards.txt", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out.String() != standardsText {
		t.Error("standards.txt is not current: run go generate, and review the changes")
	}
}

// listed is an object of the table.
type listed struct {
	key        object.Key
	aggregated bool
	tree       resource.Tree
	fields     resource.Tree // owned by its creator
}

func (s *listed) encode(t *testing.T) string {
	managed := []any{managedBy(manager, "Update", s.fields)}
	if s.aggregated && s.tree["rules"] != nil {
		managed = []any{managedBy(aggregatorManager, "Apply", resource.Tree{"f:rules": resource.Tree{}}), managed[0]}
	}
	complete, metadata := maps.Clone(s.tree), maps.Clone(s.tree["metadata"].(resource.Tree))
	complete["metadata"] = metadata
	metadata["managedFields"] = managed
	metadata["creationTimestamp"], metadata["uid"] = timeMark, uidMark
	form, err := object.Encode(complete)
	if err != nil {
		t.Fatal(err)
	}
	return string(form.Bytes)
}

// gatherAll returns the objects after aggregation.
func gatherAll(made []*listed) []*listed {
	all := slices.Clone(made)
	candidates := map[string]*candidate{}
	for _, s := range all {
		if s.key.Resource == clusterRoles {
			candidates[s.key.Name] = &candidate{labels: labelsOf(s.tree), load: func() resource.Tree { return s.tree }}
		}
	}
	// Aggregated roles can be aggregated themselves: view is a part of edit, and that of admin.
	for changed := true; changed; {
		changed = false
		for i, s := range all {
			if !s.aggregated {
				continue
			}
			if rules, other := gather(s.key.Name, decode(s.tree), candidates); other {
				tree := maps.Clone(s.tree)
				tree["rules"] = untyped(rules)
				all[i] = &listed{key: s.key, aggregated: true, tree: tree, fields: made[i].fields}
				candidates[s.key.Name].rules, changed = rules, true
			}
		}
	}
	return all
}

func managedBy(manager, operation string, fields resource.Tree) resource.Tree {
	return resource.Tree{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "fieldsType": "FieldsV1", "fieldsV1": fields,
		"manager": manager, "operation": operation, "time": timeMark,
	}
}

// fieldsOf returns the fields that the creator of an object owns. Lists are owned as a whole.
func fieldsOf(tree resource.Tree) resource.Tree {
	fields := resource.Tree{}
	for key, value := range tree {
		if slices.Contains([]string{"rules", "roleRef", "subjects"}, key) && value != nil {
			fields["f:"+key] = resource.Tree{}
		}
	}
	if tree["aggregationRule"] != nil {
		fields["f:aggregationRule"] = resource.Tree{".": resource.Tree{}, "f:clusterRoleSelectors": resource.Tree{}}
	}
	metadata := resource.Tree{}
	for _, key := range []string{"annotations", "labels"} {
		each := resource.Tree{".": resource.Tree{}}
		for name := range tree["metadata"].(resource.Tree)[key].(resource.Tree) {
			each["f:"+name] = resource.Tree{}
		}
		metadata["f:"+key] = each
	}
	fields["f:metadata"] = metadata
	return fields
}

// parse parses the table, whose format is described at its top.
func parse(text string) []*listed {
	var all []*listed
	var tree resource.Tree // the object of the next rules
	var key object.Key
	end := func() {
		if tree != nil {
			all = append(all, &listed{key: key, aggregated: tree["aggregationRule"] != nil, tree: tree, fields: fieldsOf(tree)})
		}
		tree = nil
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case strings.HasPrefix(line, " "):
			rules, _ := tree["rules"].([]any)
			tree["rules"] = append(rules, parseRule(words))
		default:
			end()
			key, tree = parseHead(words)
		}
	}
	end()
	return all
}

var kindOf = map[string]string{
	"clusterrole": "ClusterRole", "role": "Role", "clusterrolebinding": "ClusterRoleBinding", "rolebinding": "RoleBinding",
}

// parseHead parses the first line of an object: its kind and name, and the options of that kind.
func parseHead(words []string) (object.Key, resource.Tree) {
	kind, name := words[0], words[1]
	namespace := ""
	if strings.HasPrefix(kind, "role") {
		namespace, name, _ = strings.Cut(name, "/")
	}
	labels := resource.Tree{bootstrapping: "rbac-defaults"}
	metadata := resource.Tree{
		"name": name, "labels": labels, "annotations": resource.Tree{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	tree := resource.Tree{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kindOf[kind], "metadata": metadata}
	key := object.Key{Resource: schema.GroupResource{Group: rbacv1.GroupName, Resource: kind + "s"}, Namespace: namespace, Name: name}
	rest := words[2:]
	switch kind {
	case "clusterrolebinding":
		bindTo(tree, "ClusterRole", name, rest)
	case "rolebinding":
		bindTo(tree, "Role", rest[0], rest[1:])
	default:
		tree["rules"] = nil
		for _, word := range rest {
			label := aggregationBase + word[1:]
			if word[0] == '+' {
				labels[label] = "true"
			} else {
				selector := resource.Tree{"matchLabels": resource.Tree{label: "true"}}
				tree["aggregationRule"] = resource.Tree{"clusterRoleSelectors": []any{selector}}
			}
		}
	}
	return key, tree
}

func bindTo(tree resource.Tree, kind, role string, subjects []string) {
	tree["roleRef"] = resource.Tree{"apiGroup": rbacv1.GroupName, "kind": kind, "name": role}
	var all []any
	for _, s := range subjects {
		kind, name, _ := strings.Cut(s, ":")
		switch kind {
		case "user":
			all = append(all, resource.Tree{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": name})
		case "group":
			all = append(all, resource.Tree{"apiGroup": rbacv1.GroupName, "kind": rbacv1.GroupKind, "name": name})
		case "serviceaccount":
			namespace, name, _ := strings.Cut(name, "/")
			all = append(all, resource.Tree{"kind": rbacv1.ServiceAccountKind, "name": name, "namespace": namespace})
		}
	}
	if all != nil {
		tree["subjects"] = all
	}
}

// parseRule parses a rule: verbs, then URLs, or groups, resources and names.
func parseRule(words []string) resource.Tree {
	list := func(word string) []any {
		var all []any
		for item := range strings.SplitSeq(word, ",") {
			if item == "core" {
				item = ""
			}
			all = append(all, item)
		}
		return all
	}
	rule := resource.Tree{"verbs": list(words[0])}
	if len(words) == 2 {
		rule["nonResourceURLs"] = list(words[1])
		return rule
	}
	rule["apiGroups"], rule["resources"] = list(words[1]), list(words[2])
	if len(words) > 3 {
		rule["resourceNames"] = list(words[3])
	}
	return rule
}
