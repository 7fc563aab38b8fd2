// Package kinds defines the kinds that Kubernetes ships. Each group of kinds is a package; each
// kind is a row that declares its particularities. The package of a group has its rows,
// defaults, validation (validate_*.go), table columns (columns*.go) and conversions between
// versions (versions*.go).
//
// Objects are decoded into the Go types of k8s.io/api, defaulted and converted to trees, so that a
// tree has what kube-apiserver would serve: known fields only, quantities and times in canonical
// form, and empty structs where the Go types have no omitempty. Defaults, validation and table
// cells are functions of the Go types; strategies work on trees.
//
// Definitions have the names, field paths and messages of Kubernetes 1.37 with its default feature
// gates. Callers do what is common to all kinds: they validate ObjectMeta and match apiVersion and
// kind. On create, they set metadata.name, namespace and uid before Strategy.PrepareCreate runs.
//
// There are no goroutines. What is derived from the Go types, such as the schemas of field
// management, is immutable, built on first use and shared by all servers of a process.
package kinds

import (
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/access"
	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/autoscaling"
	"github.com/kapok-dev/kapok/internal/kinds/batch"
	"github.com/kapok-dev/kapok/internal/kinds/certificates"
	"github.com/kapok-dev/kapok/internal/kinds/cluster"
	"github.com/kapok-dev/kapok/internal/kinds/devices"
	"github.com/kapok-dev/kapok/internal/kinds/flow"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/kinds/versions"
	"github.com/kapok-dev/kapok/internal/resource"
)

// Definitions returns the built-in kinds. The caller owns the definitions; what they point to is
// shared and immutable.
func Definitions() []*resource.Definition {
	definitions := make([]*resource.Definition, 0, len(rows()))
	for _, row := range rows() {
		d := *row.definition
		d.Versions = d.Versions[:len(d.Versions)-row.retired]
		if len(d.Versions) == 1 {
			d.Convert = nil
		}
		definitions = append(definitions, &d)
	}
	return definitions
}

// WithRetired returns the built-in kinds, served also in the versions that Kubernetes has removed,
// some of them in another group. The storage versions are the same.
func WithRetired() []*resource.Definition {
	definitions := make([]*resource.Definition, 0, len(rows()))
	for _, row := range rows() {
		d := *row.definition
		definitions = append(definitions, &d)
	}
	return definitions
}

// Give passes users to definitions. It must be called before they are registered.
func Give(definitions []*resource.Definition, u *users.Users) []*resource.Definition {
	for _, d := range definitions {
		d.Given = u
	}
	return definitions
}

// WithLoopback permits loopback addresses in endpoints and slices of endpoints. It replaces their
// definitions by others, which have the same versions.
func WithLoopback(definitions []*resource.Definition) []*resource.Definition {
	for _, r := range services.WithLoopback() {
		special := r.Definition(versioning())
		for i, d := range definitions {
			if d.GroupResource() != special.GroupResource() {
				continue
			}
			special.Versions = special.Versions[:len(d.Versions)]
			if len(d.Versions) == 1 {
				special.Convert = nil
			}
			definitions[i] = special
		}
	}
	return definitions
}

// WithEventTTL sets the time after its last write at which an event expires; 0 means never.
func WithEventTTL(definitions []*resource.Definition, ttl time.Duration) []*resource.Definition {
	for _, d := range definitions {
		if d.GroupResource() == cluster.EventResource {
			d.Strategy.TTL = ttl
		}
	}
	return definitions
}

// WithNodePorts sets the range of the node ports of services.
func WithNodePorts(definitions []*resource.Definition, ports services.PortRange) []*resource.Definition {
	ranges := services.DefaultRanges()
	ranges.NodePorts = ports
	for _, d := range definitions {
		if d.GroupResource() == services.ServiceResource {
			d.Strategy.Claim = ranges.Claim
		}
	}
	return definitions
}

func versioning() kind.Versioning {
	return kind.Versioning{Scheme: versions.Scheme, Converter: versions.Converter, Fill: versions.Fill}
}

// A completed is a definition with the number of its retired versions, which are the last ones.
type completed struct {
	definition *resource.Definition
	retired    int
}

// rows returns the definitions that Definitions and WithRetired copy.
var rows = sync.OnceValue(func() []completed {
	all := versioning()
	var done []completed
	for _, group := range []func() []kind.Row{
		cluster.Core, cluster.Nodes, storage.Volumes, services.Kinds, cluster.Quotas, apps.Replicas, apps.Kinds, batch.Kinds, autoscaling.Kinds, services.Networking, services.Discovery, pods.Policy, access.RBAC, access.Authorization,
		pods.Scheduling, storage.Kinds, cluster.StorageMigration, pods.Runtimes, flow.Kinds, policies.Kinds, certificates.Kinds, cluster.Aggregation, devices.Kinds, cluster.Coordination, access.Authentication,
	} {
		for _, r := range group() {
			done = append(done, completed{r.Definition(all), r.Retired})
		}
	}
	return done
})
