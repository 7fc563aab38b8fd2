package builtin

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// networking has group networking.k8s.io.
func networking() []row {
	v1, extensions := networkingv1.SchemeGroupVersion, extensionsv1beta1.SchemeGroupVersion
	return []row{
		kind[networkingv1.Ingress]{
			version:       v1,
			plural:        "ingresses",
			shortNames:    []string{"ing"},
			validate:      validation.Ingress,
			status:        &status[networkingv1.Ingress]{validate: validation.IngressStatus},
			generation:    []string{"spec"},
			prepareCreate: func(obj resource.Tree) { put(obj, resource.Tree{}, "status", "loadBalancer") },
			table:         tables.Ingresses(),
			retired: []another[networkingv1.Ingress]{
				in[networkingv1.Ingress, networkingv1beta1.Ingress](networkingv1beta1.SchemeGroupVersion),
				in[networkingv1.Ingress, extensionsv1beta1.Ingress](extensions),
			},
			hooks: resource.Hooks{Warnings: warnOfIngress},
		}.row(),
		kind[networkingv1.IngressClass]{
			version:       v1,
			plural:        "ingressclasses",
			clusterScoped: true,
			defaults:      fill[networkingv1.IngressClass],
			validate:      validation.IngressClass,
			generation:    []string{"spec"},
			table:         tables.IngressClasses(),
			retired: []another[networkingv1.IngressClass]{
				in[networkingv1.IngressClass, networkingv1beta1.IngressClass](networkingv1beta1.SchemeGroupVersion),
			},
		}.row(),
		kind[networkingv1.NetworkPolicy]{
			version:    v1,
			plural:     "networkpolicies",
			shortNames: []string{"netpol"},
			defaults:   fill[networkingv1.NetworkPolicy],
			validate:   validation.NetworkPolicy,
			generation: []string{"spec"},
			table:      tables.NetworkPolicies(),
			retired: []another[networkingv1.NetworkPolicy]{
				in[networkingv1.NetworkPolicy, extensionsv1beta1.NetworkPolicy](extensions),
			},
			hooks: resource.Hooks{Warnings: warnOfNetworkPolicy},
		}.row(),
		ipAddresses(),
		kind[networkingv1.ServiceCIDR]{
			version:       v1,
			plural:        "servicecidrs",
			clusterScoped: true,
			validate:      validation.ServiceCIDR,
			status: &status[networkingv1.ServiceCIDR]{
				validate: validation.ServiceCIDRStatus,
				keeps:    metadataOfUsers,
			},
			table: tables.ServiceCIDRs(),
		}.row(),
	}
}

// metadataOfUsers is what writes of a status leave alone, where all metadata is.
var metadataOfUsers = []string{
	"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.selfLink",
}

// ipAddresses are the addresses that somebody has. Those of services come and go with
// them, see [Ranges].
func ipAddresses() row {
	return kind[networkingv1.IPAddress]{
		version:       networkingv1.SchemeGroupVersion,
		plural:        "ipaddresses",
		shortNames:    []string{"ip"},
		clusterScoped: true,
		validate:      validation.IPAddress,
		table:         tables.IPAddresses(),
		hooks: resource.Hooks{
			ValidateName: validation.IPAddressName,
			Claim:        keepHeldAddress,
		},
	}.row()
}

func warnOfIngress(obj, old resource.Tree) []string {
	if old == nil && text(obj, "metadata", "annotations", validation.IngressClassAnnotation) != "" && text(obj, "spec", "ingressClassName") == "" {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", validation.IngressClassAnnotation)}
	}
	return nil
}

// warnOfNetworkPolicy warns of ranges that not everybody reads alike.
func warnOfNetworkPolicy(obj, _ resource.Tree) []string {
	var warnings []string
	warn := func(path *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			warnings = append(warnings, kvalidation.GetWarningsForCIDR(at.Child("cidr"), peer.IPBlock.CIDR)...)
			for i, cidr := range peer.IPBlock.Except {
				warnings = append(warnings, kvalidation.GetWarningsForCIDR(at.Child("except").Index(i), cidr)...)
			}
		}
	}
	spec := decoded[networkingv1.NetworkPolicy](obj).Spec
	for i, rule := range spec.Ingress {
		warn(field.NewPath("spec", "ingress").Index(i).Child("from"), rule.From)
	}
	for i, rule := range spec.Egress {
		warn(field.NewPath("spec", "egress").Index(i).Child("to"), rule.To)
	}
	return warnings
}
