//go:build linux

package processes

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// helloArchive writes the archive of an image with the program hello.
func helloArchive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "hello"), "./testdata/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		data []byte
	}{{"bin/hello", program}, {"work/data", []byte("of the image")}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"hello"}, Cmd: []string{"cmd"}, Env: []string{"PATH=/bin", "A=image", "B=image"}, WorkingDir: "/work"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hello.tar")
	tag, err := name.NewTag("hello")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestArchive runs containers of an image in an archive.
func TestArchive(t *testing.T) {
	m := newMachine(t)
	archive := "archive://" + helloArchive(t)
	p := pod(t, "image", "")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := &p.Spec.Containers[0]
	c.Image, c.Env = archive, []corev1.EnvVar{{Name: "B", Value: "pod"}, {Name: "V", Value: "of the pod"}}
	c.Args = []string{"$(V)"}
	m.create(p)
	done := await(t, m.clients, "image", "complete", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	text, err := m.clients.CoreV1().Pods("default").GetLogs("image", &corev1.PodLogOptions{}).DoRaw(context.Background())
	if err != nil || done.Status.Phase != corev1.PodSucceeded {
		t.Fatalf("phase %s, log %q, %v", done.Status.Phase, text, err)
	}
	for _, want := range []string{`args=["of the pod"]`, `/root/work data="of the image"`, "A=image B=pod"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log is %q, want %s", text, want)
		}
	}
	if id := done.Status.ContainerStatuses[0].ImageID; !strings.HasPrefix(id, "sha256:") {
		t.Errorf("the image ID is %s", id)
	}
	m.eventually("the event Pulled", "", func() (string, error) {
		list, err := m.clients.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		events := ""
		for i := range list.Items {
			events += list.Items[i].Reason + ": " + list.Items[i].Message + "\n"
		}
		if !strings.Contains(events, "Pulled: Successfully pulled image") || !strings.Contains(events, "Pulling: Pulling image") {
			return events, nil
		}
		return "", nil
	})
}
