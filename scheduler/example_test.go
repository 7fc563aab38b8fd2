package scheduler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// SameRack keeps pods with the label rack on nodes with the same label.
type SameRack struct{}

func (SameRack) Name() string { return "SameRack" }

func (SameRack) Filter(_ context.Context, _ *framework.CycleState, pod *corev1.Pod, n framework.NodeInfo) *framework.Status {
	if rack := pod.Labels["rack"]; rack != "" && n.Node().Labels["rack"] != rack {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were in another rack")
	}
	return nil
}

// A scheduler with a plugin of the program, in a server in memory.
func ExampleOptions_plugins() {
	ctx := context.Background()
	server, err := kapok.Start(ctx, kapok.Options{Controllers: scheduler.Options{Plugins: map[string]framework.Factory{
		"SameRack": func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) { return SameRack{}, nil },
	}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()

	client := kubernetes.NewForConfigOrDie(server.Config())
	for name, rack := range map[string]string{"n1": "a", "n2": "b", "n3": "c"} {
		n := node(name, "4")
		n.Labels["rack"], n.Spec.Taints = rack, nil
		created, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err != nil {
			log.Fatal(err)
		}
		created.Spec.Taints = nil // the node is ready
		if _, err := client.CoreV1().Nodes().Update(ctx, created, metav1.UpdateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	p := pod("web", "100m")
	p.Labels = map[string]string{"rack": "b"}
	if _, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	w, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if p, is := event.Object.(*corev1.Pod); is && p.Spec.NodeName != "" {
			fmt.Println(p.Name, "runs on", p.Spec.NodeName)
			return
		}
	}
	// Output: web runs on n2
}
