package podautoscaler

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRecorded compares calculations with those of kube-controller-manager, which test/oracle has
// recorded.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/replicas.txt")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int64) metav1.Time {
		return metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
	}
	n := 0
	for line := range bytes.Lines(text) {
		var in struct {
			Kind         string
			Target       int64
			Spec, Status int32
			Pods         []struct {
				Name, Phase, Ready string
				Start, Since       int64
				Going              bool
				Request            int64
			}
			Samples map[string][3]int64
			Usage   int64
			Want    struct {
				Replicas, Utilization int32
				Usage                 int64
				Error                 string
			}
		}
		if err := json.Unmarshal(line, &in); err != nil {
			t.Fatal(err)
		}
		n++
		c := calculation{spec: in.Spec, status: in.Status, initialization: 5 * time.Minute, readiness: 30 * time.Second, now: now}
		for _, one := range in.Pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: one.Name}}
			p.Status.Phase, p.Status.StartTime = corev1.PodPhase(one.Phase), new(at(one.Start))
			if one.Ready != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(one.Ready), LastTransitionTime: at(one.Since)}}
			}
			if one.Going {
				p.DeletionTimestamp = new(at(0))
			}
			p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(one.Request, resource.DecimalSI),
			}}}}
			c.pods = append(c.pods, p)
		}
		s := samples{}
		for name, one := range in.Samples {
			s[name] = sample{value: one[0], at: at(one[1]).Time, window: time.Duration(one[2]) * time.Second}
		}
		var got proposal
		var err error
		switch in.Kind {
		case "utilization":
			got, err = c.byUtilization(s, corev1.ResourceCPU, "", int32(in.Target))
		case "average":
			got, err = c.byAverage(s, corev1.ResourceCPU, in.Target)
		case "metric":
			got, err = c.byAverage(s, "", in.Target)
		case "total":
			got, err = c.byTotal(in.Usage, in.Target)
		case "part":
			got = c.perPod(in.Usage, in.Target)
		}
		if err != nil {
			if err.Error() != in.Want.Error {
				t.Errorf("%serror %q", line, err)
			}
			continue
		}
		if in.Want.Error != "" || got != (proposal{in.Want.Replicas, in.Want.Usage, in.Want.Utilization}) {
			t.Errorf("%sgot %+v", line, got)
		}
	}
	if n < 100 {
		t.Errorf("only %d calculations are recorded", n)
	}
}

// TestHugeNumbers checks numbers that exceed what a number of replicas or a sum can be.
func TestHugeNumbers(t *testing.T) {
	c := calculation{spec: 3, status: 3}
	if p := c.perPod(math.MaxInt64, 1); p.replicas != math.MaxInt32 || p.usage != math.MaxInt64 {
		t.Errorf("perPod: %+v", p)
	}
	c.spec = 0
	if p, err := c.byTotal(math.MaxInt64, 1); err != nil || p.replicas != math.MaxInt32 {
		t.Errorf("byTotal: %+v, %v", p, err)
	}
	c = calculation{spec: 2, pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	full := samples{"a": {value: math.MaxInt64}, "b": {value: math.MaxInt64}}
	if p, err := c.byAverage(full, "", 1); err != nil || p.replicas != math.MaxInt32 {
		t.Errorf("byAverage: %+v, %v", p, err)
	}
	if sum := (samples{"a": {value: math.MinInt64}, "b": {value: -1}}).total(); sum != math.MinInt64 {
		t.Errorf("the sum of very small values is %d", sum)
	}
	if n := percentage(math.MaxInt64, 1); n != math.MaxInt32 {
		t.Errorf("percentage is %d", n)
	}
}
