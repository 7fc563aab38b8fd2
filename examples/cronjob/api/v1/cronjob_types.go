package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronJobSpec is the desired state of a CronJob.
type CronJobSpec struct {
	// The times at which jobs start, in cron format: minute, hour, day of the month, month, day of the
	// week. See https://en.wikipedia.org/wiki/Cron. Times are in the time zone of the controller, unless
	// the schedule begins with CRON_TZ=Zone/Name and a space.
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`

	// The deadline in seconds after the scheduled time for starting a job that was missed for any
	// reason. After that the job is skipped. If unset, there is no deadline.
	// +kubebuilder:validation:Minimum=0
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// What happens when a job is due while an earlier one runs:
	// - "Allow" (default): both run;
	// - "Forbid": the new one is not started;
	// - "Replace": the earlier one is deleted, the new one is started
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// Whether to start no further jobs. Jobs that are already running continue. Defaults to false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// The job that is created at each scheduled time.
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// The number of successful jobs to keep. If unset, all are kept; 0 keeps none.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// The number of failed jobs to keep. If unset, all are kept; 0 keeps none.
	// +kubebuilder:validation:Minimum=0
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// ConcurrencyPolicy selects what happens when a job is due while an earlier one runs. The default
// is Allow.
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

// CronJobStatus is the last observed state of the jobs of a CronJob.
type CronJobStatus struct {
	// The jobs that are running.
	// +optional
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// The scheduled time of the newest job.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
}

// CronJob makes jobs at scheduled times.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CronJobSpec   `json:"spec"`
	Status CronJobStatus `json:"status,omitempty"`
}

// CronJobList is a list of CronJobs.
// +kubebuilder:object:root=true
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronJob `json:"items"`
}
