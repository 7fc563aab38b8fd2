//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// role tells a process of this test what it is: the cluster, with the test itself, or a node.
const role = "KAPOK_KUBELET_ROLE"

// serverAddress is the address of the server, CoreDNS and metrics-server.
const serverAddress = "192.168.77.1"

// imageName is the name of the only image.
const imageName = "kapok.test/tool:1"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(inNamespaces(m))
	case "node":
		if err := runNode(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inNamespaces runs this program again in namespaces of its own. Where that cannot be, the test
// skips itself.
func inNamespaces(m *testing.M) int {
	if missing() != "" {
		return m.Run()
	}
	binary, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, b := range builds { // there is no network for downloads inside
		list := exec.Command("go", append([]string{"list", "-deps"}, b.args...)...)
		list.Dir, list.Stderr = b.dir, os.Stderr
		if err := list.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "download modules:", err)
			return 1
		}
	}
	c := exec.Command(binary, os.Args[1:]...)
	c.Env = append(os.Environ(), role+"=cluster")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// missing returns what the test needs and this machine does not have, "" if that is nothing.
func missing() string {
	if os.Getuid() != 0 {
		return "root"
	}
	for _, program := range []string{"runc", "ip", "nft", "/usr/lib/cni/bridge"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " (Debian: runc iproute2 nftables conntrack containernetworking-plugins)"
		}
	}
	return ""
}

// run runs a command, which must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

const containerd = "github.com/containerd/containerd/v2/cmd/"

