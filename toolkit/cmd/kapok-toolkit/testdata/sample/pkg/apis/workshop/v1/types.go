package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Lathe turns.
//
// +genclient
// +genclient:method=Stop,verb=update,subresource=stop,input=Lathe,result=Lathe
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Lathe struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LatheSpec   `json:"spec,omitempty"`
	Status LatheStatus `json:"status,omitempty"`
}

// LatheSpec is what a Lathe does.
type LatheSpec struct {
	// Turns a minute.
	Speed int32 `json:"speed"`
	// +optional
	Tools map[string]Tool `json:"tools,omitempty"`
	// +listType=set
	Labels []string `json:"labels,omitempty"`
}

type Tool struct {
	Width *int32 `json:"width,omitempty"`
	// +listType=atomic
	Args []string `json:"args,omitempty"`
}

type LatheStatus struct {
	Turned int64 `json:"turned"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type LatheList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Lathe `json:"items"`
}
