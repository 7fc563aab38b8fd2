package process

import (
	"github.com/kapok-dev/kapok/node/internal/cgroup"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxProcesses is the number of processes and threads of a container: one that forks
	// without end does not stop the machine.
	maxProcesses = 4096
	// minShares are the shares of processors of a container without a request, as with a
	// kubelet.
	minShares = 2
)

// limitsOf returns the limits of a container, as a kubelet sets them.
func limitsOf(c *corev1.Container) cgroup.Limits {
	limits, requests := c.Resources.Limits, c.Resources.Requests
	l := cgroup.Limits{Memory: limits.Memory().Value(), CPU: limits.Cpu().MilliValue(), Pids: maxProcesses}
	request := requests.Cpu().MilliValue()
	if request == 0 {
		request = l.CPU
	}
	l.Shares = max(minShares, request*1024/1000)
	return l
}
