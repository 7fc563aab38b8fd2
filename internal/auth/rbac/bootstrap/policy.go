// Package bootstrap keeps the roles and bindings that every cluster has.
//
// [Ensure] creates those that are missing when a server starts, and adds to the others what they should have: rules,
// subjects, labels. What is there besides stays, and so does every object with the annotation
// rbac.authorization.kubernetes.io/autoupdate: "false". [Start] keeps the rules of roles that gather those of others, by an
// aggregationRule. Both are what kube-apiserver and its controller manager do: pkg/registry/rbac/rest/storage_rbac.go,
// k8s.io/component-helpers/auth/rbac/reconciliation, pkg/controller/clusterroleaggregation in k8s.io/kubernetes.
//
// The objects are bytes, in standards.txt, which is made of the table in policy.txt: a new store gets them in one batch, with times and
// uids of their own filled in. An [Aggregator] has one goroutine, which ends with Close.
package bootstrap

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

//go:generate go test -run TestStandards -rewrite .

// standardsText has a line for each object: its resource, its namespace (- if it has none), its name, which of standards and completed it
// belongs to (made, gathered, or both), whether it gathers rules, and its JSON.
//
//go:embed standards.txt
var standardsText string

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
	// tree is what is to be there, without what all objects have. It is decoded when it is first asked for.
	tree func() resource.Tree
	// raw is the JSON of the object, cut where the time of its creation stands, and where its uid does.
	raw [][]byte
	uid []byte
}

// standards are the objects as kube-apiserver makes them, where roles that gather rules have none yet.
var standards = sync.OnceValue(func() []*standard { return read("gathered") })

// completed are the objects as they are once rules have been gathered.
var completed = sync.OnceValue(func() []*standard { return read("made") })

// read returns all standards but those of a kind.
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

// newStandard takes an object apart that is encoded with marks where its times and its uid stand.
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

var (
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)
