//go:build linux

package processes

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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

// TestRegistry runs a container of an image in a registry that needs a password.
func TestRegistry(t *testing.T) {
	m := newMachine(t)
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "jane" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	reference := host + "/acme/hello:1"
	image, err := tarball.ImageFromPath(helloArchive(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if err := remote.Write(to, image, remote.WithAuth(&authn.Basic{Username: "jane", Password: "secret"}), remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	m.eventually("the mapping", "", func() (string, error) { return "", setImage(t, m.config, "hello", "registry://") })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":"jane","password":"secret"}}}`, host),
	}}
	if _, err := m.clients.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for podName, secrets := range map[string][]corev1.LocalObjectReference{"permitted": {{Name: "pull"}}, "denied": {{Name: "absent"}}} {
		p := pod(t, podName, "")
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = reference, corev1.PullAlways
		p.Spec.Containers[0].Args = []string{"wait"}
		p.Spec.ImagePullSecrets = secrets
		m.create(p)
	}
	ready := await(t, m.clients, "permitted", "ready", isReady)
	if id := ready.Status.ContainerStatuses[0].ImageID; !strings.HasPrefix(id, host+"/acme/hello@sha256:") {
		t.Errorf("the image ID is %s", id)
	}
	await(t, m.clients, "denied", "rejected", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, "401 Unauthorized")
	})
	m.eventually("the event", "Unable to retrieve some image pull secrets (absent); attempting to pull the image may not succeed.", func() (string, error) {
		list, err := m.clients.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedToRetrieveImagePullSecret"})
		if err != nil || len(list.Items) == 0 {
			return "", err
		}
		return list.Items[0].Message, nil
	})
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
