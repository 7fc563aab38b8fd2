package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var attachmentName = regexp.MustCompile(`csi-[0-9a-f]{64}`)

// attached reports whether o is a VolumeAttachment to a node of the scenario.
func (s *scenario) attached(o *unstructured.Unstructured) bool {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	return o.GetKind() == "VolumeAttachment" && strings.HasPrefix(node, s.ns+"-")
}

// attachment returns the name of the VolumeAttachment for NODE:VOLUME.
func (s *scenario) attachment(ctx context.Context, of string) (string, error) {
	node, volume, _ := strings.Cut(of, ":")
	all, err := s.list(ctx, "VolumeAttachment")
	if err != nil {
		return "", err
	}
	for _, a := range all {
		n, _, _ := unstructured.NestedString(a.Object, "spec", "nodeName")
		v, _, _ := unstructured.NestedString(a.Object, "spec", "source", "persistentVolumeName")
		if n == node && v == volume {
			return a.GetName(), nil
		}
	}
	return "", fmt.Errorf("volume %s has no attachment to node %s", volume, node)
}
