// Package roles maintains the default roles and bindings of every cluster.
//
// [Ensure] creates the missing ones at the start of a server, and adds missing rules, subjects and
// labels to the others. It removes nothing, and does not change objects with the annotation
// rbac.authorization.kubernetes.io/autoupdate: "false". [Start] maintains the rules of roles with
// an aggregationRule. Both do what kube-apiserver and its controller manager do:
// pkg/registry/rbac/rest/storage_rbac.go, k8s.io/component-helpers/auth/rbac/reconciliation,
// pkg/controller/clusterroleaggregation in k8s.io/kubernetes.
//
// The objects are encoded in standards.txt, which is generated from the table in policy.txt: a new
// store gets them in one batch, with times and uids filled in. An [Aggregator] owns one goroutine,
// which ends with Close. There are no locks.
package roles

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

//go:generate go test -run TestStandards -rewrite .

// standardsText has a line for each object: its resource, its namespace (- if it has none), its
// name, whether it belongs to standards (made), completed (gathered) or both, whether it is
// aggregated, and its JSON.
//
//go:embed standards.txt
var standardsText string

const (
	manager           = "kube-apiserver"
	aggregatorManager = "clusterrole-aggregation-controller"

	bootstrapping   = "kubernetes.io/bootstrapping"
	aggregationBase = rbacv1.GroupName + "/"
)

// A standard is a default object. It is immutable.
type standard struct {
	key object.Key
	// aggregated means that the rules come from other roles.
	aggregated bool
	// tree returns the object without the fields that all objects have. It is decoded on first use.
	tree func() resource.Tree
	// raw is the JSON of the object, cut where its creation time and its uid belong.
	raw [][]byte
	uid []byte
}

// standards are the objects as kube-apiserver creates them, in which aggregated roles have no rules
// yet.
var standards = sync.OnceValue(func() []*standard { return read("gathered") })

// completed are the objects after aggregation.
var completed = sync.OnceValue(func() []*standard { return read("made") })

// OfNodes returns the rules of the default cluster role system:node, whatever the stored role is.
func OfNodes() ([]rbacv1.PolicyRule, error) {
	for _, s := range standards() {
		if s.key.Resource == clusterRoles && s.key.Name == "system:node" {
			var role rbacv1.ClusterRole
			if err := typed.FromTree(s.tree(), &role); err != nil {
				return nil, fmt.Errorf("default role %s: %w", s.key.Name, err)
			}
			return role.Rules, nil
		}
	}
	return nil, errors.New("the default role system:node is missing")
}

// read returns all standards except those of one sort.
func read(but string) (all []*standard) {
	for line := range strings.Lines(standardsText) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
		if words[3] == but {
			continue
		}
		key := object.Key{Resource: schema.GroupResource{Group: rbacv1.GroupName, Resource: words[0]}, Namespace: strings.TrimPrefix(words[1], "-"), Name: words[2]}
		all = append(all, newStandard(key, words[4] == "gathers", words[5]))
	}
	return all
}

const timeMark, uidMark = "@time@", "@uid@"

// newStandard parses the encoded form of an object, which has marks in the place of its times and
// its uid.
func newStandard(key object.Key, aggregated bool, text string) *standard {
	head, tail, _ := strings.Cut(text, uidMark)
	s := &standard{key: key, aggregated: aggregated, uid: []byte(tail)}
	for piece := range strings.SplitSeq(head, timeMark) {
		s.raw = append(s.raw, []byte(piece))
	}
	s.tree = sync.OnceValue(func() resource.Tree {
		var tree resource.Tree
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			panic(fmt.Sprintf("bug: %s cannot be decoded: %v", key, err)) // it is a part of the program
		}
		metadata := tree["metadata"].(resource.Tree)
		for _, name := range []string{"creationTimestamp", "uid", "managedFields"} {
			delete(metadata, name)
		}
		return tree
	})
	return s
}

// object returns a new object from a standard, with a new uid.
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

// made reports whether an object is an unchanged result of object, and so needs no change.
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

var (
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)
