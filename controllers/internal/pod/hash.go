package pod

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/rand"
)

// TemplateHash returns the hash of a template for names and the label pod-template-hash. It is the
// hash that Kubernetes computes, so that a store that a kube-controller-manager has used causes no
// rollout. collisions is part of the hash, to resolve collisions of two templates; nil means none.
func TemplateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*template))
	if collisions != nil {
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisions))
		h.Write(count[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
