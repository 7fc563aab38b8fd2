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

// A book has the epoch and the ledger of a namespace, as one write reads and changes them.
type book struct {
	namespace     string
	epoch, ledger *object.Object // as stored; nil if they do not exist
	accounts      map[string]*account
	turned        bool // needs a new epoch
}

// open reads the book of a namespace. The ledger is read before any object that is counted.
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

// follow applies a write of a quota to the book.
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

// enter adds a quota to the book that has not been counted yet.
func (b *book) enter(name, uid string) {
	b.accounts[name] = &account{namespace: b.namespace, name: name, uid: uid}
	b.turned = true
}

// close claims the writes of a changed book.
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

// dirty reports whether the ledger must be written because the use changed.
func (b *book) dirty() bool {
	return slices.ContainsFunc(b.sorted(), func(a *account) bool { return a.changed })
}

// turn claims the write of a new epoch.
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

// text returns a string in a tree, "" if it does not exist.
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
