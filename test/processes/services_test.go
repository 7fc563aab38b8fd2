//go:build linux

package processes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fetch returns the body of a response, on a connection of its own.
func fetch(host string, port int32) (string, error) {
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := own.Get("http://" + net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// served is a pod of a Service.
func served(t *testing.T, name string) *corev1.Pod {
	p := pod(t, name, "web")
	p.Labels = map[string]string{"app": "web"}
	c := &p.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 18090}}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}}
	return p
}

// TestServices reaches pods by the cluster IP and the node port of a Service, while pods come and
// go.
func TestServices(t *testing.T) {
	m := newMachine(t)
	service, err := m.clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 18091, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ip, port, nodePort := service.Spec.ClusterIP, service.Spec.Ports[0].Port, service.Spec.Ports[0].NodePort
	if !strings.HasPrefix(ip, "127.") {
		t.Fatalf("the cluster IP is %s", ip)
	}
	// responding waits until all of these pods, and no other ones, respond.
	responding := func(names ...string) {
		t.Helper()
		var want []string
		for _, name := range names {
			p := await(t, m.clients, name, "ready", isReady)
			want = append(want, p.Status.PodIP)
		}
		slices.Sort(want)
		for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var got []string
			var failed error
			for range 4 {
				text, err := fetch(ip, port)
				failed = errors.Join(failed, err)
				got = append(got, text)
			}
			slices.Sort(got)
			if got = slices.Compact(got); failed == nil && slices.Equal(got, want) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("the cluster IP responds with %q, %v, want %q", got, failed, want)
			}
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := m.clients.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		m.eventually("the deleted pod", "gone", func() (string, error) {
			_, err := m.clients.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "gone", nil
			}
			return "", err
		})
	}
	if _, err := fetch(ip, port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a Service without pods: %v, want a refused connection", err)
	}
	m.create(served(t, "one"))
	responding("one")
	m.create(served(t, "two"))
	responding("one", "two")
	if text, err := fetch("127.0.0.1", nodePort); err != nil || !strings.HasPrefix(text, "127.77.") {
		t.Errorf("the node port: %q, %v", text, err)
	}
	remove("one")
	responding("two")
	remove("two")
	m.eventually("a Service whose pods are gone", "refused", func() (string, error) {
		text, err := fetch(ip, port)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "refused", nil
		}
		return text, err
	})
}

// TestUnreachableService checks the event of a Service whose address is not one of the machine.
func TestUnreachableService(t *testing.T) {
	m := newMachine(t)
	taken, err := net.Listen("tcp", "127.96.7.7:18092")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	m.create(served(t, "one"))
	_, err = m.clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "127.96.7.7", Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 18092, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.eventually("the event", "Node machine cannot listen at an address of the Service: listen tcp 127.96.7.7:18092: bind: address already in use", func() (string, error) {
		events, err := m.clients.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=FailedToListen"})
		if err != nil || len(events.Items) == 0 {
			return "", err
		}
		return events.Items[0].Message, nil
	})
}

// TestNames resolves names of Services in a container, by the resolver of Go and that of the
// system.
func TestNames(t *testing.T) {
	m := newMachine(t)
	client := pod(t, "client", "sleep")
	client.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"alias.example"}}}
	m.create(client)
	m.create(served(t, "one"))
	p := await(t, m.clients, "client", "ready", isReady)
	if hosts, err := m.sh("client", "cat /etc/hosts"); err == nil && !strings.Contains(hosts, p.Status.PodIP) {
		if out, err := exec.Command("unshare", "-Urm", "mount", "--bind", "/etc/hosts", "/etc/hosts").CombinedOutput(); err != nil {
			t.Skipf("this system does not permit mounts of a process: %v, %s", err, out)
		}
		t.Fatal("the system permits mounts, but the container sees ", hosts)
	}
	one := await(t, m.clients, "one", "ready", isReady)
	var services []*corev1.Service
	for name, ip := range map[string]string{"web": "", "headless": corev1.ClusterIPNone} {
		s, err := m.clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 18091, TargetPort: intstr.FromString("http")}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		services = append(services, s)
	}
	resolves := func(name, want string) {
		t.Helper()
		m.eventually("getent "+name, want, func() (string, error) {
			return m.sh("client", "getent ahostsv4 "+name+" | grep STREAM | cut -d' ' -f1 | tr '\n' ' '")
		})
		m.eventually("lookup "+name, want, func() (string, error) {
			return m.sh("client", programVariable+"=lookup exec "+p.Spec.Containers[0].Image[len("file://"):]+" "+name)
		})
	}
	for _, s := range services {
		want := s.Spec.ClusterIP + " "
		if s.Name == "headless" {
			want = one.Status.PodIP + " "
		}
		for _, name := range []string{s.Name, s.Name + ".default", s.Name + ".default.svc.cluster.local"} {
			resolves(name, want)
		}
	}
	resolves("alias.example", "192.0.2.7 ")
	resolves("client", p.Status.PodIP+" ")
	if hosts, err := os.ReadFile("/etc/hosts"); err != nil || strings.Contains(string(hosts), "alias.example") {
		t.Errorf("the system's /etc/hosts: %s, %v", hosts, err)
	}
	if err := m.clients.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the names of a Service that is gone", "", func() (string, error) { return m.sh("client", "grep -w web.default /etc/hosts || true") })
}
