//go:build linux || darwin

// Package processes tests a server with a node whose containers are processes of this machine: this
// binary again.
package processes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/node/process/oci"
	"github.com/kapok-dev/kapok/scheduler"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// crashes is the number of times that TestCrashes kills the server.
var crashes = flag.Int("crashes", 2, "number of times that TestCrashes kills the server")

// The variables that select what this binary does, besides running tests.
const (
	programVariable = "KAPOK_TEST_PROGRAM"
	serverVariable  = "KAPOK_TEST_SERVER"
	memoryVariable  = "KAPOK_TEST_MEMORY" // the server is in memory
	isolateVariable = "KAPOK_TEST_ISOLATE"
)

func TestMain(m *testing.M) {
	process.Main()
	if os.Getenv(programVariable) != "" {
		program()
	}
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// program is what containers run.
func program() {
	switch os.Getenv(programVariable) {
	case "web":
		fmt.Println("listening")
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, os.Getenv("POD_IP")) })
		fmt.Fprintln(os.Stderr, http.ListenAndServe(net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")), nil))
	case "web80": // at port 80 of all addresses
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, os.Getenv("POD_IP")) })
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":80", nil))
	case "fetch":
		answer, err := http.Get(os.Args[1])
		if err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, answer.Body)
		os.Exit(0)
	case "client":
		if err := readOwnPod(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.WriteFile(os.Getenv("KAPOK_TERMINATION_LOG"), []byte("done"), 0o600)
		os.Exit(0)
	case "incluster":
		text, err := inCluster()
		if err != nil {
			text = err.Error()
		}
		os.WriteFile("/dev/termination-log", []byte(text), 0o600)
		os.Exit(0)
	case "attempt":
		words := strings.Split(os.Getenv("KAPOK_CONTAINER"), "/")
		fmt.Println("attempt", words[len(words)-1])
		time.Sleep(time.Hour)
	case "grpc":
		listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		checks := health.NewServer()
		checks.SetServingStatus("good", healthv1.HealthCheckResponse_SERVING)
		checks.SetServingStatus("bad", healthv1.HealthCheckResponse_NOT_SERVING)
		server := grpc.NewServer()
		healthv1.RegisterHealthServer(server, checks)
		fmt.Println(server.Serve(listener))
	case "lookup":
		all, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", os.Args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for _, ip := range all {
			fmt.Print(ip.Unmap(), " ")
		}
		os.Exit(0)
	case "busy":
		for i := 0; ; i++ {
			_ = i
		}
	case "sleep":
		time.Sleep(time.Hour)
	}
	os.Exit(1)
}

// readOwnPod reads the pod of this process with its service account, and a volume.
func readOwnPod() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	user, err := clients.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(os.Getenv("KAPOK_ROOT"), "etc/config/key"))
	fmt.Printf("server %s.%s, volume %s\n", user.Major, user.Minor, data)
	return err
}

// inCluster uses the server as a client in a cluster does, and describes what it sees.
func inCluster() (string, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return "", err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	version, err := clients.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile("/etc/config/key")
	if err != nil {
		return "", err
	}
	readOnly := os.WriteFile("/etc/config/other", nil, 0o600) != nil
	err = os.WriteFile("/data/file", []byte("x"), 0o600)
	host, _ := os.Hostname()
	return fmt.Sprintf("server %s.%s, volume %s, read-only %t, pid %d, host %s", version.Major, version.Minor, data, readOnly, os.Getpid(), host), err
}

