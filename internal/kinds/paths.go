package kinds

import (
	"sync"

	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Paths returns the paths in etcd under which kube-apiserver stores the objects of built-in kinds.
var Paths = sync.OnceValue(func() *object.Paths {
	places := []object.Place{
		{Resource: services.PortsKey.Resource, Path: "ranges", Only: services.PortsKey.Name},
		// Kinds that Kapok does not serve, but that the store of a Kubernetes cluster may have.
		{Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leasecandidates"}, Path: "leasecandidates"},
		{Resource: schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}, Path: "storageversions"},
	}
	for _, row := range rows() {
		if d := row.definition; d.Action == nil {
			places = append(places, object.Place{Resource: d.GroupResource(), Path: d.StoredAt})
		}
	}
	return object.NewPaths(places)
})
