package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Network is a network at a provider, such as an OpenStack cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, an example that is not of the Kubernetes project"
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=".spec.cidr"
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=".spec.gateway"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=".status.id"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the network.
	Spec NetworkSpec `json:"spec"`
	// Status is the observed state of the network.
	Status NetworkStatus `json:"status,omitempty"`
}

// A NetworkSpec is the address range and the gateway of a network.
//
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).masked().containsIP(self.gateway)",message="gateway must be an address of cidr",fieldPath=".gateway"
type NetworkSpec struct {
	// Cidr is the range of addresses, like 192.168.0.0/16. Bits behind the prefix do not matter.
	//
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a range of addresses, like 192.168.0.0/16 or fd00:1::/64"
	Cidr string `json:"cidr"`
	// Gateway is the address of the router, one of Cidr.
	//
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an address, like 192.168.0.1 or fd00:1::1"
	Gateway string `json:"gateway"`
}

// A NetworkStatus is the last observed state of a network.
type NetworkStatus struct {
	// ID is the ID of the network at the provider.
	//
	// +optional
	ID string `json:"id,omitempty"`
	// ObservedGeneration is the generation of the Network that the conditions are about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions contains one condition, Ready: the network at the provider matches the spec.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

const (
	// Ready is the type of the condition that the network matches its spec.
	Ready = "Ready"

	// ReasonInSync is the reason of a ready Network: that of the provider matches the spec.
	ReasonInSync = "InSync"
	// ReasonInvalid is the reason if the spec is invalid.
	ReasonInvalid = "InvalidSpec"
	// ReasonNameTaken is the reason if the provider has a network of that name that was not created
	// for this Network.
	ReasonNameTaken = "NameTaken"
	// ReasonProvider is the reason if the provider returns an error or cannot be reached.
	ReasonProvider = "ProviderError"

	// Finalizer keeps a Network until it is deleted at the provider.
	Finalizer = "samplecrd.k8s.io/network"
)

// A NetworkList is a list of Networks.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Network `json:"items"`
}
