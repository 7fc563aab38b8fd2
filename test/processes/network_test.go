//go:build linux

package processes

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestNetworks lets two pods listen at port 80, and connects them with each other, with a Service,
// with the API server and with this machine.
func TestNetworks(t *testing.T) {
	m := newIsolated(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		p := pod(t, name, "web80")
		p.Labels = map[string]string{"app": "web"}
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		m.create(p)
	}
	own := pod(t, "own", "sleep")
	own.Spec.HostNetwork = true
	m.create(own)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
		{Name: "http", Port: 80}, {Name: "high", Port: 18085, TargetPort: intstr.FromInt32(80)},
	}}}
	service, err = m.clients.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := await(t, m.clients, "one", "scheduled", hasAddress).Status.PodIP, await(t, m.clients, "two", "scheduled", hasAddress).Status.PodIP
	if !strings.HasPrefix(one, "10.77.") {
		t.Skipf("this system does not permit networks of pods: the address is %s", one)
	}
	await(t, m.clients, "one", "ready", isReady)
	await(t, m.clients, "two", "ready", isReady)
	await(t, m.clients, "own", "ready", isReady)
	fetch := func(from, url string) (string, error) {
		return m.sh(from, fmt.Sprintf("%s=fetch %s %s", programVariable, self, url))
	}
	for _, test := range []struct{ from, to, want string }{
		{"one", "http://" + two, two}, {"two", "http://" + one, one}, {"one", "http://" + one, one}, {"one", "http://127.0.0.1", one},
	} {
		if got, err := fetch(test.from, test.to); err != nil || got != test.want {
			t.Errorf("%s from %s: %q, %v, want %q", test.to, test.from, got, err, test.want)
		}
	}
	isOne := func(from func() (string, error)) func() (string, error) {
		return func() (string, error) {
			text, err := from()
			if text == one || text == two {
				text = "one of them"
			}
			return text, err
		}
	}
	for _, to := range []string{"http://web", "http://web.default.svc:18085", "http://" + service.Spec.ClusterIP} {
		m.eventually(to, "one of them", isOne(func() (string, error) { return fetch("one", to) }))
	}
	m.eventually("the Service on this machine", "one of them", isOne(func() (string, error) {
		answer, err := http.Get("http://" + service.Spec.ClusterIP + ":18085")
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}))
	if out, err := m.sh("one", "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"); err != nil || out != "127.96.0.1:443\n" {
		t.Errorf("the API server of pods is at %q, %v", out, err)
	}
	for _, path := range []string{"/api/v1/namespaces/default/pods/one:80/proxy/", "/api/v1/namespaces/default/services/web:high/proxy/"} {
		m.eventually(path, "one of them", isOne(func() (string, error) {
			text, err := m.clients.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
			return string(text), err
		}))
	}
	// A server of this machine that listens at 127.0.0.1 is none of a pod's, but of one with
	// the network of the machine.
	address := strings.TrimPrefix(m.config.Host, "https://")
	if got, err := fetch("one", "http://"+address); err == nil || !strings.Contains(got, "refused") {
		t.Errorf("a server of this machine: %q, %v, want a refused connection", got, err)
	}
	if got, err := fetch("one", "http://10.77.0.1:1"); err == nil {
		t.Errorf("the socket for other networks: got %q", got)
	}
	if got, err := fetch("own", "http://"+address); err != nil || !strings.Contains(got, "HTTPS server") {
		t.Errorf("a server of this machine for a pod with its network: %q, %v", got, err)
	}
	client := pod(t, "client", "incluster")
	client.Spec.RestartPolicy = corev1.RestartPolicyNever
	client.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	client.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}
	m.create(client)
	done := await(t, m.clients, "client", "complete", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if got := done.Status.ContainerStatuses[0].State.Terminated.Message; got != "open /etc/config/key: no such file or directory" {
		t.Errorf("a client in the cluster: %q, want an error after its request", got)
	}
}

func hasAddress(p *corev1.Pod) bool { return p.Status.PodIP != "" }
