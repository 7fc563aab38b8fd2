package aggregate

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PriorityOf returns the priorities of a local group version: that of its group, and that of the
// version within the group, higher ones first. The figures are those of kube-apiserver's
// APIServices (cmd/kube-apiserver/app/aggregator.go and pkg/controlplane/apiserver/aggregator.go).
func PriorityOf(gv schema.GroupVersion, custom bool) (group, version int) {
	if custom {
		return 1000, 100
	}
	group, version = groupPriority(gv.Group), 1
	switch {
	case gv.Group == "autoscaling" && gv.Version == "v2":
		version = 30
	case gv.Group == "":
	case !strings.Contains(gv.Version, "alpha") && !strings.Contains(gv.Version, "beta"):
		version = 15
	case strings.Contains(gv.Version, "beta"):
		version = 9
	}
	return group, version
}

func groupPriority(group string) int {
	switch group {
	case "apiregistration.k8s.io":
		return 20001 // it has no APIServices, and is before all groups that have
	case "":
		return 18000
	case "apps":
		return 17800
	case "events.k8s.io":
		return 17750
	case "authentication.k8s.io":
		return 17700
	case "authorization.k8s.io":
		return 17600
	case "autoscaling":
		return 17500
	case "batch":
		return 17400
	case "certificates.k8s.io":
		return 17300
	case "networking.k8s.io":
		return 17200
	case "policy":
		return 17100
	case "rbac.authorization.k8s.io":
		return 17000
	case "storage.k8s.io":
		return 16800
	case "apiextensions.k8s.io", "admissionregistration.k8s.io":
		return 16700
	case "scheduling.k8s.io":
		return 16600
	case "coordination.k8s.io":
		return 16500
	case "node.k8s.io":
		return 16300
	case "discovery.k8s.io", "resource.k8s.io":
		return 16200
	case "flowcontrol.apiserver.k8s.io":
		return 16100
	case "internal.apiserver.k8s.io":
		return 16000
	case "storagemigration.k8s.io":
		return 15800
	}
	return 1000
}
