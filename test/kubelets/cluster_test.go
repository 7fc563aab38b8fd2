package kubelets

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A cluster is a server with a socket, a node that is the stand-in, and a pod on it.
type cluster struct {
	testing.TB
	server  *kapok.Server
	config  *rest.Config // of the admin, for the socket
	client  *kubernetes.Clientset
	kubelet *kubelet
}

func start(t *testing.T, change ...func(*kapok.Options)) *cluster {
	t.Helper()
	c := &cluster{TB: t, kubelet: startKubelet(t)}
	options := kapok.Options{Listen: "127.0.0.1:0", Nodes: kapok.NodeOptions{Loopback: true}}
	for _, change := range change {
		change(&options)
	}
	var err error
	if c.server, err = kapok.Start(context.Background(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.server.Stop() })
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(c.server.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = kubernetes.NewForConfigAndClient(c.config, &http.Client{Transport: transport}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(transport) })
	c.node("n", c.kubelet.host, c.kubelet.port)
	c.pod("web", "n", "app")
	return c
}

// closeIdle closes the connections of a client, which the server would wait for.
func closeIdle(rt http.RoundTripper) { utilnet.CloseIdleConnectionsFor(rt) }

// stop stops the server. It closes idle connections first, which delay the end of HTTP/2.
func (c *cluster) stop() {
	closeIdle(c.http().Transport)
	c.server.Stop()
}

// node creates a node whose kubelet has an address.
func (c *cluster) node(name, host, port string) {
	c.Helper()
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		c.Fatal(err)
	}
	_, err = c.client.CoreV1().Nodes().Create(c.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
}

// pod creates a pod in the namespace default.
func (c *cluster) pod(name, node string, containers ...string) {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: new(bool)}}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: "image"})
	}
	c.wait("the pod to be admitted", func() bool { // once its account exists
		_, err := c.client.CoreV1().Pods("default").Create(c.Context(), pod, metav1.CreateOptions{})
		return err == nil
	})
}

// address sets the IP address of a pod.
func (c *cluster) address(pod, ip string) {
	c.Helper()
	patch := fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, ip, ip)
	if _, err := c.client.CoreV1().Pods("default").Patch(c.Context(), pod, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		c.Fatal(err)
	}
}

// do sends a request as the admin, and returns the response with its text.
func (c *cluster) do(method, path string, headers ...string) (*http.Response, string) {
	c.Helper()
	return c.as(c.client, method, path, headers...)
}

func (c *cluster) as(client *kubernetes.Clientset, method, path string, headers ...string) (*http.Response, string) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.config.Host+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	via := *client.RESTClient().(*rest.RESTClient).Client
	via.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := via.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Fatal(err)
	}
	return answer, string(text)
}

// expect sends a request, and checks the code and a part of the text of the response.
func (c *cluster) expect(code int, part, method, path string, headers ...string) {
	c.Helper()
	if answer, text := c.do(method, path, headers...); answer.StatusCode != code || !strings.Contains(text, part) {
		c.Errorf("%s %s: %d, want %d with %q: %s", method, path, answer.StatusCode, code, part, text)
	}
}

func (c *cluster) wait(what string, done func() bool) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			c.Fatalf("timed out waiting for %s", what)
		}
	}
}

// http returns the HTTP client of the admin.
func (c *cluster) http() *http.Client { return c.client.RESTClient().(*rest.RESTClient).Client }
