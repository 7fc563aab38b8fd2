package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/controllers"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
)

// controllerOf has the built-in controller that creates the dependents of a kind, and writes its
// status.
var controllerOf = map[string]string{
	"CronJob":                 "cronjob-controller",
	"DaemonSet":               "daemonset-controller",
	"Deployment":              "deployment-controller",
	"HorizontalPodAutoscaler": "horizontal-pod-autoscaler-controller",
	"Job":                     "job-controller",
	"PersistentVolume":        "persistentvolume-binder-controller",
	"PersistentVolumeClaim":   "persistentvolume-binder-controller",
	"PodDisruptionBudget":     "disruption-controller",
	"ReplicaSet":              "replicaset-controller",
	"ReplicationController":   "replication-controller",
	"StatefulSet":             "statefulset-controller",
}

// writer returns the name of a field manager, with the controller of kube-controller-manager that
// has probably made the change: all of them have the same manager.
func writer(o *unstructured.Unstructured, m *metav1.ManagedFieldsEntry) string {
	if m.Manager != controllers.UserAgent {
		return m.Manager
	}
	kind := o.GetKind()
	switch owner := metav1.GetControllerOf(o); {
	case m.Subresource == "scale":
		kind = "HorizontalPodAutoscaler"
	case m.Subresource == "" && owner != nil:
		kind = owner.Kind
	}
	if name := controllerOf[kind]; name != "" {
		return m.Manager + " (" + name + ")"
	}
	return m.Manager
}

// replicasWait returns what a workload waits for, by the numbers in its status.
func replicasWait(o *unstructured.Unstructured) (lines []string) {
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(o.Object, fields...); return n }
	status := func(field string) int64 { return number("status", field) }
	lack := func(got, want int64, text string) {
		if got < want {
			lines = append(lines, fmt.Sprintf(text, want-got, want))
		}
	}
	replicas := number("spec", "replicas")
	switch o.GetKind() {
	case "Deployment":
		lack(status("updatedReplicas"), replicas, "%d of %d pods of the current template to be created")
		lack(status("availableReplicas"), replicas, "%d of %d pods to become available")
		if old := status("replicas") - status("updatedReplicas"); old > 0 && status("updatedReplicas") >= replicas {
			lines = append(lines, fmt.Sprintf("the end of %s of earlier templates", podsOf(old)))
		}
	case "ReplicaSet", "ReplicationController", "StatefulSet":
		lack(status("replicas"), replicas, "%d of %d pods to be created")
		lack(status("availableReplicas"), status("replicas"), "%d of %d pods to become available")
	case "DaemonSet":
		lack(status("currentNumberScheduled"), status("desiredNumberScheduled"), "%d of %d pods to be created")
		lack(status("numberAvailable"), status("currentNumberScheduled"), "%d of %d pods to become available")
	case "Job":
		if n := status("active"); n > 0 {
			lines = append(lines, "the end of "+podsOf(n))
		}
	}
	return lines
}

func podsOf(n int64) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprint(n, " pods")
}

// queueOf returns the state of the queue of the controller of an object, or "" if it is empty or
// unknown: the server has the metrics of controllers that run in its process.
func (x *explanation) queueOf(ctx context.Context, o *unstructured.Unstructured) string {
	name := controllerOf[o.GetKind()]
	if name == "" || x.config == nil {
		return ""
	}
	if x.metrics == nil {
		families, err := readMetrics(ctx, x.config)
		if err != nil {
			families = map[string]*dto.MetricFamily{} // as if no controllers ran in the server
		}
		x.metrics = families
	}
	value := func(family string) (sum float64) {
		for _, m := range x.metrics[family].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "controller" && l.GetValue() == name {
					sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
		return sum
	}
	var parts []string
	if n := value("workqueue_depth"); n > 0 {
		parts = append(parts, fmt.Sprintf("%.0f waiting", n))
	}
	if s := value("workqueue_longest_running_processor_seconds"); s >= 1 {
		parts = append(parts, fmt.Sprintf("a worker has been busy with one object for %s", duration.HumanDuration(time.Duration(s)*time.Second)))
	}
	if n := value("workqueue_retries_total"); n > 0 {
		parts = append(parts, fmt.Sprintf("%.0f retries since its start", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return name + ": " + strings.Join(parts, ", ")
}

// readMetrics reads the metrics of a server.
func readMetrics(ctx context.Context, config *rest.Config) (map[string]*dto.MetricFamily, error) {
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("metrics").String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	const most = 64 << 20
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, most))
}
