//go:build linux

package processes

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// needIsolation skips a test if the system does not permit root directories of containers.
func needIsolation(t *testing.T) {
	t.Helper()
	c := exec.Command("unshare", "-Urmp", "--fork", "--mount-proc", "sh", "-c", "mkdir u w r; mount -t overlay o r -o lowerdir=.,upperdir=u,workdir=w,userxattr")
	c.Dir = t.TempDir()
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("this system does not permit root directories of containers: %v, %s", err, out)
	}
}

// TestCrashesIsolated is TestCrashes for containers with root directories of their own.
func TestCrashesIsolated(t *testing.T) {
	needIsolation(t)
	if *crashes <= 2 {
		t.Skip("takes as long as TestCrashes: runs with -crashes")
	}
	crash(t, isolateVariable+"=1")
}

// newIsolated is a machine whose containers have root directories of their own.
func newIsolated(t *testing.T) *machine {
	t.Helper()
	needIsolation(t)
	server, err := start(context.Background(), kapok.Options{}, t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	config, clients := clientsOf(t, server.Kubeconfig())
	return &machine{t, config, clients}
}

// TestIsolated runs an image and a program of this machine in root directories of their own.
func TestIsolated(t *testing.T) {
	m := newIsolated(t)
	m.eventually("the mapping", "", func() (string, error) { return "", setImage(t, m.config, "hello", "archive://"+helloArchive(t)) })
	data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": "value"}}
	if _, err := m.clients.CoreV1().ConfigMaps("default").Create(t.Context(), data, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	image := pod(t, "image", "")
	image.Spec.Containers[0].Image, image.Spec.Containers[0].Args = "hello:1", []string{"wait"}
	image.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(1234)), RunAsNonRoot: new(true)}
	m.create(image)
	client := pod(t, "client", "incluster")
	client.Spec.RestartPolicy = corev1.RestartPolicyNever
	client.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	client.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/etc/config"}}
	m.create(client)
	root := pod(t, "root", "")
	root.Spec.Containers[0].Image = "hello"
	root.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)}
	m.create(root)
	shell := pod(t, "shell", "sleep")
	shell.Spec.Hostname = "own"
	m.create(shell)

	await(t, m.clients, "image", "ready", isReady)
	m.eventually("the log of the image", `args=["wait"] dir=/work data="of the image" A=image B=image pid=1 <nil> <nil>`+"\n", func() (string, error) {
		text, err := m.clients.CoreV1().Pods("default").GetLogs("image", &corev1.PodLogOptions{}).DoRaw(t.Context())
		return string(text), err
	})
	if out, err := m.stream("image", "exec", &corev1.PodExecOptions{Command: []string{"hello", "exec"}, Stdout: true}, ""); err != nil || !strings.HasPrefix(out, `args=["exec"] dir=/work`) {
		t.Errorf("a command in the image: %q, %v", out, err)
	}
	done := await(t, m.clients, "client", "complete", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if got, want := done.Status.ContainerStatuses[0].State.Terminated.Message, "server 1.37, volume value, read-only true, pid 1, host client"; got != want {
		t.Errorf("the client: %q, want %q", got, want)
	}
	await(t, m.clients, "root", "rejected", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, "container has runAsNonRoot and image will run as root")
	})
	await(t, m.clients, "shell", "ready", isReady)
	out, err := m.sh("shell", "hostname; cat /proc/1/comm; ls / | tr '\\n' ' '; cat /proc/self/uid_map | wc -l; grep -c svc.cluster.local /etc/hosts; echo x > /usr/x || echo read-only")
	if err != nil || !strings.HasPrefix(out, "own\nprocesses.test\n") || !strings.Contains(out, "read-only") || strings.Contains(out, "home") {
		t.Errorf("a shell sees %q, %v", out, err)
	}
	if text, err := m.sh("shell", "ls -d /tmp; touch /tmp/x && echo written"); err != nil || text != "/tmp\nwritten\n" {
		t.Errorf("/tmp: %q, %v", text, err)
	}
}
