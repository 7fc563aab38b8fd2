package simulated

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createRetry is the pause after a node could not be created.
const createRetry = time.Second

// A creator creates the nodes of Options when the manager starts. It is a Runnable of the leader.
type creator struct {
	options Options
	client  client.Client
}

// Start implements manager.Runnable.
func (c *creator) Start(ctx context.Context) error {
	for i := 0; i < c.options.Nodes; {
		err := client.IgnoreAlreadyExists(c.client.Create(ctx, c.options.node(i)))
		if err == nil {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(createRetry):
		}
	}
	return nil
}

// node returns a new node with its status, as kubelets create it.
func (o *Options) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint(o.NamePrefix, i), Labels: map[string]string{}, Annotations: map[string]string{NodeAnnotation: Simulated},
	}}
	maps.Copy(n.Labels, o.Labels)
	maps.Copy(n.Labels, usualLabels(n.Name))
	n.Spec.Taints = append(n.Spec.Taints, o.Taints...)
	n.Status = o.nodeStatus(n, time.Now())
	return n
}
