package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/cockroachdb/datadriven"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// beatEvery is the time between two heartbeats of a node.
const beatEvery = 2 * time.Second

// createNodes creates nodes of the scenario. A new node has the taint not-ready until a controller
// removes it, which the scenario does not wait for.
func (s *scenario) createNodes(ctx context.Context, d *datadriven.TestData) error {
	if len(d.CmdArgs) == 0 {
		return errors.New("nodes needs names")
	}
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		names := []string{a.Key}
		if text, ok := argument(d, "n"); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			names = nil
			for i := range n {
				names = append(names, fmt.Sprint(a.Key, i+1))
			}
		}
		for _, name := range names {
			if err := s.createNode(ctx, name, value(d, "zone")); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scenario) createNode(ctx context.Context, name, zone string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: s.ns + "-" + name, Labels: map[string]string{"scenario": s.ns, "name": name},
	}}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = s.ns + "-" + zone
	}
	if err := s.client.Create(ctx, n); err != nil {
		return err
	}
	s.nodes = append(s.nodes, n.Name)
	return s.client.Patch(ctx, n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`)))
}

// beat sends the heartbeats of nodes.
func (s *scenario) beat(ctx context.Context, d *datadriven.TestData) error {
	only := value(d, "only")
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		name := s.ns + "-" + a.Key
		if only != "lease" {
			if err := s.post(ctx, name, value(d, "ready") != "False"); err != nil {
				return err
			}
		}
		if only != "status" {
			if err := s.renew(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// post writes the condition Ready of a node.
func (s *scenario) post(ctx context.Context, node string, ready bool) error {
	now := metav1.Now()
	c := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if !ready {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "KubeletNotReady", "container runtime is down"
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{c}}})
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return s.client.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, data))
}

// renew renews the Lease of a node, and creates it if there is none.
func (s *scenario) renew(ctx context.Context, node string) error {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: new(int32(40)), RenewTime: &now},
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": now}})
	if err != nil {
		return err
	}
	err = s.client.Patch(ctx, lease.DeepCopy(), client.RawPatch(types.MergePatchType, data))
	if apierrors.IsNotFound(err) {
		err = s.client.Create(ctx, lease)
	}
	return err
}

// deleteNodes deletes the nodes of the scenario, as far as the server still answers.
func (s *scenario) deleteNodes(ctx context.Context) {
	for _, name := range s.nodes {
		_ = s.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		_ = s.client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}})
	}
}