// builds are the arguments of go build for all programs, by directory.
var builds = []struct {
	dir  string
	args []string
}{
	{"../..", []string{"./cmd/kapok"}},
	{".", []string{"./tool", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"}},
	{".", []string{"-modfile=containerd.mod", containerd + "containerd", containerd + "ctr", containerd + "containerd-shim-runc-v2"}},
	{".", []string{"-modfile=coredns.mod", "-tags=coredns", "./coredns"}},
	{".", []string{"-modfile=metrics-server.mod", "sigs.k8s.io/metrics-server/cmd/metrics-server"}},
}

// build builds all programs and the image.
func build(t *testing.T) (programs, image string) {
	t.Helper()
	programs = t.TempDir()
	for _, b := range builds {
		c := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", programs + "/"}, b.args...)...)
		c.Dir, c.Env = b.dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", strings.Join(b.args, " "), err, out)
		}
	}

	img, err := imageOf(filepath.Join(programs, "tool"))
	if err != nil {
		t.Fatal(err)
	}
	image = filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag(imageName)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(image, tag, img); err != nil {
		t.Fatal(err)
	}
	return programs, image
}

// A cluster is a kapok up with kube-proxy, CoreDNS and metrics-server, at 192.168.77.1.
type cluster struct {
	*testing.T
	programs, kubeconfig string
	authority            []byte // certificates
	client               *kubernetes.Clientset
	sound                context.Context // ends when a program has ended that must run
	fail                 context.CancelCauseFunc
}

func startCluster(t *testing.T, programs string) *cluster {
	t.Helper()
	for _, c := range []string{
		"mount --make-rprivate /",
		"ip link set lo up",
		"ip link add br0 type bridge",
		"ip addr add " + serverAddress + "/24 dev br0",
		"ip link set br0 up",
		"ip route add default via 192.168.77.254", // kube-proxy looks for its address there
		"sysctl -qw net.ipv4.ip_forward=1",
	} {
		run(t, "sh", "-c", c)
	}
	dir := t.TempDir()
	k := &cluster{T: t, programs: programs, kubeconfig: filepath.Join(dir, "kubeconfig")}
	k.sound, k.fail = context.WithCancelCause(context.Background())
	k.start("kapok", "up", "--data-dir", filepath.Join(dir, "data"), "--listen", serverAddress+":6443", "--kubeconfig", k.kubeconfig, "--no-context",
		"--scheduler", "--enable-bootstrap-token-auth", "--controllers", "*,tokencleaner", "--tls-san", serverAddress,
		"--kubelet-preferred-address-types", "InternalIP") // the names of the nodes have no addresses
	k.await("the kubeconfig", func() bool {
		_, err := os.Stat(k.kubeconfig)
		return err == nil
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, k.authority = -1, cfg.CAData
	if k.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	return k
}

// start starts a program, which must run until stop is called or the test ends.
func (k *cluster) start(program string, args ...string) (stop func()) {
	k.Helper()
	path := filepath.Join(k.TempDir(), program+".log")
	log, err := os.Create(path)
	if err != nil {
		k.Fatal(err)
	}
	p := exec.Command(filepath.Join(k.programs, program), args...)
	p.Stdout, p.Stderr = log, log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		k.Fatal(err)
	}
	var stopping atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Wait(); !stopping.Load() {
			k.fail(fmt.Errorf("%s has ended: %v", program, err))
		}
	}()
	stop = func() {
		stopping.Store(true)
		_ = p.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	k.Cleanup(func() {
		stop()
		log.Close()
		if k.Failed() {
			text, _ := os.ReadFile(path)
			k.Logf("the log of %s ends:\n%s", program, text[max(0, len(text)-5000):])
		}
	})
	return stop
}

// kubectl runs a command of kubectl, which must succeed.
func (k *cluster) kubectl(args ...string) string {
	k.Helper()
	return run(k.T, filepath.Join(k.programs, "kapok"), append([]string{"kubectl", "--kubeconfig", k.kubeconfig}, args...)...)
}

// tryKubectl runs a command of kubectl, which may fail, and returns its standard output.
func (k *cluster) tryKubectl(args ...string) string {
	out, _ := exec.Command(filepath.Join(k.programs, "kapok"), append([]string{"kubectl", "--kubeconfig", k.kubeconfig}, args...)...).Output()
	return string(out)
}

// await waits until a condition holds, at most five minutes.
func (k *cluster) await(what string, holds func() bool) {
	k.Helper()
	for end := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if err := context.Cause(k.sound); err != nil {
			k.Fatalf("there is not: %s: %v", what, err)
		}
		if time.Now().After(end) {
			k.Fatalf("after five minutes, there is still not: %s", what)
		}
	}
}

// approve approves the requests of kubelets for serving certificates, as an administrator does. It
// returns how many have been issued.
func (k *cluster) approve() (issued int) {
	list, err := k.client.CertificatesV1().CertificateSigningRequests().List(k.Context(), metav1.ListOptions{})
	if err != nil {
		k.Fatal(err)
	}
	for _, r := range list.Items {
		switch {
		case r.Spec.SignerName != "kubernetes.io/kubelet-serving":
		case len(r.Status.Certificate) > 0:
			issued++
		case len(r.Status.Conditions) == 0:
			k.kubectl("certificate", "approve", r.Name)
		}
	}
	return issued
}

// ready returns how many nodes are ready.
func (k *cluster) ready() (n int) {
	nodes, err := k.client.CoreV1().Nodes().List(k.Context(), metav1.ListOptions{})
	if err != nil {
		k.Fatal(err)
	}
	for _, node := range nodes.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// get returns what a URL answers, "" if nothing does.
func get(url string) string {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Get(url)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text := make([]byte, 200)
	n, _ := answer.Body.Read(text)
	return strings.TrimSpace(string(text[:n]))
}

// TestKubelet runs a Deployment behind a Service on two real nodes, looks into its pods by logs,
// exec, port-forward, debug, DNS and metrics, and lets a node die.
func TestKubelet(t *testing.T) {
	if need := missing(); need != "" {
		t.Skip("needs ", need)
	}
	programs, image := build(t)
	k := startCluster(t, programs)
	script := run(t, filepath.Join(programs, "kapok"), "node", "join", "--kubeconfig", k.kubeconfig, "--server", "https://"+serverAddress+":6443")
	var nodes []*node
	for number := 1; number <= 2; number++ {
		nodes = append(nodes, startNode(t, number, programs, script, image))
	}
	k.await("two ready nodes with serving certificates", func() bool { return k.approve() == 2 && k.ready() == 2 })
	k.start("kube-proxy", "--kubeconfig", k.kubeconfig, "--proxy-mode", "nftables", "--cluster-cidr", "10.88.0.0/16", "--hostname-override", "server")

	k.kubectl("create", "deployment", "web", "--image", imageName, "--replicas", "4", "--", "/tool", "serve")
	k.kubectl("expose", "deployment", "web", "--port", "80")
	k.kubectl("rollout", "status", "deployment/web", "--timeout", "5m")
	on := k.nodesOf("app=web")
	if on["node1"] != 2 || on["node2"] != 2 {
		t.Errorf("pods of the deployment by node: %v", on)
	}
	service, err := k.client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	k.await("answers of all four pods over the address of the service", func() bool {
		if name := get("http://" + service.Spec.ClusterIP); name != "" {
			names[name] = true
		}
		return len(names) == 4
	})
	pods, err := k.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if !names[p.Name] {
			t.Errorf("%s has not answered: %v", p.Name, names)
		}
	}
	pod := pods.Items[0].Name
	if log := k.kubectl("logs", pod); !strings.Contains(log, "GET /") {
		t.Errorf("log: %q", log)
	}
	if out := k.kubectl("exec", pod, "--", "/tool", "echo", "hello"); out != "hello\n" {
		t.Errorf("exec: %q", out)
	}
	if out := k.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/"+pod+":80/proxy/"); strings.TrimSpace(out) != pod {
		t.Errorf("proxy: %q", out)
	}
	end := k.start("kapok", "kubectl", "--kubeconfig", k.kubeconfig, "port-forward", pod, "8080:80")
	k.await("an answer through the forwarded port", func() bool { return get("http://127.0.0.1:8080") == pod })
	end()
	k.debug(pod)
	k.resolve(pod, service.Spec.ClusterIP)
	k.top(pod)
	k.kubectl("scale", "deployment/web", "--replicas", "2")
	k.kubectl("set", "env", "deployment/web", "A=B")
	k.kubectl("rollout", "status", "deployment/web", "--timeout", "5m")
	k.await("two pods", func() bool { on := k.nodesOf("app=web"); return on["node1"]+on["node2"] == 2 })

	// With the default tolerations, pods would stay for five minutes.
	k.kubectl("patch", "deployment", "web", "--patch", `{"spec":{"replicas":4,"template":{"spec":{"terminationGracePeriodSeconds":1,"tolerations":[
		{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":2},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":2}]}}}}`)
	k.kubectl("rollout", "status", "deployment/web", "--timeout", "5m")
	nodes[1].kill()
	k.await("four pods on the node that is left", func() bool { return k.nodesOf("app=web")["node1"] == 4 })
	k.kubectl("delete", "deployment", "web")
	k.await("no pods on the node that is left", func() bool { return k.nodesOf("app=web")["node1"] == 0 })
	if _, err := k.client.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod of the deleted deployment: %v", err)
	}
}

