package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestPlaceVolumes is TestPlace for pods with volumes: VolumeRestrictions, NodeVolumeLimits,
// VolumeBinding and VolumeZone must refuse the same nodes for the same reasons. Each of these
// refuses pods.
func TestPlaceVolumes(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	refusals := map[string]int{}
	for i := range *placeClusters {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		g.storage(w)
		for _, p := range w.pods {
			w.storage = append(w.storage, g.volumes(p)...)
		}
		ours := place.NewCluster(1)
		w.tell(ours)
		w.tellStorage(ours)
		for n := range 6 {
			p := g.pod(fmt.Sprint("new", n), "")
			if !g.sometimes(4) {
				p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
			}
			for _, claim := range g.volumes(p) {
				w.replace(ours, claim)
			}
			real := newRealPlacer(t, w)
			want, got := real.judge(t, p), judge(ours, p)
			if want != got {
				t.Fatalf("cluster %d: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), describeStorage(w), want, got)
			}
			for _, no := range ours.Place(p, defaultProfile).Refusals() {
				refusals[no.Plugin+": "+no.Reasons[0]]++
			}
			for _, scores := range ours.Place(p, defaultProfile).Scores() {
				if scores["VolumeBinding"] > 0 {
					refusals["score"]++
				}
			}
			g.changeStorage(w, ours)
		}
	}
	for _, want := range []string{
		"VolumeRestrictions: node(s) had no available disk", "NodeVolumeLimits: node(s) exceed max volume count",
		"VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
		"NodeVolumeLimits: ebs.csi.aws.com CSI driver is not installed on the node",
		"VolumeZone: node(s) had no available volume zone", "VolumeBinding: node(s) did not have enough free storage", "score",
		"VolumeBinding: node(s) didn't find available persistent volumes to bind", "VolumeBinding: node(s) didn't match PersistentVolume's node affinity",
	} {
		if refusals[want] == 0 {
			t.Errorf("no refusal %q in %v", want, refusals)
		}
	}
}

const (
	storageClaims  = 5
	storageVolumes = 8
)

// storage adds classes, volumes, claims, drivers and their limits to a world.
func (g *clusterGenerator) storage(w *world) {
	for name, provisioner := range map[string]string{"manual": "kubernetes.io/no-provisioner", "ebs": "ebs.csi.aws.com", "old": "kubernetes.io/gce-pd"} {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		w.storage = append(w.storage, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode})
	}
	mode := storagev1.VolumeBindingImmediate
	w.storage = append(w.storage, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode})
	for i := range storageVolumes {
		w.storage = append(w.storage, g.persistentVolume(fmt.Sprint("v", i)))
	}
	for _, namespace := range []string{"default", "other"} {
		for i := range storageClaims {
			if !g.sometimes(12) {
				w.storage = append(w.storage, g.claim(namespace, fmt.Sprint("c", i)))
			}
		}
	}
	w.storage = append(w.storage, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: new(g.sometimes(3)), StorageCapacity: new(g.sometimes(2))}})
	for _, zone := range []string{"z1", "z2"} {
		w.storage = append(w.storage, g.capacityOf(zone))
	}
	for _, n := range w.nodes {
		if !g.sometimes(4) {
			w.storage = append(w.storage, g.csiNode(n.Name))
		}
		if g.sometimes(4) {
			w.storage = append(w.storage, g.attachment("a-"+n.Name, n.Name))
		}
		for _, key := range []string{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion} {
			if g.sometimes(6) {
				n.Labels[key] = g.one("z1", "z2")
			}
		}
	}
}

// capacityOf is what a driver has for volumes of a class in a zone.
func (g *clusterGenerator) capacityOf(zone string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ebs-" + zone}, StorageClassName: "ebs"}
	c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}}
	c.Capacity = new(resource.MustParse(g.one("500Mi", "2Gi", "7Gi", "100Gi")))
	if g.sometimes(3) {
		c.MaximumVolumeSize = new(resource.MustParse(g.one("500Mi", "2Gi")))
	}
	return c
}

func (g *clusterGenerator) csiNode(name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, driver := range []string{"ebs.csi.aws.com", "pd.csi.storage.gke.io", "other.example.com"} {
		if g.sometimes(5) {
			continue
		}
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if !g.sometimes(4) {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: new(g.r.Int32N(4))}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

func (g *clusterGenerator) attachment(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: g.one("ebs.csi.aws.com", "other.example.com"), NodeName: node,
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(fmt.Sprint("v", g.r.IntN(storageVolumes)))},
	}}
}

func (g *clusterGenerator) persistentVolume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(g.one("1Gi", "5Gi", "5Gi"))}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	v.Spec.StorageClassName = g.one("manual", "ebs", "old")
	v.Status.Phase = corev1.VolumeAvailable
	switch g.r.IntN(5) {
	case 0, 1:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: g.one("ebs.csi.aws.com", "other.example.com"), VolumeHandle: "h-" + name}
	case 2:
		v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}
	case 3:
		v.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: name}
		v.Labels[corev1.LabelTopologyZone] = g.one("z1", "z2")
	case 4:
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion} {
		if g.sometimes(6) {
			v.Labels[key] = g.one("z1", "z2", "z1__z3", "z1__", " z2 ")
		}
	}
	if g.sometimes(4) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{g.nodeTerm()}}}
	}
	return v
}

