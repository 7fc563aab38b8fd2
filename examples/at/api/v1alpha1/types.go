package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The phases of an At, in their order.
const (
	// PhasePending is the phase until the scheduled time.
	PhasePending = "PENDING"
	// PhaseRunning is the phase from the scheduled time until the command has ended.
	PhaseRunning = "RUNNING"
	// PhaseDone is the phase after the command has ended, well or not. It is final.
	PhaseDone = "DONE"
)

// AtSpec is a command and the time at which it runs.
type AtSpec struct {
	// The date and time in UTC at which the command runs, such as 2026-07-03T02:00:00Z. A time in the
	// past means immediately.
	// +kubebuilder:validation:Pattern=`^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$`
	Schedule string `json:"schedule"`

	// The command, as typed in a shell.
	Command string `json:"command"`
}

// AtStatus is the progress of an At.
type AtStatus struct {
	// PENDING, RUNNING or DONE.
	// +optional
	Phase string `json:"phase,omitempty"`
}

// At runs a command at a time.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ats,singular=at,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 249",message="must be no more than 249 characters, as the name of the pod has more"
// +kubebuilder:printcolumn:name=schedule,type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name=command,type=string,JSONPath=`.spec.command`
// +kubebuilder:printcolumn:name=phase,type=string,JSONPath=`.status.phase`
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AtSpec   `json:"spec"`
	Status AtStatus `json:"status,omitempty"`
}

// AtList is a list of Ats.
// +kubebuilder:object:root=true
type AtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []At `json:"items"`
}