// debug adds a container to a pod, and a pod to a node, as one who looks for a fault does.
func (k *cluster) debug(pod string) {
	k.kubectl("debug", pod, "--image", imageName, "--container", "beside", "--target", "tool", "--profile", "general", "--attach=false", "--", "/tool", "echo", "beside")
	k.await("the output of the container for debugging", func() bool {
		out, err := k.client.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{Container: "beside"}).DoRaw(k.Context())
		return err == nil && string(out) == "beside\n"
	})
	said := k.kubectl("debug", "node/node1", "--image", imageName, "--profile", "sysadmin", "--attach=false", "--", "/tool", "ls", "/host/etc/kubernetes")
	_, of, _ := strings.Cut(said, "debugging pod ")
	name, _, _ := strings.Cut(of, " ")
	k.kubectl("wait", "pod/"+name, "--for", "jsonpath={.status.phase}=Succeeded", "--timeout", "5m")
	if out := k.kubectl("logs", name); !strings.Contains(out, "pki") {
		k.Errorf("a pod for debugging sees of its node: %q", out)
	}
	k.kubectl("delete", "pod", name, "--wait=false")
}

// resolve runs CoreDNS, which the kubelets tell pods, and lets a pod look up the name of a service.
func (k *cluster) resolve(pod, address string) {
	file := filepath.Join(k.TempDir(), "Corefile")
	text := fmt.Sprintf(".:53 {\n\tbind %s\n\terrors\n\tkubernetes cluster.local {\n\t\tkubeconfig %s\n\t}\n}\n", serverAddress, k.kubeconfig)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		k.Fatal(err)
	}
	k.start("coredns", "-conf", file)
	for _, name := range []string{"web", "web.default.svc.cluster.local"} {
		k.await("the address of "+name+" by CoreDNS", func() bool {
			return k.tryKubectl("exec", pod, "--", "/tool", "lookup", name) == address+"\n"
		})
	}
}

// top runs metrics-server as an extension server, and reads from it what nodes and pods use.
func (k *cluster) top(pod string) {
	dir := k.TempDir()
	authority := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(authority, k.authority, 0o600); err != nil {
		k.Fatal(err)
	}
	k.start("metrics-server", "--kubeconfig", k.kubeconfig, "--authentication-kubeconfig", k.kubeconfig, "--authorization-kubeconfig", k.kubeconfig,
		"--secure-port", "4443", "--cert-dir", dir, "--metric-resolution", "15s", "--kubelet-preferred-address-types", "InternalIP", "--kubelet-certificate-authority", authority)
	file := filepath.Join(dir, "metrics.yaml")
	if err := os.WriteFile(file, []byte(metricsAPI), 0o600); err != nil {
		k.Fatal(err)
	}
	k.kubectl("apply", "-f", file)
	k.kubectl("wait", "apiservice/v1beta1.metrics.k8s.io", "--for", "condition=Available", "--timeout", "5m")
	k.await("the use of nodes and pods", func() bool {
		used := k.tryKubectl("top", "nodes") + k.tryKubectl("top", "pod", pod)
		return strings.Contains(used, "node1") && strings.Contains(used, "node2") && strings.Contains(used, pod)
	})
}

// metricsAPI lets the server find metrics-server.
const metricsAPI = `
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {ports: [{name: https, port: 443, targetPort: 4443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics-server, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}}
addressType: IPv4
ports: [{name: https, port: 4443}]
endpoints: [{addresses: [` + serverAddress + `], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system}
`

// nodesOf returns the number of ready pods with a label on each node.
func (k *cluster) nodesOf(label string) map[string]int {
	pods, err := k.client.CoreV1().Pods("default").List(k.Context(), metav1.ListOptions{LabelSelector: label})
	if err != nil {
		k.Fatal(err)
	}
	on := map[string]int{}
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				on[p.Spec.NodeName]++
			}
		}
	}
	return on
}
