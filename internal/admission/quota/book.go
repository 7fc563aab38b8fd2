package quota

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// A book is the epoch and the ledger of a namespace, as one write sees and changes them.
type book struct {
	namespace     string
	epoch, ledger *object.Object // as they are stored; nil if there are none
	accounts      map[string]*account
	turned        bool // there is to be a new epoch
}

// open reads the book of a namespace. The ledger is read before all that is counted.
func open(st *state.State, namespace string) (*book, error) {
	b := &book{namespace: namespace, accounts: map[string]*account{}}
	if b.epoch, _ = st.Get(epochKey(namespace)); b.epoch == nil {
		return b, nil
	}
	if b.ledger, _ = st.Get(ledgerKey(namespace)); b.ledger == nil {
		return b, nil
	}
	tree, err := b.ledger.Tree()
	if err != nil {
		return nil, err
	}
	entries, _ := tree["quotas"].(map[string]any)
	for name, item := range entries {
		entry, _ := item.(map[string]any)
		a := &account{namespace: namespace, name: name, uid: text(entry, "uid")}
		if used, ok := entry["used"].(map[string]any); ok {
			if a.used, err = quantities(used); err != nil {
				return nil, fmt.Errorf("%s: %w", b.ledger.Key, err)
			}
		}
		b.accounts[name] = a
	}
	return b, nil
}

func (b *book) sorted() []*account {
	return slices.SortedFunc(maps.Values(b.accounts), func(x, y *account) int { return strings.Compare(x.name, y.name) })
}

// follow brings the book to what a write of a quota makes of it.
func (b *book) follow(obj, old resource.Tree) {
	name := nameOf(obj, old)
	switch {
	case obj == nil:
		b.turned = b.accounts[name] != nil
		delete(b.accounts, name)
	case old == nil || !reflect.DeepEqual(obj["spec"], old["spec"]):
		b.enter(name, text(obj, "metadata", "uid"))
	}
}

// enter takes a quota into the book that is not counted yet.
func (b *book) enter(name, uid string) {
	b.accounts[name] = &account{namespace: b.namespace, name: name, uid: uid}
	b.turned = true
}

// close claims what has become of the book.
func (b *book) close(c *resource.Claims) error {
	if b.turned {
		if err := b.turn(c); err != nil {
			return err
		}
	} else {
		c.Require(epochKey(b.namespace), b.epoch)
	}
	switch {
	case len(b.accounts) == 0:
		if b.ledger != nil && b.turned {
			c.Remove(b.ledger)
		}
	case b.dirty() || b.turned:
		return c.Put(ledgerKey(b.namespace), b.ledger, b.tree())
	}
	return nil
}

// dirty says whether the ledger is to be written for what is used.
func (b *book) dirty() bool {
	return slices.ContainsFunc(b.sorted(), func(a *account) bool { return a.changed })
}

// turn begins a new epoch.
func (b *book) turn(c *resource.Claims) error {
	if len(b.accounts) > 0 {
		return c.Put(epochKey(b.namespace), b.epoch, unserved("QuotaEpoch", b.namespace))
	}
	if b.epoch != nil {
		c.Remove(b.epoch)
	}
	return nil
}

func (b *book) tree() resource.Tree {
	entries := resource.Tree{}
	for name, a := range b.accounts {
		entry := resource.Tree{"uid": a.uid}
		if a.used != nil {
			entry["used"] = texts(a.used)
		}
		entries[name] = entry
	}
	tree := unserved("QuotaLedger", b.namespace)
	tree["quotas"] = entries
	return tree
}

func unserved(kind, name string) resource.Tree {
	return resource.Tree{
		"apiVersion": "kapok.dev/v1", "kind": kind,
		"metadata": resource.Tree{"name": name, "uid": string(uuid.NewUUID())},
	}
}

// text is a string in a tree, "" if it is not there.
func text(obj resource.Tree, path ...string) string {
	for _, key := range path[:len(path)-1] {
		obj, _ = obj[key].(map[string]any)
	}
	s, _ := obj[path[len(path)-1]].(string)
	return s
}

func quantities(tree resource.Tree) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, value := range tree {
		s, _ := value.(string)
		q, err := quantity.ParseQuantity(s)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, s, err)
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, nil
}

func texts(list corev1.ResourceList) resource.Tree {
	tree := resource.Tree{}
	for name, q := range list {
		tree[string(name)] = q.String()
	}
	return tree
}