// start starts a server with a node.
func start(ctx context.Context, o kapok.Options, dir string, isolate ...bool) (*kapok.Server, error) {
	address := make(chan string, 1)
	store, err := oci.Open(oci.Options{Dir: filepath.Join(dir, "oci")})
	if err != nil {
		return nil, err
	}
	metrics := &process.Metrics{}
	o.Aggregation.Handlers = map[schema.GroupVersion]http.Handler{process.MetricsVersion: metrics}
	node := &process.Node{Options: process.Options{
		Name: "machine", Metrics: metrics, Dir: dir, Store: store, Tether: o.DataDir == "", StopGrace: time.Second, Isolate: len(isolate) > 0 && isolate[0],
		Server: func(ctx context.Context) string {
			select {
			case a := <-address:
				address <- a
				return a
			case <-ctx.Done():
				return ""
			}
		},
	}}
	o.Listen = "127.0.0.1:0"
	o.Controllers = kapok.Together{controllers.Options{}, scheduler.Options{}, node}
	o.Nodes = kapok.NodeOptions{Kubelets: node.Handler, DialPod: node.DialPod, LoopbackEndpoints: true}
	o.Webhooks.Dial = node.Dial
	o.ServiceAddresses = netip.MustParsePrefix("127.96.0.0/12")
	s, err := kapok.Start(ctx, o)
	if err == nil {
		address <- s.Address()
	}
	return s, err
}

// serve runs a server until it is killed.
func serve(dir string) error {
	o := kapok.Options{DataDir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if os.Getenv(memoryVariable) != "" {
		o.DataDir = ""
	}
	s, err := start(context.Background(), o, filepath.Join(dir, "processes"), os.Getenv(isolateVariable) != "")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Wait()
}

func clientsOf(t *testing.T, kubeconfig []byte) (*rest.Config, *kubernetes.Clientset) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return config, clients
}

func pod(t *testing.T, name, program string) *corev1.Pod {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(2)),
		Containers:                    []corev1.Container{{Name: "c", Image: "file://" + self, Env: []corev1.EnvVar{{Name: programVariable, Value: program}}}},
	}}
}

// await reads a pod until a condition holds.
func await(t *testing.T, clients kubernetes.Interface, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var err error
		p, err = clients.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && holds(p) {
			return p
		}
		if time.Now().After(limit) {
			t.Fatalf("pod %s is not %s: %v, %+v", name, what, err, p.Status)
		}
	}
}

func isReady(p *corev1.Pod) bool {
	return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready && p.Status.Phase == corev1.PodRunning
}

// TestPods runs pods on a server in memory: a service with a probe, and a client with a service
// account and a volume.
func TestPods(t *testing.T) {
	server, err := start(t.Context(), kapok.Options{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	config, clients := clientsOf(t, server.Kubeconfig())
	pods := clients.CoreV1().Pods("default")
	web := pod(t, "web", "web")
	c := &web.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 18080}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}, PeriodSeconds: 1}
	job := pod(t, "client", "client")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
	}}}}
	job.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/etc/config"}}
	unmapped := pod(t, "unmapped", "sleep")
	unmapped.Spec.Containers[0].Image = "nginx:1"
	for _, p := range []*corev1.Pod{web, job, unmapped} {
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config1 := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": "value"}}
	if _, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), config1, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	ready := await(t, clients, "web", "ready", isReady)
	if runtime.GOOS == "linux" && !strings.HasPrefix(ready.Status.PodIP, "127.77.") {
		t.Errorf("the address is %s", ready.Status.PodIP)
	}
	if text, err := pods.GetLogs("web", &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil || string(text) != "listening\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"sh", "-c", "cat; echo $PORT; exit 3"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("in "), Stdout: &out, Stderr: &errs})
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || out.String() != "in 18080\n" {
		t.Errorf("exec: %q, %q, %v", &out, &errs, err)
	}

	done := await(t, clients, "client", "complete", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	text, err := pods.GetLogs("client", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || done.Status.Phase != corev1.PodSucceeded || string(text) != "server 1.37, volume value\n" {
		t.Errorf("the client: %s, %q, %v", done.Status.Phase, text, err)
	} else if end := done.Status.ContainerStatuses[0].State.Terminated; end.Message != "done" || end.Reason != "Completed" {
		t.Errorf("the end of the client is %+v", end)
	}
	await(t, clients, "unmapped", "waiting for its image", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, "kapok image set nginx:1=PROGRAM")
	})

	// A mapping lets it start.
	if err := setImage(t, config, "nginx", "file:///bin/cat"); err != nil {
		t.Fatal(err)
	}
	await(t, clients, "unmapped", "started", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].ImageID == "process:///bin/cat" && s[0].RestartCount > 0
	})

	// The process of a deleted pod ends.
	if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := pods.Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the pod is not deleted")
		}
	}
	if c, err := net.Dial("tcp", net.JoinHostPort(ready.Status.PodIP, "18080")); err == nil {
		c.Close()
		t.Error("the process listens after the deletion of its pod")
	}
}

