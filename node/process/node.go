package process

import (
	"context"
	"net/netip"
	"runtime"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/heartbeat"
	"github.com/kapok-dev/kapok/node/internal/kubelet"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	leaseDuration  = 40 * time.Second
	statusInterval = 5 * time.Minute
	createRetry    = time.Second
	maxPods        = 110
	// nodeIP is the address of the node: containers see the loopback interface of the machine.
	nodeIP = "127.0.0.1"
)

// isOwn reports whether a node is the one of this process.
func (p *pods) isOwn(n *corev1.Node) bool {
	return n.Name == p.options.Name && n.Annotations[NodeAnnotation] == Process
}

// inPods reports whether an address is one that pods get.
func (p *pods) inPods(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && p.podRange().Contains(ip)
}

func labelsOf(name string) map[string]string {
	return map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH}
}

// A creator creates the node when the manager starts. It is a Runnable.
type creator struct{ *pods }

// Start implements manager.Runnable.
func (c *creator) Start(ctx context.Context) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: c.options.Name, Labels: labelsOf(c.options.Name), Annotations: map[string]string{NodeAnnotation: Process},
	}}
	n.Status = c.nodeStatus(n, time.Now())
	for client.IgnoreAlreadyExists(c.client.Create(ctx, n.DeepCopy())) != nil {
		if !pause(ctx, createRetry) {
			return nil
		}
	}
	return nil
}

// nodeStatus returns the status of the node.
func (p *pods) nodeStatus(n *corev1.Node, now time.Time) corev1.NodeStatus {
	s := *n.Status.DeepCopy()
	memory, disk := machine(p.options.Dir)
	s.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	s.Allocatable = s.Capacity.DeepCopy()
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}, {Type: corev1.NodeHostName, Address: n.Name}}
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID: n.Name, SystemUUID: n.Name, BootID: n.Name, KernelVersion: kernel(), OSImage: "this machine", ContainerRuntimeVersion: "process://1",
		KubeletVersion: kubelet.Version, OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}
	s.DaemonEndpoints.KubeletEndpoint.Port = kubelet.Port
	heartbeat.Healthy(n.Name, &s, statusInterval, now)
	return s
}
