package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLimitRatio(t *testing.T) {
	for _, c := range []struct {
		ratio, least, most string
		ok                 bool
	}{
		{"2", "1Gi", "2Gi", true},
		{"2100m", "1Gi", "2Gi", false},
		{"1", "4Ei", "7Ei", true}, // these overflow when counted in thousandths
		{"2", "4Ei", "7Ei", false},
		{"1500m", "100m", "150m", true},
	} {
		item := corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: amounts("memory", c.least), Max: amounts("memory", c.most), MaxLimitRequestRatio: amounts("memory", c.ratio)}
		errs := validateLimitRange(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}, nil)
		if len(errs) == 0 != c.ok {
			t.Errorf("%s of %s to %s: %v", c.ratio, c.least, c.most, errs)
		}
	}
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}
