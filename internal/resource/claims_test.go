package resource_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var ports = func() *resource.Definition {
	v1 := &resource.Version{Name: "v1", Model: freeModel{}}
	return &resource.Definition{Group: "example.com", Plural: "ports", Kind: "Port", Versions: []*resource.Version{v1}, Storage: v1}
}()

func portOf(obj resource.Tree) string {
	spec, _ := obj["spec"].(map[string]any)
	port, _ := spec["port"].(string)
	return port
}

// claimPort gives each widget a port of its own: the one that it asks for, or the lowest that is
// free.
func claimPort(c *resource.Claims, obj, old resource.Tree) error {
	now, before := portOf(obj), portOf(old)
	if old != nil && (obj == nil || now != before) {
		held, _ := c.State().Get(ports.Key("", before))
		if held != nil {
			c.Remove(held)
		}
	}
	if obj == nil || old != nil && now == before {
		return nil
	}
	taken := func(port string) bool {
		o, _ := c.State().Get(ports.Key("", port))
		return o != nil
	}
	if now != "" && taken(now) {
		return apierrors.NewBadRequest("port " + now + " is taken")
	}
	for n := 0; now == ""; n++ {
		if port := fmt.Sprintf("p%03d", n); !taken(port) {
			now = port
		}
	}
	obj["spec"] = resource.Tree{"port": now}
	return c.Create(ports, resource.Tree{"metadata": resource.Tree{"name": now}})
}

func (b *bench) held() (all []string) {
	for o := range b.State().Snapshot(ports.GroupResource()).All("") {
		all = append(all, o.Key.Name)
	}
	return all
}

// TestClaims checks that claims are committed with their write or not at all, and never twice.
func TestClaims(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widgets.Strategy.Claim = claimPort
	const widgets, writers = 100, 8
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < widgets; n += writers {
				body := widgetJSON(fmt.Sprintf("w%d", n), "")
				if _, err := b.Create(t.Context(), b.request(""), resource.Body{Data: []byte(body)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	given := map[string]bool{}
	for _, o := range b.mustList(resource.ListOptions{}).Objects {
		given[portOf(b.tree(o))] = true
	}
	if len(given) != widgets || len(b.held()) != widgets || !given["p000"] || !given["p099"] {
		t.Fatalf("%d widgets have %d ports, and %d are held", widgets, len(given), len(b.held()))
	}

	// Refused, and only tried: nothing is taken.
	if _, err := b.Create(t.Context(), b.request(""), resource.Body{Data: []byte(widgetJSON("late", `,"spec":{"port":"p007"}`))}); !apierrors.IsBadRequest(err) {
		t.Errorf("a port is given twice: %v", err)
	}
	dry := b.request("")
	dry.DryRun = true
	if got := portOf(b.tree(b.mustCreate(dry, widgetJSON("dry", "")))); got != "p100" {
		t.Errorf("a dry run shows port %q", got)
	}
	if len(b.held()) != widgets {
		t.Errorf("%d ports are held", len(b.held()))
	}

	// A change of the port lets the old one go, a deletion the last one, also when a finalizer has to
	// go first.
	first := b.mustList(resource.ListOptions{}).Objects[0]
	b.mustPatch(first.Key.Name, `{"spec":{"port":"mine"},"metadata":{"finalizers":["example.com/hold"]}}`)
	if got := b.held(); len(got) != widgets || got[0] != "mine" {
		t.Errorf("%d ports are held: %v", len(got), got[:3])
	}
	if _, err := b.Delete(t.Context(), b.request(first.Key.Name), nil); err != nil {
		t.Fatal(err)
	}
	if got := b.held(); len(got) != widgets {
		t.Errorf("%d ports are held while a deletion waits", len(got))
	}
	if _, err := b.patch(b.request(first.Key.Name), types.MergePatchType, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(t.Context(), b.request(b.mustList(resource.ListOptions{}).Objects[0].Key.Name), &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := b.held(); len(got) != widgets-2 {
		t.Errorf("%d ports are held after two deletions", len(got))
	}
}

// TestAction: a create may do something else than store what the client sends.
func TestAction(t *testing.T) {
	b := newBench(t, state.Options{})
	painting := b.widgets.GroupVersionKind(b.widgets.Storage)
	painting.Kind = "Painting"
	refusal := errors.New("no such color")
	b.widgets.Storage.Subresources = append(b.widgets.Storage.Subresources, resource.Subresource{Name: "paint", Action: &resource.Action{
		Kind: painting, Model: freeModel{},
		Do: func(ctx context.Context, s *resource.Store, r *resource.Request, body resource.Tree) (resource.Result, error) {
			r.Subresource = ""
			return s.Edit(ctx, r, func(live resource.Tree) error {
				if body["color"] == nil {
					return refusal
				}
				live["spec"] = resource.Tree{"color": body["color"]}
				return nil
			})
		},
	}})
	before := b.widget("a", "")
	paint := func(body string) (*object.Object, error) {
		r := b.request("a")
		r.Subresource = "paint"
		result, err := b.Create(t.Context(), r, resource.Body{Data: []byte(body)})
		return result.Object, err
	}
	after, err := paint(`{"apiVersion":"example.com/v2","kind":"Painting","metadata":{"name":"a"},"color":"red"}`)
	if err != nil || after.Revision <= before.Revision || b.tree(after)["spec"].(resource.Tree)["color"] != "red" {
		t.Errorf("painted: %v, %v", after, err)
	}
	for body, want := range map[string]string{
		`{"apiVersion":"example.com/v2","kind":"Painting","metadata":{"name":"a"}}`:                               refusal.Error(),
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`:                                 "must be Painting",
		`{"apiVersion":"example.com/v2","kind":"Painting","metadata":{"name":"a","namespace":"b"},"color":"red"}`: "does not match the namespace",
	} {
		if _, err := paint(body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
