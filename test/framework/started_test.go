package framework

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/kapoktest"
	shopv1 "github.com/kapok-dev/kapok/test/framework/scaffold/api/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// TestScaffoldedProjectStarts runs the moved project of kubebuilder's layout v4 against a server.
func TestScaffoldedProjectStarts(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := shopv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	env := kapoktest.Start(t, kapoktest.Scheme(scheme), kapoktest.Types(&shopv1.Widget{}),
		kapoktest.Server(func(o *kapok.Options) { o.Listen, o.Kubeconfig = "127.0.0.1:0", kubeconfig }))
	env.ServiceAccount("default", "scraper", kapoktest.Can("get", "/metrics"))

	dir, address := moved(t, "scaffold"), freeAddress(t)
	build(t, dir, "build", "-o", "manager", "./cmd")
	lines := start(t, exec.Command(filepath.Join(dir, "manager"), "--metrics-bind-address", address, "--health-probe-bind-address=0",
		"--zap-devel=false", "--zap-encoder=json"), "KUBECONFIG="+kubeconfig, "ENABLE_WEBHOOKS=false")
	for line := range lines {
		if strings.Contains(line, `"msg":"Serving"`) && strings.Contains(line, `"server":"metrics"`) {
			break
		}
	}
	go func() { // what it says must not block it
		for range lines {
		}
	}()

	widget := &shopv1.Widget{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: shopv1.WidgetSpec{Size: 1}}
	env.Create(widget)
	env.WaitFor(t.Context(), widget, func() bool { return meta.IsStatusConditionTrue(widget.Status.Conditions, "Available") })
	box := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if env.Get(box); !metav1.IsControlledBy(box, widget) {
		t.Errorf("the ConfigMap has owners %v", box.OwnerReferences)
	}

	for _, tc := range []struct {
		token string
		code  int
		part  string
	}{
		{"", 401, ""},
		{"nonsense", 401, ""},
		{env.Token("default", "other", time.Hour), 403, "Authorization denied for user system:serviceaccount:default:other"},
		{env.Token("default", "scraper", time.Hour), 200, `controller_runtime_reconcile_total{controller="widget",result="success"}`},
	} {
		if code, body := metricsOf(t, address, tc.token); code != tc.code || !strings.Contains(body, tc.part) {
			t.Errorf("/metrics is %d, want %d with %q: %s", code, tc.code, tc.part, body)
		}
	}
}

// start starts a command that is stopped when the test ends, and returns the lines that it writes
// to stderr. It must end with code 0.
func start(t *testing.T, cmd *exec.Cmd, env ...string) <-chan string {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, stopping := make(chan string), make(chan struct{})
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(stderr)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-stopping:
			}
		}
	}()
	t.Cleanup(func() {
		close(stopping)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		for range lines {
		}
		if err := cmd.Wait(); err != nil {
			t.Error("the manager:", err)
		}
	})
	return lines
}

// metricsOf asks for metrics over TLS.
func metricsOf(t *testing.T, address, token string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} // it is signed by itself
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// freeAddress is an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
