package kapok

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/auth/pki"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const anyPort = "127.0.0.1:0"

func adminConfig(t *testing.T, s *Server) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// A dialler of one's own keeps client-go from sharing the connection among tests.
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

func TestCredentials(t *testing.T) {
	leakFree(t)
	opts := newEcho().options()
	opts.Listen = anyPort
	s := start(t, opts)
	stranger, err := pki.Open("", nil, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := stranger.Kubeconfig(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	without := func(c *rest.Config) { c.CertData, c.KeyData = nil, nil }
	for _, tc := range []struct {
		name   string
		change func(*rest.Config)
		code   int
		body   string
	}{
		{"certificate", func(*rest.Config) {}, 200, "kubernetes-admin [system:masters system:authenticated] over HTTP/2.0"},
		{"certificate, HTTP/1.1", func(c *rest.Config) { c.NextProtos = []string{"http/1.1"} },
			200, "kubernetes-admin [system:masters system:authenticated] over HTTP/1.1"},
		{"token", func(c *rest.Config) { without(c); c.BearerToken = s.outside.credentials.Token() },
			200, "kubernetes-admin [system:masters system:authenticated] over HTTP/2.0"},
		{"wrong token", func(c *rest.Config) { without(c); c.BearerToken = "x" }, 401, `"message":"Unauthorized"`},
		{"nothing", without, 200, "system:anonymous [system:unauthenticated] over HTTP/2.0"},
		{"a stranger's certificate", func(c *rest.Config) {
			other, err := clientcmd.RESTConfigFromKubeConfig(strangers)
			if err != nil {
				t.Fatal(err)
			}
			c.CertData, c.KeyData = other.CertData, other.KeyData
		}, 401, `"reason":"Unauthorized"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := adminConfig(t, s)
			tc.change(config)
			c := client(t, config)
			defer c.CloseIdleConnections()
			for range 2 { // on the same connection
				code, body := get(t, c, config.Host+"/who")
				if code != tc.code || !strings.Contains(body, tc.body) {
					t.Errorf("got %d %s", code, body)
				}
			}
		})
	}

	t.Run("old TLS", func(t *testing.T) {
		_, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
		if err == nil {
			t.Error("TLS 1.1 was accepted")
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		r, err := http.Get("http://" + s.Address() + "/who")
		if err == nil {
			r.Body.Close()
			if r.StatusCode != 400 {
				t.Errorf("plain HTTP was answered with %s", r.Status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// The kubeconfig of an earlier run is gone before anything is served, and the
// new one is there when Start returns, not before.
func TestKubeconfigTellsReady(t *testing.T) {
	leakFree(t)
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "kubeconfig")
	var earlier []byte
	for range 2 {
		opts := newEcho().options()
		opts.DataDir, opts.Listen = dir, anyPort
		inner := opts.newHandler
		opts.newHandler = func(ctx context.Context, p parts) (handler, error) {
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the kubeconfig is there before the server is: %v", err)
			}
			return inner(ctx, p)
		}
		s := start(t, opts)
		data, err := os.ReadFile(file)
		if err != nil || string(data) != string(s.Kubeconfig()) {
			t.Errorf("kubeconfig %q, %v", data, err)
		}
		if string(data) == string(earlier) {
			t.Error("the kubeconfig is still that of the first run, with another port")
		}
		earlier = data
		config := adminConfig(t, s)
		if code, _ := get(t, client(t, config), config.Host+"/who"); code != 200 {
			t.Errorf("the kubeconfig opens nothing: %d", code)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the kubeconfig outlives the server: %v", err)
		}
	}
}

// A start that fails says why, and leaves nothing running and nothing changed
// that is not its own.
func TestStartFails(t *testing.T) {
	leakFree(t)
	running := newEcho().options()
	running.DataDir, running.Listen = filepath.Join(t.TempDir(), "data"), anyPort
	first := start(t, running)
	users := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(users, []byte("apiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		opts Options
		want string
	}{
		{"same directory", nil, Options{DataDir: running.DataDir, Listen: anyPort}, "another kapok is running on data directory " + running.DataDir},
		{"same port", nil, Options{Listen: first.Address(), Kubeconfig: filepath.Join(running.DataDir, "kubeconfig")},
			first.Address() + " is taken by another program: stop it, or listen at 127.0.0.1:0, which picks a free port"},
		{"user's kubeconfig", nil, Options{Listen: anyPort, Kubeconfig: users}, "was not written by kapok"},
		{"kubeconfig without socket", nil, Options{Kubeconfig: users}, "set Listen"},
		{"no port", nil, Options{Listen: "localhost"}, `listen address "localhost": want HOST:PORT, like 127.0.0.1:6443`},
		{"no number", nil, Options{Listen: "localhost:https"}, `port "https" must be a number from 0 to 65535`},
		{"large port", nil, Options{Listen: "localhost:65536"}, `port "65536" must be a number from 0 to 65535`},
		{"unknown host", nil, Options{Listen: "256.0.0.1:0"}, "256.0.0.1"},
		{"file for directory", nil, Options{DataDir: file, Listen: anyPort}, file},
		{"negative history", nil, Options{HistoryMemory: -1}, "bounds of history must not be negative"},
		{"handler fails", nil, Options{Listen: anyPort, newHandler: func(context.Context, parts) (handler, error) {
			return nil, errors.New("no handler today")
		}}, "no handler today"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			s, err := Start(ctx, tc.opts)
			if err == nil {
				s.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
	if data, err := os.ReadFile(filepath.Join(running.DataDir, "kubeconfig")); err != nil || string(data) != string(first.Kubeconfig()) {
		t.Errorf("the kubeconfig of the running server suffered: %v", err)
	}
	s, err := Start(done, newEcho().options())
	if err == nil {
		err = s.Wait() // a context that is done stops the server at once
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Watches end first; then the connection, which is told to go away.
func TestStopOutside(t *testing.T) {
	leakFree(t)
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			e := newEcho()
			opts := e.options()
			opts.Listen = anyPort
			s := start(t, opts)
			config := adminConfig(t, s)
			config.NextProtos = []string{protocol}
			c := client(t, config)
			defer c.CloseIdleConnections()
			watch, err := c.Get(config.Host + "/watch")
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Body.Close()
			unused, err := net.Dial("tcp", s.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer unused.Close()
			begin := time.Now()
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("Stop took %v", d)
			}
			if body, err := io.ReadAll(watch.Body); err != nil || string(body) != "end" {
				t.Errorf("the watch did not end in good order: %q, %v", body, err)
			}
			if !e.closedLast() {
				t.Error("the handler was closed while it served")
			}
			if conn, err := net.Dial("tcp", s.Address()); err == nil {
				conn.Close()
				t.Error("a stopped server listens")
			}
		})
	}
}

func TestDataDirIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, Options{DataDir: dir, Listen: anyPort})
	check := func() {
		t.Helper()
		files := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if others := info.Mode().Perm() & 0o077; others != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			files++
			return nil
		})
		if err != nil || files < 8 {
			t.Errorf("%d files, %v", files, err)
		}
	}
	check()
	s.Stop()
	check()
}

// A start as kapok up does it: socket, credentials, journal on disk.
func BenchmarkStartStopOnDisk(b *testing.B) {
	for _, fresh := range []bool{true, false} {
		name := "again"
		if fresh {
			name = "fresh"
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for i := 0; b.Loop(); i++ {
				opts := Options{DataDir: dir, Listen: anyPort}
				if fresh {
					opts.DataDir = filepath.Join(dir, strconv.Itoa(i))
				}
				s, err := Start(b.Context(), opts)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
		})
	}
}
