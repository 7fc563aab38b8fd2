//go:build linux || darwin

package processes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	object "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// A machine is a server in memory with a node.
type machine struct {
	t       *testing.T
	config  *rest.Config
	clients *kubernetes.Clientset
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	server, err := start(context.Background(), kapok.Options{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	config, clients := clientsOf(t, server.Kubeconfig())
	return &machine{t, config, clients}
}

func (m *machine) create(p *corev1.Pod) {
	m.t.Helper()
	if _, err := m.clients.CoreV1().Pods("default").Create(m.t.Context(), p, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// stream runs exec or attach, and returns the output.
func (m *machine) stream(pod, verb string, options object.Object, in string) (string, error) {
	m.t.Helper()
	url := m.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource(verb).
		VersionedParams(options, scheme.ParameterCodec).URL()
	e, err := remotecommand.NewSPDYExecutor(m.config, "POST", url)
	if err != nil {
		m.t.Fatal(err)
	}
	var out bytes.Buffer
	o := remotecommand.StreamOptions{Stdout: &out}
	if in != "" {
		o.Stdin = strings.NewReader(in)
	}
	err = e.StreamWithContext(m.t.Context(), o)
	return out.String(), err
}

// sh runs a shell in a container.
func (m *machine) sh(pod, command string) (string, error) {
	return m.stream(pod, "exec", &corev1.PodExecOptions{Command: []string{"sh", "-c", command}, Stdout: true}, "")
}

// eventually waits until a function returns a text.
func (m *machine) eventually(what, want string, get func() (string, error)) {
	m.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := get()
		if err == nil && got == want {
			return
		}
		if time.Now().After(limit) {
			m.t.Fatalf("%s: got %q, %v, want %q", what, got, err, want)
		}
	}
}

func execProbe(command string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", command}}}}
}

// TestVolumes changes a ConfigMap that is mounted, and uses a claim.
func TestVolumes(t *testing.T) {
	m := newMachine(t)
	disk := t.TempDir()
	maps := m.clients.CoreV1().ConfigMaps("default")
	data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": "old", "gone": "x"}}
	if _, err := maps.Create(t.Context(), data, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "manual",
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: disk}},
	}}
	if _, err := m.clients.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: volume.Spec.AccessModes, StorageClassName: new("manual"), Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	if _, err := m.clients.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := pod(t, "p", "sleep")
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
	}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}, {Name: "disk", MountPath: "/data"}}
	m.create(p)
	await(t, m.clients, "p", "ready", isReady)
	if _, err := m.sh("p", "cp $KAPOK_ROOT/etc/config/key $KAPOK_ROOT/data/copy"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(disk, "copy")); err != nil || string(text) != "old" {
		t.Errorf("the claim has %q, %v", text, err)
	}
	data.Data = map[string]string{"key": "new"}
	if _, err := maps.Update(t.Context(), data, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("the changed ConfigMap", "key=new\n", func() (string, error) {
		return m.sh("p", "cd $KAPOK_ROOT/etc/config && for f in *; do echo $f=$(cat $f); done")
	})
}

