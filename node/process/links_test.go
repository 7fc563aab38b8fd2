//go:build linux || darwin

package process

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReplacedFiles writes the files of a pod whose container has put links and pipes in their
// places.
func TestReplacedFiles(t *testing.T) {
	Main()
	p, err := newPods(Options{Dir: t.TempDir(), WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(outside, "..old"), 0o700); err != nil { // looks like a directory of a volume
		t.Fatal(err)
	}
	c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/etc/secret"}, {Name: "t", MountPath: accountPath}}}
	labels := corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "d/x", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['x']"}}}}
	env := &environment{ctx: t.Context(), reader: none{}, server: "127.0.0.1:1", pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{"x": "1"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{*c}, Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &labels}}, {Name: "t", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}},
	}}
	set := func() (err error) {
		if err = p.volumes(t.Context(), env); err == nil {
			_, err = p.spec(env, c)
		}
		return err
	}
	own := p.path(p.podDir("u"))
	link := func(path string) error { return os.Symlink(outside, path) }
	linkToFile := func(path string) error { return os.Symlink(secret, path) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	directory := func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }
	for _, test := range []struct {
		name  string
		with  func(string) error
		heals bool // else it is an error
	}{
		{"volumes/v", link, false},
		{"volumes/v", pipe, false},
		{"volumes", link, false},
		{".", link, false},
		{"volumes/v/..data", link, true},
		{"volumes/v/..data", pipe, true},
		{"volumes/v/..data", file, true},
		{"volumes/v/..data", directory, true},
		{"volumes/v/..data_tmp", link, true},
		{"volumes/v/..data_tmp", directory, true},
		{"volumes/v/..data/d/x", pipe, true},
		{"volumes/v/..data/d/x", linkToFile, true},
		{"volumes/v/..data/d", link, true},
		{"root/c/etc", link, false},
		{"root/c/etc/secret", linkToFile, true},
		{"root/c", link, false},
		{"root", link, false},
		{"root/c.kubeconfig", linkToFile, true},
		{"root/c.kubeconfig", pipe, true},
	} {
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		env.pod.Labels["x"] = "1"
		if err := set(); err != nil {
			t.Fatal(err)
		}
		replaced := filepath.Join(own, test.name)
		if err := os.RemoveAll(replaced); err != nil {
			t.Fatal(err)
		}
		if err := test.with(replaced); err != nil {
			t.Fatal(err)
		}
		env.pod.Labels["x"] = "2"
		err := set()
		if test.heals != (err == nil) {
			t.Errorf("%s: %v", test.name, err)
		}
		if data, err := os.ReadFile(filepath.Join(own, "root/c/etc/secret/d/x")); test.heals && (err != nil || string(data) != "2") {
			t.Errorf("%s: the volume has %q, %v", test.name, data, err)
		}
		if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
			t.Errorf("%s: the file outside has %q, %v", test.name, data, err)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 2 {
			t.Errorf("%s: outside are %v, %v", test.name, entries, err)
		}
	}

	// A termination message and a log are read from files of the pod only, and a pipe is not waited
	// for.
	run := proc.Run{Spec: proc.Spec{ID: proc.ID{Pod: "u", Container: "c"}}, Exit: &proc.Exit{Code: 1}}
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	_ = os.RemoveAll(own)
	for _, with := range []func(string) error{linkToFile, pipe, directory} {
		for _, name := range []string{p.messageFile(run.ID), p.runtime.LogPath(run.ID)} {
			path := p.path(name)
			_ = os.MkdirAll(filepath.Dir(path), 0o700)
			_ = os.RemoveAll(path)
			if err := with(path); err != nil {
				t.Fatal(err)
			}
			if text := p.terminationMessage(c, run); text != "" {
				t.Errorf("the message is %q", text)
			}
		}
	}
}
