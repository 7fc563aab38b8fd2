//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// none is a reader in which no object exists.
type none struct{ client.Reader }

func (none) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func environmentOf(c corev1.Container) ([]string, error) {
	e := &environment{
		ctx: context.Background(), reader: none{}, podIP: "127.77.0.1", hostIP: "127.0.0.1", server: "127.0.0.1:6443",
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"a": "1", "b": "2"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, NodeName: "n", ServiceAccountName: "default"},
		},
	}
	env, _, err := e.of(&c)
	return env, err
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("KAPOK_ETCD_PASSWORD", "secret")
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("100Mi")}
	of := func(r, divisor string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: r, Divisor: resource.MustParse(divisor)}}
	}
	env, err := environmentOf(corev1.Container{
		Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}, Resources: corev1.ResourceRequirements{Limits: limits},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(LATER)$$(A)"}, {Name: "LATER", Value: "x"},
			{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "LABEL", ValueFrom: field("metadata.labels['b']")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")}, {Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "CPU", ValueFrom: of("limits.cpu", "1")}, {Name: "MILLI", ValueFrom: of("limits.cpu", "1m")},
			{Name: "MEMORY", ValueFrom: of("limits.memory", "1Mi")}, {Name: "BYTES", ValueFrom: of("limits.memory", "0")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A=1", "B=1$(LATER)$(A)", "NAME=p", "LABEL=2", "NODE=n", "IP=127.77.0.1", "HOST=127.77.0.1", "PORT=8080", "CPU=2", "MILLI=1500", "MEMORY=100",
		"BYTES=104857600", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443", "HOSTNAME=p",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment lacks %s: %q", want, env)
		}
	}
	if slices.ContainsFunc(env, func(e string) bool { return strings.Contains(e, "secret") }) {
		t.Error("the environment has a variable of this process that may be secret")
	}
	for what, v := range map[string]corev1.EnvVar{
		"zero byte":     {Name: "A", Value: "a\x00b"},
		"name":          {Name: "A=B", Value: "a"},
		"size":          {Name: "A", Value: strings.Repeat("x", longestEnvironment)},
		"unknown field": {Name: "A", ValueFrom: field("spec.nothing")},
	} {
		if _, err := environmentOf(corev1.Container{Name: "c", Env: []corev1.EnvVar{v}}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestServiceLinks checks the variables for Services, whose names and values are those of the
// kubelet.
func TestServiceLinks(t *testing.T) {
	got := map[string]string{}
	links(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "my-web"}, Spec: corev1.ServiceSpec{ClusterIP: "127.96.0.5", Ports: []corev1.ServicePort{
		{Name: "http-alt", Port: 8080}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
	}}}, got)
	want := map[string]string{
		"MY_WEB_SERVICE_HOST": "127.96.0.5", "MY_WEB_SERVICE_PORT": "8080", "MY_WEB_SERVICE_PORT_HTTP_ALT": "8080", "MY_WEB_SERVICE_PORT_DNS": "53",
		"MY_WEB_PORT": "tcp://127.96.0.5:8080", "MY_WEB_PORT_8080_TCP": "tcp://127.96.0.5:8080", "MY_WEB_PORT_8080_TCP_PROTO": "tcp",
		"MY_WEB_PORT_8080_TCP_PORT": "8080", "MY_WEB_PORT_8080_TCP_ADDR": "127.96.0.5",
		"MY_WEB_PORT_53_UDP": "udp://127.96.0.5:53", "MY_WEB_PORT_53_UDP_PROTO": "udp", "MY_WEB_PORT_53_UDP_PORT": "53", "MY_WEB_PORT_53_UDP_ADDR": "127.96.0.5",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSubPath follows no link out of a volume.
func TestSubPath(t *testing.T) {
	volume, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	env := &environment{ctx: t.Context(), pod: &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: volume}}},
	}}}}
	p := &pods{}
	if got, sub, err := p.mountSource(env, &corev1.VolumeMount{Name: "v", SubPath: "a/b"}); err != nil || got != volume || sub != "a/b" {
		t.Errorf("subPath a/b: %q, %q, %v", got, sub, err)
	}
	for _, path := range []string{"../x", "/x", "a/../../x", "link", "link/x"} {
		if got, sub, err := p.mountSource(env, &corev1.VolumeMount{Name: "v", SubPath: path}); err == nil {
			t.Errorf("subPath %s: got %q and %q, want an error", path, got, sub)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside of the volume: %v, %v", entries, err)
	}
}

func TestSubPathExpr(t *testing.T) {
	value := func(name string) (string, bool) { return "p-0", name == "POD_NAME" }
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{
		{Name: "a", SubPathExpr: "logs/$(POD_NAME)"}, {Name: "b", SubPath: "$(POD_NAME)"}, {Name: "c", SubPathExpr: "$$(X)"},
	}}
	got, err := withSubPaths(c, value)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"logs/p-0", "$(POD_NAME)", "$(X)"} {
		if m := got.VolumeMounts[i]; m.SubPath != want {
			t.Errorf("volume %s: got the subPath %q, want %q", m.Name, m.SubPath, want)
		}
	}
	if c.VolumeMounts[0].SubPath != "" {
		t.Error("the container of the pod has been changed")
	}
	c.VolumeMounts[0].SubPathExpr = "$(UNKNOWN)"
	if _, err := withSubPaths(c, value); !errors.As(err, &missing{}) || err.Error() != `missing value for "UNKNOWN"` {
		t.Errorf("an unknown variable: got %v", err)
	}
}
