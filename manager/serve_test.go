package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
)

// handlers returns a handler at a path.
func handlers(path string) map[string]http.Handler {
	return map[string]http.Handler{path: http.NotFoundHandler()}
}

// wrap returns a round tripper that fails requests during the cut.
func (c cut) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(r.Context())
		stop := context.AfterFunc(c.Context, cancel)
		if c.Err() != nil {
			cancel()
			stop()
			return nil, errors.New("the network is cut")
		}
		return next.RoundTrip(r.WithContext(ctx))
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
func (roundTripper) CloseIdleConnections()                               {} // client-go checks for this method

// lastPort is the port that freeAddress has returned last.
var lastPort = 20_000 + os.Getpid()*7%10_000

// freeAddress returns an unused address, another one for each call. Systems assign higher ports, so
// that no other program gets it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for lastPort++; lastPort < 32_768; lastPort++ {
		address := fmt.Sprint("127.0.0.1:", lastPort)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("all ports are in use")
	return ""
}

// TestServers tests the servers on sockets: health, metrics, profiles.
func TestServers(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	opts := manager.Options{
		HealthProbeBindAddress: freeAddress(t), PprofBindAddress: freeAddress(t), ReadinessEndpointName: "ready",
		Metrics: manager.MetricsOptions{BindAddress: freeAddress(t)},
	}
	sick := errors.New("sick")
	reconciled := make(chan string, 100)
	p := newProcess(t, server.Config(), opts, func(m manager.Manager) error {
		return errors.Join(
			m.AddHealthzCheck("ping", manager.Ping),
			m.AddHealthzCheck("sick", func(*http.Request) error { return sick }),
			m.AddMetricsServerExtraHandler("/extra", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "more") })),
			ctrl.NewControllerManagedBy(m).For(&corev1.Namespace{}).Complete(ctrl.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
				reconciled <- r.Name
				return ctrl.Result{}, nil
			})))
	})
	defer func() {
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("tcp", opts.HealthProbeBindAddress); err == nil {
			t.Error("the address is still in use")
		}
	}()
	for range 4 {
		<-reconciled
	}
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tc := range []struct {
		address, path string
		code          int
		parts         []string
	}{
		{opts.HealthProbeBindAddress, "/healthz", 500, []string{"[+]ping ok\n[-]sick failed: reason withheld\nhealthz check failed\n"}},
		{opts.HealthProbeBindAddress, "/healthz/ping", 200, []string{"ok"}},
		{opts.HealthProbeBindAddress, "/healthz/sick", 500, []string{"internal server error: sick"}},
		{opts.HealthProbeBindAddress, "/healthz/other", 404, nil},
		{opts.HealthProbeBindAddress, "/healthz?exclude=sick", 200, []string{"ok"}},
		{opts.HealthProbeBindAddress, "/healthz?exclude=sick&exclude=x&verbose", 200,
			[]string{"[+]ping ok\n[+]sick excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nhealthz check passed\n"}},
		{opts.HealthProbeBindAddress, "/ready", 200, []string{"ok"}},
		{opts.HealthProbeBindAddress, "/ready/ping", 200, []string{"ok"}},
		{opts.HealthProbeBindAddress, "/readyz", 404, nil},
		{opts.PprofBindAddress, "/debug/pprof/", 200, []string{"goroutine"}},
		{opts.PprofBindAddress, "/debug/pprof/cmdline", 200, nil},
		{opts.Metrics.BindAddress, "/extra", 200, []string{"more"}},
		{opts.Metrics.BindAddress, "/metrics", 200, []string{
			`controller_runtime_active_workers{controller="namespace"} 0`,
			`controller_runtime_max_concurrent_reconciles{controller="namespace"} 1`,
			`controller_runtime_reconcile_errors_total{controller="namespace"} 0`,
			`controller_runtime_reconcile_panics_total{controller="namespace"} 0`,
			`controller_runtime_reconcile_time_seconds_count{controller="namespace"} 4`,
			`controller_runtime_reconcile_total{controller="namespace",result="success"} 4`,
			`controller_runtime_terminal_reconcile_errors_total{controller="namespace"} 0`,
			`workqueue_adds_total{controller="namespace",name="namespace"} 4`,
			`workqueue_queue_duration_seconds_count{controller="namespace",name="namespace"} 4`,
			`rest_client_requests_total{code="200",host="`,
			`go_goroutines`, `process_start_time_seconds`,
		}},
	} {
		t.Run(tc.path, func(t *testing.T) {
			var response *http.Response
			var body []byte
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until all workers have counted
				var err error
				if response, err = hc.Get("http://" + tc.address + tc.path); err != nil {
					t.Fatal(err)
				}
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				missing := func(part string) bool { return !strings.Contains(string(body), part) }
				if !slices.ContainsFunc(tc.parts, missing) || time.Now().After(deadline) {
					break
				}
			}
			if response.StatusCode != tc.code {
				t.Errorf("code %d", response.StatusCode)
			}
			for _, part := range tc.parts {
				if !strings.Contains(string(body), part) {
					t.Errorf("%s is not in\n%s", part, body)
				}
			}
		})
	}
}

// TestAddressInUse checks that an address in use ends Start with an error.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	p := newProcess(t, server.Config(), manager.Options{HealthProbeBindAddress: l.Addr().String()}, nil)
	p.running.Wait()
	p.stop()
	if p.err == nil || !strings.Contains(p.err.Error(), "health server: listen tcp") {
		t.Errorf("got %v", p.err)
	}
}

// TestSignals checks that the first signal cancels the context, and that the second ends the
// program.
func TestSignals(t *testing.T) {
	if os.Getenv("KAPOK_TEST_SIGNALS") != "" {
		ctx := manager.SetupSignalHandler()
		_, _ = os.Stdout.WriteString("ready\n")
		<-ctx.Done()
		_, _ = os.Stdout.WriteString("stopping\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSignals$")
	cmd.Env = append(os.Environ(), "KAPOK_TEST_SIGNALS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ready\n", "stopping\n"} {
		got := make([]byte, len(line))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != line {
			t.Errorf("got %q, %v", got, err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ends with %v", err)
	}
}
