//go:build linux || darwin

package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUserOf(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nweb:x:101:102::/:/bin/false\nbad:x:y:z::\nshort:x\n", "etc/group": "root:x:0:\nstaff:x:50:\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.WriteFile(filepath.Join(root, name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	one, zero, yes := int64(1), int64(0), true
	for _, test := range []struct {
		user      string
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		uid, gid  int
		problem   string
	}{
		{user: "", uid: 0, gid: 0},
		{user: "65532", uid: 65532},
		{user: "65532:7", uid: 65532, gid: 7},
		{user: "web", uid: 101, gid: 102},
		{user: "web:staff", uid: 101, gid: 50},
		{user: "9:staff", uid: 9, gid: 50},
		{user: "web", pod: &corev1.PodSecurityContext{RunAsUser: &one, RunAsGroup: &one}, uid: 1, gid: 1},
		{user: "web", pod: &corev1.PodSecurityContext{RunAsUser: &one}, container: &corev1.SecurityContext{RunAsUser: &zero}, uid: 0, gid: 102},
		{user: "absent", problem: "unable to find user absent"},
		{user: "bad", problem: "invalid syntax"},
		{user: "short", problem: "unable to find user short"},
		{user: "1:absent", problem: "unable to find group absent"},
		{user: "-1", problem: "must not be negative"},
		{user: "4294967296", pod: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, problem: "must not be negative"}, // root, by the lower 32 bits
		{user: "1:4294967296", problem: "must not be negative"},
		{user: "0", pod: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, problem: "image will run as root"},
		{user: "web", pod: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, problem: "image has non-numeric user (web)"},
		{user: "web", container: &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &one}, uid: 1, gid: 102},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: test.pod}}
		uid, gid, err := userOf(root, test.user, pod, &corev1.Container{Name: "c", SecurityContext: test.container})
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) || !errors.As(err, &missing{}) {
				t.Errorf("%+v: got %v", test, err)
			}
		} else if err != nil || uid != test.uid || gid != test.gid {
			t.Errorf("%+v: got %d, %d, %v", test, uid, gid, err)
		}
	}
	if uid, gid, err := userOf("", "", &corev1.Pod{}, &corev1.Container{}); err != nil || uid != os.Geteuid() || gid != os.Getegid() {
		t.Errorf("a program of this machine: got %d, %d, %v", uid, gid, err)
	}
}

func TestMounts(t *testing.T) {
	p := newPodsWithoutRuntime(Options{Dir: "/node"})
	defer p.cancel()
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	env := &environment{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		volume("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}), volume("config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
		volume("empty", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
	}}}}
	got, err := p.mounts(env, &corev1.Container{VolumeMounts: []corev1.VolumeMount{
		{Name: "config", MountPath: "/data/config/"}, {Name: "host", MountPath: "/data", ReadOnly: true}, {Name: "empty", MountPath: "/data-2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range got {
		word := m.Source + " " + m.Target
		if m.ReadOnly {
			word += " ro"
		}
		text = append(text, word)
	}
	dir := "/node/pods/u/_pod/volumes/"
	if want := []string{dir + "empty /data-2", "/srv /data ro", dir + "config /data/config ro"}; !slices.Equal(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
	for _, m := range []corev1.VolumeMount{{Name: "host", MountPath: "/"}, {Name: "absent", MountPath: "/x"}} {
		if _, err := p.mounts(env, &corev1.Container{VolumeMounts: []corev1.VolumeMount{m}}); !errors.As(err, &missing{}) {
			t.Errorf("%+v: got %v", m, err)
		}
	}
}

func TestWithoutInherited(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("TZ", "UTC")
	got := withoutInherited([]string{"HOME=/home/me", "TZ=UTC", "PATH=/of/spec", "A=1"})
	if want := []string{"TZ=UTC", "PATH=/of/spec", "A=1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDropped(t *testing.T) {
	all := func(but ...string) (names []string) {
		for _, name := range proc.Capabilities {
			if !slices.Contains(but, name) {
				names = append(names, name)
			}
		}
		return names
	}
	for i, test := range []struct {
		c    *corev1.Capabilities
		want []string
	}{
		{nil, nil},
		{&corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}, nil},
		{&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, all()},
		{&corev1.Capabilities{Drop: []corev1.Capability{"all"}, Add: []corev1.Capability{"NET_BIND_SERVICE", "SYS_ADMIN"}}, all("NET_BIND_SERVICE")},
		{&corev1.Capabilities{Drop: []corev1.Capability{"CAP_KILL", "MKNOD"}}, []string{"KILL", "MKNOD"}},
	} {
		if got := dropped(test.c); !slices.Equal(got, test.want) {
			t.Errorf("case %d: got %v, want %v", i, got, test.want)
		}
	}
}
