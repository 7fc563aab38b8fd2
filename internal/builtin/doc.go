// Package builtin defines the kinds that Kubernetes ships: one row a kind, one
// file a group, and in each row only what is special about the kind. What a field
// is worth when a client leaves it open is in package defaults, what it may be in
// package validation, how it looks in a table in package tables.
//
// Objects are decoded into the Go types of k8s.io/api, given their defaults and
// turned into trees, so that a tree holds what kube-apiserver would serve: known
// fields only, quantities and times in canonical form, empty structs where the
// Go types have no omitempty. Defaults, validation and table cells are functions
// of the Go types; what runs before each write works on trees.
//
// A definition promises Kubernetes' names, field paths and messages of version
// 1.37 with its default feature gates. It leaves to its callers what they do for
// every kind: ObjectMeta and the match of apiVersion and kind. On create,
// metadata.name, namespace and uid are set before Hooks.PrepareCreate runs.
//
// There are no goroutines and no locks. What is derived from the Go types, as
// the schema for field management, is immutable, made on first use and shared by
// all servers of a process.
package builtin

import (
	"sync"

	"github.com/kapok-dev/kapok/internal/resource"
)

// Definitions returns the built-in kinds. The definitions are the caller's own,
// what they point to is shared and immutable.
func Definitions() []*resource.Definition {
	definitions := make([]*resource.Definition, 0, len(rows()))
	for _, row := range rows() {
		d := *row.Definition
		d.Versions = d.Versions[:len(d.Versions)-row.retired]
		if len(d.Versions) == 1 {
			d.Convert = nil
		}
		definitions = append(definitions, &d)
	}
	return definitions
}

// WithRetired returns the built-in kinds, served also in those versions that
// Kubernetes has retired, some of them in another group. What is stored is the same.
func WithRetired() []*resource.Definition {
	definitions := make([]*resource.Definition, 0, len(rows()))
	for _, row := range rows() {
		d := *row.Definition
		definitions = append(definitions, &d)
	}
	return definitions
}

// A row is a definition whose last versions are retired ones.
type row struct {
	*resource.Definition
	retired int
}

// rows are the definitions of which others get copies.
var rows = sync.OnceValue(func() []row {
	var all []row
	for _, group := range []func() []row{
		core, nodes, volumes, services, quotas, replicas, components, apps, batch, autoscaling, networking, discovery, policy, rbac, authorization,
		scheduling, storage, storagemigration, runtimes, flowcontrol, admission, certificates, aggregation, devices, coordination, authentication,
	} {
		all = append(all, group()...)
	}
	return all
})
