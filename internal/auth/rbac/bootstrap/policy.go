// Package bootstrap keeps the roles and bindings that every cluster has.
//
// [Ensure] creates those that are missing when a server starts, and adds to the others what they should have: rules,
// subjects, labels. What is there besides stays, and so does every object with the annotation
// rbac.authorization.kubernetes.io/autoupdate: "false". [Start] keeps the rules of roles that gather those of others, by an
// aggregationRule. Both are what kube-apiserver and its controller manager do: pkg/registry/rbac/rest/storage_rbac.go,
// k8s.io/component-helpers/auth/rbac/reconciliation, pkg/controller/clusterroleaggregation in k8s.io/kubernetes.
//
// The objects are made once a process, from the table in policy.txt, and are bytes by then: a new store gets them
// in one batch, with names of their own filled in. An [Aggregator] has one goroutine, which ends with Close.
package bootstrap

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

//go:embed policy.txt
var policyText string

const (
	manager           = "kube-apiserver"
	aggregatorManager = "clusterrole-aggregation-controller"

	bootstrapping   = "kubernetes.io/bootstrapping"
	aggregationBase = rbacv1.GroupName + "/"
)

// A standard is an object that every cluster has. It does not change.
type standard struct {
	key object.Key
	// aggregated says that the rules are gathered from others.
	aggregated bool
	tree       resource.Tree
	// raw is the JSON of the object, cut where the time of its creation stands, and where its uid does.
	raw [][]byte
	uid []byte
}

// standards are the objects as kube-apiserver makes them, where roles that gather rules have none yet.
var standards = sync.OnceValue(func() []*standard { return parse(policyText) })

// completed are the objects as they are once rules have been gathered.
var completed = sync.OnceValue(func() []*standard {
	all := slices.Clone(standards())
	candidates := map[string]*candidate{}
	for _, s := range all {
		if s.key.Resource == clusterRoles {
			candidates[s.key.Name] = &candidate{labels: labelsOf(s.tree), load: func() resource.Tree { return s.tree }}
		}
	}
	// What gathers may be gathered: view is a part of edit, and that of admin.
	for changed := true; changed; {
		changed = false
		for i, s := range all {
			if !s.aggregated {
				continue
			}
			if rules, other := gather(s.key.Name, decode(s.tree), candidates); other {
				tree := maps.Clone(s.tree)
				tree["rules"] = untyped(rules)
				all[i] = newStandard(s.key, tree, fieldsOf(standards()[i].tree), true)
				candidates[s.key.Name].rules, changed = rules, true
			}
		}
	}
	return all
})

func newStandard(key object.Key, tree resource.Tree, fields resource.Tree, aggregated bool) *standard {
	managed := []any{managedBy(manager, "Update", fields)}
	if aggregated && tree["rules"] != nil {
		managed = []any{managedBy(aggregatorManager, "Apply", resource.Tree{"f:rules": resource.Tree{}}), managed[0]}
	}
	complete := runtime.DeepCopyJSON(tree)
	metadata := complete["metadata"].(resource.Tree)
	metadata["managedFields"] = managed
	metadata["creationTimestamp"], metadata["uid"] = timeMark, uidMark
	form, err := object.Encode(complete)
	if err != nil {
		panic(fmt.Sprintf("bug: %s cannot be encoded: %v", key, err)) // the table is a part of the program
	}
	head, tail, _ := bytes.Cut(form.Bytes, []byte(uidMark))
	return &standard{key: key, aggregated: aggregated, tree: tree, raw: bytes.Split(head, []byte(timeMark)), uid: tail}
}

const timeMark, uidMark = "@time@", "@uid@"

func managedBy(manager, operation string, fields resource.Tree) resource.Tree {
	return resource.Tree{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "fieldsType": "FieldsV1", "fieldsV1": fields,
		"manager": manager, "operation": operation, "time": timeMark,
	}
}

// fieldsOf are the fields that who has made an object owns. Lists are owned whole.
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

// object makes an object of a standard, with a uid of its own.
func (s *standard) object(d *resource.Definition, now time.Time) (*object.Object, error) {
	at := []byte(now.UTC().Format(time.RFC3339))
	uid := []byte(uuid.NewUUID())
	raw := make([]byte, 0, 2048)
	for i, piece := range s.raw {
		if i > 0 {
			raw = append(raw, at...)
		}
		raw = append(raw, piece...)
	}
	raw = append(append(raw, uid...), s.uid...)
	return d.Stored(s.key, bytes.Clone(raw), now)
}

// made says whether an object is what object has made of the standard once, and so needs nothing.
func (s *standard) made(o *object.Object) bool {
	rest := o.Raw
	for i, piece := range s.raw {
		if i > 0 {
			if len(rest) < len(time.RFC3339)-len("07:00") {
				return false
			}
			rest = rest[len("2006-01-02T15:04:05Z"):]
		}
		after, ok := bytes.CutPrefix(rest, piece)
		if !ok {
			return false
		}
		rest = after
	}
	return len(rest) == 36+len(s.uid) && bytes.HasSuffix(rest, s.uid)
}

// parse reads the table, whose form is told at its top.
func parse(text string) []*standard {
	var all []*standard
	var tree resource.Tree // of the object whose rules come now
	var key object.Key
	end := func() {
		if tree != nil {
			all = append(all, newStandard(key, tree, fieldsOf(tree), tree["aggregationRule"] != nil))
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

var (
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
	kinds               = map[string]string{
		"clusterrole": "ClusterRole", "role": "Role", "clusterrolebinding": "ClusterRoleBinding", "rolebinding": "RoleBinding",
	}
)

// parseHead reads the first line of an object: its kind and name, and what is special about that kind.
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
	tree := resource.Tree{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kinds[kind], "metadata": metadata}
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

// parseRule reads a rule: verbs, then URLs, or groups, resources and names.
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
