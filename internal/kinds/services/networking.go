package services

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Networking returns the kinds of group networking.k8s.io.
func Networking() []kind.Row {
	v1, extensions := networkingv1.SchemeGroupVersion, extensionsv1beta1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*networkingv1.Ingress]{
			Version:       v1,
			Plural:        "ingresses",
			StoredAt:      "ingress",
			ShortNames:    []string{"ing"},
			Validate:      validateIngress,
			Status:        &kind.Status[*networkingv1.Ingress]{Validate: validateIngressStatus},
			Generation:    []string{"spec"},
			PrepareCreate: func(obj resource.Tree) { kind.Put(obj, resource.Tree{}, "status", "loadBalancer") },
			Table:         ingressesTable(),
			Retired: []kind.Another[*networkingv1.Ingress]{
				kind.In[*networkingv1.Ingress, *networkingv1beta1.Ingress](networkingv1beta1.SchemeGroupVersion),
				kind.In[*networkingv1.Ingress, *extensionsv1beta1.Ingress](extensions),
			},
			Strategy: resource.Strategy{Warnings: warnOfIngress},
		}.Row(),
		kind.Kind[*networkingv1.IngressClass]{
			Version:       v1,
			Plural:        "ingressclasses",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateIngressClass,
			Generation:    []string{"spec"},
			Table:         ingressClassesTable(),
			Retired: []kind.Another[*networkingv1.IngressClass]{
				kind.In[*networkingv1.IngressClass, *networkingv1beta1.IngressClass](networkingv1beta1.SchemeGroupVersion),
			},
		}.Row(),
		kind.Kind[*networkingv1.NetworkPolicy]{
			Version:    v1,
			Plural:     "networkpolicies",
			ShortNames: []string{"netpol"},
			Filled:     true,
			Validate:   validateNetworkPolicy,
			Generation: []string{"spec"},
			Table:      networkPoliciesTable(),
			Retired: []kind.Another[*networkingv1.NetworkPolicy]{
				kind.In[*networkingv1.NetworkPolicy, *extensionsv1beta1.NetworkPolicy](extensions),
			},
			Strategy: resource.Strategy{Warnings: warnOfNetworkPolicy},
		}.Row(),
		ipAddresses(),
		kind.Kind[*networkingv1.ServiceCIDR]{
			Version:       v1,
			Plural:        "servicecidrs",
			ClusterScoped: true,
			Validate:      validateServiceCIDR,
			Status: &kind.Status[*networkingv1.ServiceCIDR]{
				Validate: validateServiceCIDRStatus,
				Keeps:    metadataOfUsers,
			},
			Table: serviceCIDRsTable(),
		}.Row(),
	}
}

// metadataOfUsers are the paths of metadata that status writes do not change, for kinds that keep
// all of it.
var metadataOfUsers = []string{
	"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.selfLink",
}

// ipAddresses returns the kind IPAddress. A service's IPAddress is written with the service, see
// [Ranges].
func ipAddresses() kind.Row {
	return kind.Kind[*networkingv1.IPAddress]{
		Version:       networkingv1.SchemeGroupVersion,
		Plural:        "ipaddresses",
		ShortNames:    []string{"ip"},
		ClusterScoped: true,
		Validate:      validateIPAddress,
		Table:         ipAddressesTable(),
		Strategy: resource.Strategy{
			ValidateName: validateIPAddressName,
			Claim:        keepHeldAddress,
		},
	}.Row()
}

func warnOfIngress(obj, old resource.Tree) []string {
	if old == nil && kind.Text(obj, "metadata", "annotations", ingressClassAnnotation) != "" && kind.Text(obj, "spec", "ingressClassName") == "" {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", ingressClassAnnotation)}
	}
	return nil
}

// warnOfNetworkPolicy warns of ambiguous ranges.
func warnOfNetworkPolicy(obj, _ resource.Tree) []string {
	var warnings []string
	warn := func(path *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			warnings = append(warnings, storage.RangeWarnings(at.Child("cidr"), peer.IPBlock.CIDR)...)
			for i, cidr := range peer.IPBlock.Except {
				warnings = append(warnings, storage.RangeWarnings(at.Child("except").Index(i), cidr)...)
			}
		}
	}
	spec := kind.Decoded[networkingv1.NetworkPolicy](obj).Spec
	for i, rule := range spec.Ingress {
		warn(field.NewPath("spec", "ingress").Index(i).Child("from"), rule.From)
	}
	for i, rule := range spec.Egress {
		warn(field.NewPath("spec", "egress").Index(i).Child("to"), rule.To)
	}
	return warnings
}
