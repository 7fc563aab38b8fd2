package statefulset

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var podName = regexp.MustCompile(`^(?s:(.*))-([0-9]+)$`)

// parse splits the name of a pod into that of its set and its ordinal. The set is empty if the name
// has no ordinal; the ordinal is -1 if it has none, or none that is an int32.
func parse(name string) (set string, ordinal int) {
	parts := podName.FindStringSubmatch(name)
	if parts == nil {
		return "", -1
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return parts[1], -1
	}
	return parts[1], int(n)
}

func ordinal(p *corev1.Pod) int {
	_, n := parse(p.Name)
	return n
}

func nameOf(set *appsv1.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// start returns the first ordinal of a set.
func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// hasOrdinal reports whether an ordinal is one of a set's.
func hasOrdinal(set *appsv1.StatefulSet, ordinal int) bool {
	return ordinal >= start(set) && ordinal < start(set)+int(*set.Spec.Replicas)
}

// arrange sorts the pods into replicas and condemned ones, and begins the status with their
// numbers.
func (o *round) arrange() {
	o.replicas = make([]*corev1.Pod, *o.set.Spec.Replicas)
	for _, p := range o.pods {
		switch n := ordinal(p); {
		case hasOrdinal(o.set, n):
			o.replicas[n-start(o.set)] = p
		case n >= 0:
			o.condemned = append(o.condemned, p)
		}
	}
	slices.SortFunc(o.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	o.status = o.count()
	for i, p := range o.replicas {
		if p == nil {
			o.replicas[i] = o.newPod(start(o.set) + i)
		}
	}
}

// newPod returns the pod of an ordinal as it is to be created. Below the partition of a rolling
// update it has the current revision, else that of the update.
func (o *round) newPod(ordinal int) *corev1.Pod {
	of := o.update
	if o.keepsCurrent(ordinal) {
		of = o.current
	}
	p := pod.FromTemplate(of.template, o.set, *metav1.NewControllerRef(o.set, kind))
	p.Name = nameOf(o.set, ordinal)
	identify(o.set, p)
	p.Spec.Hostname = p.Name
	p.Spec.Subdomain = o.set.Spec.ServiceName
	mountClaims(o.set, p)
	p.Labels[appsv1.StatefulSetRevisionLabel] = of.Name
	return p
}

func (o *round) keepsCurrent(ordinal int) bool {
	strategy := &o.set.Spec.UpdateStrategy
	if strategy.RollingUpdate != nil {
		return ordinal < start(o.set)+o.partition()
	}
	return strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && ordinal < start(o.set)+int(o.set.Status.CurrentReplicas)
}

// exists reports whether a pod is not one that newPod has returned.
func exists(p *corev1.Pod) bool { return p.UID != "" }

// revisionOf returns the name of the revision of a pod.
func revisionOf(p *corev1.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }

// hasIdentity reports whether a pod has the labels of its identity.
func hasIdentity(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	n := ordinal(p)
	return n >= 0 && p.Name == nameOf(set, n) && p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name
}

// identify gives a pod the labels of its identity.
func identify(set *appsv1.StatefulSet, p *corev1.Pod) {
	n := ordinal(p)
	p.Name = nameOf(set, n)
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel] = p.Name
	p.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
}

// hasStorage reports whether a pod mounts the claims of its identity.
func hasStorage(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	n := ordinal(p)
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		ok := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == t.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claimName(set, t, n)
		})
		if !ok {
			return false
		}
	}
	return true
}

// mountClaims gives a pod the volumes of the claims of its identity, in place of others of the same
// name.
func mountClaims(set *appsv1.StatefulSet, p *corev1.Pod) {
	var volumes []corev1.Volume
	claims := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		claims[t.Name] = true
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t, ordinal(p))}}
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: source})
	}
	for _, v := range p.Spec.Volumes {
		if !claims[v.Name] {
			volumes = append(volumes, v)
		}
	}
	p.Spec.Volumes = volumes
}
