package scheduler_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVolumeLimits checks that pods wait for what their volumes need, with the reason in their
// status, until an event ends it: another pod that ends for a claim of one pod, a higher limit of a
// driver, and another zone of a volume.
func TestVolumeLimits(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		run(t, env)
		n := node("a", "4")
		n.Labels[corev1.LabelTopologyZone] = "z1"
		createNode(env, n)
		drivers := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "disks.example.com", NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}},
		}}}
		env.Create(drivers)
		claim := func(name, zone string, mode corev1.PersistentVolumeAccessMode) {
			spec := corev1.PersistentVolumeClaimSpec{
				VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: new(""),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}
			env.Create(
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
				}, Spec: spec},
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}, Spec: corev1.PersistentVolumeSpec{
					Capacity: spec.Resources.Requests, AccessModes: spec.AccessModes,
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: name}},
				}},
			)
		}
		user := func(name, claim string) *corev1.Pod {
			p := pod(name, "100m")
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			env.Create(p)
			return p
		}
		expect := func(p *corev1.Pod, node, message string) {
			t.Helper()
			env.Settle()
			time.Sleep(30 * time.Second) // less than the longest wait
			env.Get(p)
			got := ""
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					got = c.Message
				}
			}
			if p.Spec.NodeName != node || got != message {
				t.Errorf("pod %s on %q, %q; want %q, %q", p.Name, p.Spec.NodeName, got, node, message)
			}
		}
		const noVictims = " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		claim("first", "z1", corev1.ReadWriteOncePod)
		first := user("first", "first")
		expect(first, "a", "")
		second := user("second", "first")
		expect(second, "", "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod."+noVictims)
		claim("third", "z1", corev1.ReadWriteOnce)
		third := user("third", "third")
		expect(third, "", "0/1 nodes are available: 1 node(s) exceed max volume count."+noVictims)
		claim("fourth", "z2", corev1.ReadWriteOnce)
		env.Update(drivers, func() { drivers.Spec.Drivers[0].Allocatable.Count = new(int32(2)) })
		expect(third, "a", "")
		env.Update(drivers, func() { drivers.Spec.Drivers[0].Allocatable = nil })
		fourth := user("fourth", "fourth")
		expect(fourth, "", "0/1 nodes are available: 1 node(s) had no available volume zone. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
		if err := env.Client().Delete(env.Context(), first, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		expect(second, "a", "")
		var v corev1.PersistentVolume
		v.Name = "fourth"
		env.Get(&v)
		env.Update(&v, func() { v.Labels[corev1.LabelTopologyZone] = "z1__z2" })
		expect(fourth, "a", "")
	})
}