// TestCrashes kills a server that runs pods, and starts others, several times: each pod has one
// process, and those that ran are the same ones.
func TestCrashes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	crash(t)
}

// crash is TestCrashes with further variables for the servers.
func crash(t *testing.T, env ...string) {
	dir := t.TempDir()
	var uids []string
	t.Cleanup(func() { // containers and their parents survive the servers
		for _, text := range append([]string{dir}, uids...) {
			for all := processesWith(text); len(all) > 0; all = processesWith(text) {
				for _, pid := range all {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		removeGroups(t, dir)
	})
	const first, most = 20, 100 // pods; a node has at most 110
	total := 0
	var known map[string]int
	for round := 0; round <= *crashes; round++ {
		server := exec.Command(os.Args[0])
		server.Env = append(append(os.Environ(), serverVariable+"="+dir), env...)
		server.Stderr = os.Stderr
		out, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Process.Kill() })
		if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
			t.Fatalf("the server has not started: %v", err)
		}
		kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		_, clients := clientsOf(t, kubeconfig)
		create := func() {
			p, err := clients.CoreV1().Pods("default").Create(t.Context(), pod(t, fmt.Sprint("p", total), "sleep"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			uids = append(uids, "KAPOK_CONTAINER="+string(p.UID)+"/")
			total++
		}
		for total < first {
			create()
		}
		pids := map[string]int{}
		for i := range total {
			p := await(t, clients, fmt.Sprint("p", i), "ready", isReady)
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
				t.Errorf("round %d: pod %s has %d restarts", round, p.Name, n)
			}
			found := processesOf(string(p.UID))
			if len(found) != 1 {
				t.Errorf("round %d: pod %s has processes %v, want one", round, p.Name, found)
				continue
			}
			pids[p.Name] = found[0]
		}
		for name, pid := range known {
			if pids[name] != pid {
				t.Errorf("round %d: pod %s has process %d, want %d as before", round, name, pids[name], pid)
			}
		}
		known = pids
		if round < *crashes {
			for range 3 { // these are being started when the server is killed
				if total < most {
					create()
				}
			}
		}
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
	}
}

// removeGroups removes the control groups of runs whose parents were killed: no node is left that
// would do so.
func removeGroups(t *testing.T, dir string) {
	specs, err := filepath.Glob(filepath.Join(dir, "processes/pods/*/*/*/spec.json"))
	if err != nil || len(specs) == 0 {
		t.Errorf("%d runs, %v", len(specs), err)
	}
	for _, file := range specs {
		var run struct{ Group struct{ Dirs []string } }
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &run)
		}
		if err != nil {
			t.Error(err)
		}
		for _, group := range run.Group.Dirs {
			for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
				if err := os.Remove(group); err == nil || errors.Is(err, os.ErrNotExist) {
					break // else its processes end
				}
			}
			_ = os.Remove(filepath.Dir(group)) // fails if it is not the last one
		}
	}
}

// processesOf returns the processes of a pod.
func processesOf(uid string) (pids []int) { return processesWith("KAPOK_CONTAINER=" + uid + "/") }

// processesWith returns the processes with a text in their environments, but this one.
func processesWith(text string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		data, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(data), text) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
