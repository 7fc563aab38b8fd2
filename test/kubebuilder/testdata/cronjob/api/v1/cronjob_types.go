package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronJobSpec is what is wanted of a CronJob.
type CronJobSpec struct {
	// When jobs start, in the format of cron: minute, hour, day of the month, month, day of the week. See
	// https://en.wikipedia.org/wiki/Cron. It is read in the time zone of the controller, unless it begins with
	// CRON_TZ=Zone/Name and a space.
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`

	// For how many seconds after its time a job may still be started, if it has been missed for any reason. A job that is
	// not started by then is left out. Without it, a job may be started however late.
	// +kubebuilder:validation:Minimum=0
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// What happens when a job is due while an earlier one runs:
	// - "Allow" (default): both run;
	// - "Forbid": the new one is not started;
	// - "Replace": the earlier one is deleted, the new one is started
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// Starts no more jobs while it is true. Jobs that run already go on. Defaults to false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// The job that is made at each scheduled time.
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// How many finished jobs that succeeded are kept. 0 and nothing are different: without a limit, all are kept.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// How many finished jobs that failed are kept. 0 and nothing are different: without a limit, all are kept.
	// +kubebuilder:validation:Minimum=0
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// ConcurrencyPolicy says what happens when a job is due while an earlier one runs. The default is Allow.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent lets both run.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent does not start the new job.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the earlier job and starts the new one.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// CronJobStatus is what the controller has seen of the jobs of a CronJob.
type CronJobStatus struct {
	// The jobs that run.
	// +listType=atomic
	// +optional
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// The scheduled time of the newest job.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// How it is: Available says whether schedule and jobs are as they should be.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CronJob makes jobs at scheduled times.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   CronJobSpec   `json:"spec"`
	Status CronJobStatus `json:"status,omitzero"`
}

// CronJobList is a list of CronJobs.
// +kubebuilder:object:root=true
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CronJob `json:"items"`
}