func (g *clusterGenerator) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(g.one("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(g.one("1Gi", "3Gi"))}
	c.Spec.StorageClassName = new(g.one("manual", "ebs", "old", "ebs", "old", "now", "none"))
	if g.sometimes(30) {
		c.Spec.StorageClassName = nil
	}
	if g.sometimes(2) {
		c.Spec.VolumeName = fmt.Sprint("v", g.r.IntN(storageVolumes+1))
		if !g.sometimes(12) {
			c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
	}
	return c
}

// volumes adds volumes to a pod. It returns the claims of those that are ephemeral.
func (g *clusterGenerator) volumes(p *corev1.Pod) (claims []runtime.Object) {
	for i := range g.r.IntN(4) {
		v := corev1.Volume{Name: fmt.Sprint("v", i)}
		readOnly := g.sometimes(2)
		switch g.r.IntN(10) {
		case 0:
			v.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: g.one("d1", "d2", "v0"), ReadOnly: readOnly}
		case 1:
			v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: g.one("vol-d1", "vol-v0"), ReadOnly: readOnly}
		case 2:
			v.ISCSI = &corev1.ISCSIVolumeSource{IQN: g.one("i1", "i2"), ReadOnly: readOnly}
		case 3:
			v.RBD = &corev1.RBDVolumeSource{CephMonitors: []string{g.one("m1", "m2"), g.one("m2", "m3")}, RBDPool: g.one("p1", "p2"), RBDImage: "image", ReadOnly: readOnly}
		case 4:
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case 5:
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
			if !g.sometimes(5) {
				c := g.claim(p.Namespace, p.Name+"-"+v.Name)
				c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
				claims = append(claims, c)
			}
		default:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", g.r.IntN(storageClaims))}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return claims
}

// changeStorage changes one object of a world, or the pods.
func (g *clusterGenerator) changeStorage(w *world, c *place.Cluster) {
	switch g.r.IntN(6) {
	case 5:
		w.replace(c, g.capacityOf(g.one("z1", "z2")))
	case 0:
		w.replace(c, g.claim(g.one("default", "other"), fmt.Sprint("c", g.r.IntN(storageClaims))))
	case 1:
		w.replace(c, g.persistentVolume(fmt.Sprint("v", g.r.IntN(storageVolumes))))
	case 2:
		w.replace(c, g.csiNode(w.nodes[g.r.IntN(len(w.nodes))].Name))
	case 3:
		n := w.nodes[g.r.IntN(len(w.nodes))].Name
		w.replace(c, g.attachment("a-"+n, n))
	case 4:
		if len(w.pods) > 0 {
			at := g.r.IntN(len(w.pods))
			c.RemovePod(w.pods[at].UID)
			w.pods = slices.Delete(w.pods, at, at+1)
		}
	}
}

// replace adds an object of storage, or replaces the one with its name.
func (w *world) replace(c *place.Cluster, o runtime.Object) {
	w.storage = slices.DeleteFunc(w.storage, func(have runtime.Object) bool {
		return fmt.Sprintf("%T", have) == fmt.Sprintf("%T", o) && cache.MetaObjectToName(have.(metav1.Object)) == cache.MetaObjectToName(o.(metav1.Object))
	})
	w.storage = append(w.storage, o)
	tellStorage(c, o)
}

func (w *world) tellStorage(c *place.Cluster) {
	for _, o := range w.storage {
		tellStorage(c, o)
	}
}

func tellStorage(c *place.Cluster, o runtime.Object) {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		c.SetClaim(o)
	case *corev1.PersistentVolume:
		c.SetVolume(o)
	case *storagev1.StorageClass:
		c.SetStorageClass(o)
	case *storagev1.CSINode:
		c.SetCSINode(o)
	case *storagev1.CSIDriver:
		c.SetCSIDriver(o)
	case *storagev1.CSIStorageCapacity:
		c.SetStorageCapacity(o)
	case *storagev1.VolumeAttachment:
		c.SetAttachment(o)
	}
}

// stored fills the caches of kube-scheduler's plugins. The caches must have their indexers already.
func (w *world) stored(t *testing.T, f informers.SharedInformerFactory) {
	for _, o := range w.storage {
		var informer cache.SharedIndexInformer
		switch o.(type) {
		case *corev1.PersistentVolumeClaim:
			informer = f.Core().V1().PersistentVolumeClaims().Informer()
		case *corev1.PersistentVolume:
			informer = f.Core().V1().PersistentVolumes().Informer()
		case *storagev1.StorageClass:
			informer = f.Storage().V1().StorageClasses().Informer()
		case *storagev1.CSINode:
			informer = f.Storage().V1().CSINodes().Informer()
		case *storagev1.CSIStorageCapacity:
			informer = f.Storage().V1().CSIStorageCapacities().Informer()
		case *storagev1.CSIDriver:
			informer = f.Storage().V1().CSIDrivers().Informer()
		case *storagev1.VolumeAttachment:
			informer = f.Storage().V1().VolumeAttachments().Informer()
		}
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

func describeStorage(w *world) (text string) {
	for _, o := range w.storage {
		text += fmt.Sprintf("%T %+v\n", o, o)
	}
	return text
}