// TestLife checks hooks, probes, restarts and logs.
func TestLife(t *testing.T) {
	m := newMachine(t)
	dir := t.TempDir()
	shared := corev1.Volume{Name: "d", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}
	hook := func(command string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", command}}}
	}
	p := pod(t, "hooks", "web")
	p.Spec.Volumes = []corev1.Volume{shared}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 18081}}
	c.Lifecycle = &corev1.Lifecycle{PostStart: hook("echo post > $KAPOK_ROOT/d/post"), PreStop: hook("echo pre > $KAPOK_ROOT/d/pre")}
	c.StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http"), Path: "/x?y"}}}
	c.LivenessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(18081)}}}
	c.ReadinessProbe = execProbe("test -e $KAPOK_ROOT/d/ready")
	m.create(p)
	checks := pod(t, "grpc", "grpc")
	c = &checks.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{ContainerPort: 18082}}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 18082, Service: new("good")}}}
	m.create(checks)
	bad := pod(t, "bad", "grpc")
	bad.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 18082}}
	bad.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 18082, Service: new("bad")}}}
	m.create(bad)
	dies := pod(t, "dies", "attempt")
	dies.Spec.Volumes = []corev1.Volume{shared}
	dies.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
	dies.Spec.Containers[0].LivenessProbe = execProbe("test -e $KAPOK_ROOT/d/again || ! touch $KAPOK_ROOT/d/again") // fails once
	dies.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = 3                                                   // it has written its log by then
	m.create(dies)

	running := await(t, m.clients, "hooks", "started", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].Started != nil && *s[0].Started
	})
	if running.Status.ContainerStatuses[0].Ready {
		t.Error("the container is ready before its probe has succeeded")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "post")); err != nil || string(text) != "post\n" {
		t.Errorf("postStart: %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, m.clients, "hooks", "ready", isReady)
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
		t.Fatal(err)
	}
	await(t, m.clients, "hooks", "not ready", func(p *corev1.Pod) bool { return !isReady(p) })
	await(t, m.clients, "grpc", "ready", isReady)
	if p, err := m.clients.CoreV1().Pods("default").Get(t.Context(), "bad", metav1.GetOptions{}); err != nil || isReady(p) {
		t.Errorf("a pod is ready whose health service is not: %v", err)
	}

	await(t, m.clients, "dies", "restarted", func(p *corev1.Pod) bool { return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	for _, test := range []struct {
		options corev1.PodLogOptions
		want    string
	}{
		{corev1.PodLogOptions{Previous: true}, "attempt 0\n"},
		{corev1.PodLogOptions{}, "attempt 1\n"},
		{corev1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Now().Add(time.Hour)}}, ""},
		{corev1.PodLogOptions{SinceSeconds: new(int64(3600))}, "attempt 1\n"},
	} {
		m.eventually(fmt.Sprintf("logs %+v", test.options), test.want, func() (string, error) {
			text, err := m.clients.CoreV1().Pods("default").GetLogs("dies", &test.options).DoRaw(t.Context())
			return string(text), err
		})
	}
	text, err := m.clients.CoreV1().Pods("default").GetLogs("dies", &corev1.PodLogOptions{Timestamps: true}).DoRaw(t.Context())
	stamp, rest, _ := strings.Cut(string(text), " ")
	if _, bad := time.Parse(time.RFC3339Nano, stamp); err != nil || bad != nil || rest != "attempt 1\n" {
		t.Errorf("the log with timestamps is %q, %v", text, err)
	}

	if err := m.clients.CoreV1().Pods("default").Delete(t.Context(), "hooks", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("preStop", "pre\n", func() (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, "pre"))
		return string(text), err
	})
	node, err := m.clients.CoreV1().Nodes().Get(t.Context(), "machine", metav1.GetOptions{})
	if err != nil || node.Status.NodeInfo.KernelVersion == "" {
		t.Errorf("the node has no version of the kernel: %v", err)
	}
}

// TestStreams attaches to an ephemeral container, and forwards a port.
func TestStreams(t *testing.T) {
	m := newMachine(t)
	p := pod(t, "web", "web")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 18083}}
	m.create(p)
	await(t, m.clients, "web", "ready", isReady)
	current, err := m.clients.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "file:///bin/cat", Stdin: true, StdinOnce: true,
	}}}
	if _, err := m.clients.CoreV1().Pods("default").UpdateEphemeralContainers(t.Context(), "web", current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, m.clients, "web", "debugged", func(p *corev1.Pod) bool {
		s := p.Status.EphemeralContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil
	})
	out, err := m.stream("web", "attach", &corev1.PodAttachOptions{Container: "debug", Stdin: true, Stdout: true}, "text\n")
	if err != nil || out != "text\n" {
		t.Errorf("attach: %q, %v", out, err)
	}

	transport, upgrader, err := spdy.RoundTripperFor(m.config)
	if err != nil {
		t.Fatal(err)
	}
	url := m.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", url), []string{"0:18083"}, stop, ready, io.Discard, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	defer func() {
		close(stop)
		<-done
	}()
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	// The program listens as soon as it runs, or a little later.
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	m.eventually("port-forward", current.Status.PodIP, func() (string, error) {
		r, err := own.Get("http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(ports[0].Local)))
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return string(text), err
	})
}

// TestTether kills a server in memory: its containers end.
func TestTether(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	dir := t.TempDir()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+dir, memoryVariable+"=1")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	_, clients := clientsOf(t, kubeconfig)
	if _, err := clients.CoreV1().Pods("default").Create(t.Context(), pod(t, "p", "sleep"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := await(t, clients, "p", "ready", isReady)
	if all := processesOf(string(p.UID)); len(all) != 1 {
		t.Errorf("the processes are %v, want one", all)
	}
	if err := server.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	for limit := time.Now().Add(time.Minute); len(processesWith(dir)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the processes %v run", processesWith(dir))
		}
	}
}
