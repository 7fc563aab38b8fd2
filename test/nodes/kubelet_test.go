package nodes

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// TestKubelet reads logs and runs commands in simulated pods through a server, as kubectl does.
func TestKubelet(t *testing.T) {
	kubelet := &simulated.Kubelet{}
	server, err := kapok.Start(t.Context(), kapok.Options{
		Listen:      "127.0.0.1:0",
		Nodes:       kapok.NodeOptions{Kubelets: kubelet.Handler},
		Controllers: kapok.Together{controllers.Options{}, scheduler.Options{}, simulated.Options{Nodes: 2, Kubelet: kubelet}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods := clients.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{
			simulated.SimulationAnnotation: `containers: {c: {logs: "listening\n", exec: {"cat /etc/hostname": "web\n"}}}`,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	own, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); pod.Status.Phase != corev1.PodRunning; time.Sleep(10 * time.Millisecond) {
		if err := own.Get(t.Context(), client.Key("default", "web"), pod); err != nil || time.Now().After(limit) {
			t.Fatalf("%v, %+v", err, pod.Status)
		}
	}

	if text, err := pods.GetLogs("web", &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil || string(text) != "listening\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	if _, err := pods.GetLogs("web", &corev1.PodLogOptions{Previous: true}).Stream(t.Context()); err == nil || !strings.Contains(err.Error(), `previous terminated container "c" in pod "web" not found`) {
		t.Errorf("the log before: %v", err)
	}
	if text, err := clients.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", pod.Spec.NodeName, "proxy/healthz").DoRaw(t.Context()); err != nil || string(text) != "ok" {
		t.Errorf("the health of the node is %q, %v", text, err)
	}
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"cat", "/etc/hostname"}, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err != nil || out.String() != "web\n" || errs.Len() > 0 {
		t.Errorf("the command: %q, %q, %v", &out, &errs, err)
	}

	// A log that is followed ends with the server.
	followed, err := pods.GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Close()
	line := make([]byte, len("listening\n"))
	if _, err := io.ReadFull(followed, line); err != nil || string(line) != "listening\n" {
		t.Fatalf("the followed log is %q, %v", line, err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(followed); len(rest) > 0 || err != nil {
		t.Errorf("after the end of the server: %q, %v", rest, err)
	}
}
