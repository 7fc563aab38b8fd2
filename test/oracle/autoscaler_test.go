package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// replicasFile has calculations of replicas with their outcomes, a JSON object on each line.
const replicasFile = "../../controllers/podautoscaler/testdata/replicas.txt"

// A calculation is the input of a calculation of replicas. Times are in seconds from now. All
// numbers of metrics are in thousandths.
type calculation struct {
	Kind         string // utilization, average, metric (average that is no resource), total, part
	Target       int64
	Spec, Status int32
	Pods         []calculationPod
	Samples      map[string][3]int64 // value, time, window
	Usage        int64               // of total and part
	Want         calculated
}

type calculationPod struct {
	Name, Phase, Ready string // Ready is empty without the condition
	Start, Since       int64
	Going              bool
	Request            int64
}

type calculated struct {
	Replicas, Utilization int32
	Usage                 int64
	Error                 string
}

// TestReplicas compares the recorded calculations with those of kube-controller-manager. With the
// flag -rewrite, it records new ones.
func TestReplicas(t *testing.T) {
	if record.Value.String() != "true" {
		text, err := os.ReadFile(replicasFile)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var c calculation
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			if got := c.calculate(); got != c.Want {
				t.Errorf("%s\ngot %+v", line, got)
			}
		}
		return
	}
	r := rand.New(rand.NewPCG(1, 1))
	var text bytes.Buffer
	for range 400 {
		c := randomCalculation(r)
		c.Want = c.calculate()
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(replicasFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func randomCalculation(r *rand.Rand) calculation {
	c := calculation{
		Kind: []string{"utilization", "average", "metric", "utilization", "average", "total", "part"}[r.IntN(7)], Target: 1 + r.Int64N(150),
		Spec: r.Int32N(9), Status: 1 + r.Int32N(8), Samples: map[string][3]int64{}, Usage: r.Int64N(1500),
	}
	scale := 1 + r.Int64N(200) // of the values, so that there is something on both sides of the target
	for i := range r.IntN(8) {
		p := calculationPod{Name: fmt.Sprint("p", i), Phase: "Running", Ready: "True", Start: -3600, Since: -3000, Request: 100}
		switch r.IntN(12) {
		case 0:
			p.Phase, p.Ready = "Pending", ""
		case 1:
			p.Phase = "Failed"
		case 2:
			p.Going = true
		case 3:
			p.Ready = "False"
		case 4:
			p.Ready, p.Since = "False", p.Start+10
		case 5:
			p.Start, p.Since = -100, -10-r.Int64N(80)
		case 6:
			p.Start, p.Since, p.Ready = -100, -50, "False"
		case 7:
			p.Request = r.Int64N(500)
		}
		c.Pods = append(c.Pods, p)
		if r.IntN(6) > 0 {
			c.Samples[p.Name] = [3]int64{r.Int64N(2 * scale), -5 - 10*r.Int64N(3), 30}
		}
	}
	if r.IntN(10) == 0 {
		c.Samples["strange"] = [3]int64{r.Int64N(2 * scale), -5, 30}
	}
	return c
}

// calculate returns what kube-controller-manager calculates, without a tolerance.
func (c *calculation) calculate() calculated {
	now := time.Now()
	at := func(seconds int64) metav1.Time {
		return metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)}
	}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, one := range c.Pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: one.Name, Namespace: "default"}}
		p.Status.Phase = corev1.PodPhase(one.Phase)
		p.Status.StartTime = new(at(one.Start))
		if one.Ready != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(one.Ready), LastTransitionTime: at(one.Since)}}
		}
		if one.Going {
			p.DeletionTimestamp = new(at(0))
		}
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(one.Request, resource.DecimalSI),
		}}}}
		if err := pods.Add(p); err != nil {
			panic(err)
		}
	}
	figures := fixedMetrics{pods: metricsclient.PodMetricsInfo{}, usage: c.Usage}
	for name, s := range c.Samples {
		figures.pods[name] = metricsclient.PodMetric{Value: s[0], Timestamp: at(s[1]).Time, Window: time.Duration(s[2]) * time.Second}
	}
	calculator := podautoscaler.NewReplicaCalculator(figures, corelisters.NewPodLister(pods), 5*time.Minute, 30*time.Second)
	var exact podautoscaler.Tolerances
	var got calculated
	var err error
	ctx, all := context.Background(), labels.Everything()
	switch c.Kind {
	case "utilization":
		got.Replicas, got.Utilization, got.Usage, _, err = calculator.GetResourceReplicas(ctx, c.Spec, int32(c.Target), corev1.ResourceCPU, exact, "default", all, "")
	case "average":
		got.Replicas, got.Usage, _, err = calculator.GetRawResourceReplicas(ctx, c.Spec, c.Target, corev1.ResourceCPU, exact, "default", all, "")
	case "metric":
		got.Replicas, got.Usage, _, err = calculator.GetMetricReplicas(c.Spec, c.Target, "m", exact, "default", all, all)
	case "total":
		got.Replicas, got.Usage, _, err = calculator.GetExternalMetricReplicas(c.Spec, c.Target, "m", exact, "default", nil, all)
	case "part":
		got.Replicas, got.Usage, _, err = calculator.GetExternalPerPodMetricReplicas(c.Status, c.Target, "m", exact, "default", nil)
	}
	if err != nil {
		return calculated{Error: err.Error()}
	}
	return got
}

// fixedMetrics is a metrics client that always answers the same.
type fixedMetrics struct {
	pods  metricsclient.PodMetricsInfo
	usage int64
}

func (f fixedMetrics) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metricsclient.PodMetricsInfo, time.Time, error) {
	return f.pods, time.Time{}, nil
}

func (f fixedMetrics) GetRawMetric(string, string, labels.Selector, labels.Selector) (metricsclient.PodMetricsInfo, time.Time, error) {
	return f.pods, time.Time{}, nil
}

func (f fixedMetrics) GetObjectMetric(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	return 0, time.Time{}, errors.ErrUnsupported
}

func (f fixedMetrics) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return []int64{f.usage}, time.Time{}, nil
}
