package manager

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The times of WithElection. A Lease lasts whole seconds.
const (
	quickLease    = time.Second
	quickDeadline = 700 * time.Millisecond
	quickRetry    = 200 * time.Millisecond
)

// WithElection returns the options with leader election by a Lease in kube-system. After the death
// of the leader, another process acts within two seconds. Fields that are set stay as they are.
func (o Options) WithElection(id string) Options {
	o.LeaderElection = true
	o.LeaderElectionID = cmp.Or(o.LeaderElectionID, id)
	o.LeaderElectionNamespace = cmp.Or(o.LeaderElectionNamespace, metav1.NamespaceSystem)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, new(quickLease))
	o.RenewDeadline = cmp.Or(o.RenewDeadline, new(quickDeadline))
	o.RetryPeriod = cmp.Or(o.RetryPeriod, new(quickRetry))
	return o
}
