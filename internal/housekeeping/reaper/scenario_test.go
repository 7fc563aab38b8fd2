package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios runs the scripts in testdata. The commands:
//
//	create        one object a line: NAME [owner=NAME[!]]... [finalizer=NAME]...
//	delete NAME [policy=Foreground|Background|Orphan]
//	release NAME finalizer=NAME
//	own NAME [owner=NAME[!]]...
//	hide KIND, serve KIND
//	stop, start   the reaper
//
// NAME is namespace/name of an Item, or Root/name; an owner with ! is blocked by the object; an
// owner ?KIND/name has a uid that no object has. The output of each command is the state once the
// reaper is idle.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s.t = t
				if err := s.command(d); err != nil {
					return err.Error() + "\n"
				}
				synctest.Wait()
				return s.show(s.roots, s.items)
			})
		})
	})
}

func (s *server) command(d *datadriven.TestData) error {
	name := func() (*resource.Definition, string, string) { return s.split(d.CmdArgs[0].Key) }
	switch d.Cmd {
	case "create":
		for line := range strings.Lines(d.Input) {
			if fields := strings.Fields(line); len(fields) > 0 {
				s.createLine(fields)
			}
		}
	case "delete":
		policy := ""
		if len(d.CmdArgs) > 1 {
			policy = d.CmdArgs[1].Vals[0]
		}
		def, ns, n := name()
		return s.delete(def, ns, n, policy)
	case "release":
		def, ns, n := name()
		o, _ := s.store.State().Get(def.Key(ns, n))
		left := []string{}
		for _, f := range o.Meta.Finalizers {
			if f != d.CmdArgs[1].Vals[0] {
				left = append(left, fmt.Sprintf("%q", f))
			}
		}
		return s.patch(def, ns, n, fmt.Sprintf(`{"metadata":{"finalizers":[%s]}}`, strings.Join(left, ",")))
	case "own":
		def, ns, n := name()
		var refs []string
		for _, arg := range d.CmdArgs[1:] {
			refs = append(refs, jsonOf(s.reference(arg.Vals[0])))
		}
		return s.patch(def, ns, n, fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, strings.Join(refs, ",")))
	case "hide":
		s.store.Registry().Remove(s.served(d.CmdArgs[0].Key).GroupResource())
	case "serve":
		s.store.Registry().Put(s.served(d.CmdArgs[0].Key))
	case "stop":
		s.reaper.Close()
	case "start":
		s.reaper = Start(context.Background(), s.store, Options{Logger: slog.New(slog.DiscardHandler)})
	default:
		d.Fatalf(s.t.(*testing.T), "unknown command %s", d.Cmd)
	}
	return nil
}

func (s *server) served(kind string) *resource.Definition {
	if kind == "Root" {
		return s.roots
	}
	return s.items
}

func (s *server) split(name string) (*resource.Definition, string, string) {
	ns, n, _ := strings.Cut(name, "/")
	if ns == "Root" {
		return s.roots, "", n
	}
	return s.items, ns, n
}

func (s *server) createLine(fields []string) {
	d, ns, n := s.split(fields[0])
	s.mustCreate(d.Kind, ns, n, func(obj resource.Tree) {
		var owners, finalizers []any
		for _, f := range fields[1:] {
			switch key, value, _ := strings.Cut(f, "="); key {
			case "owner":
				owners = append(owners, s.reference(value))
			case "finalizer":
				finalizers = append(finalizers, value)
			}
		}
		m := obj["metadata"].(resource.Tree)
		m["ownerReferences"], m["finalizers"] = owners, finalizers
	})
}

// reference returns the owner reference of a name.
func (s *server) reference(name string) resource.Tree {
	name, blocks := strings.CutSuffix(name, "!")
	ref := resource.Tree{"apiVersion": "example.com/v1", "blockOwnerDeletion": blocks}
	if made, ok := strings.CutPrefix(name, "?"); ok {
		kind, n, _ := strings.Cut(made, "/")
		ref["kind"], ref["name"], ref["uid"] = kind, n, "no-object-has-this-"+n
		return ref
	}
	d, ns, n := s.split(name)
	o, _ := s.store.State().Get(d.Key(ns, n))
	if o == nil {
		s.t.Fatalf("no owner %s", name)
	}
	ref["kind"], ref["name"], ref["uid"] = d.Kind, n, string(o.Meta.UID)
	return ref
}
