//go:build linux

package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The benchmarks of a process read its processor time and memory from /proc, and so need Linux.

// BenchmarkProcess measures kapok up from its start until the kubeconfig exists and the server is
// ready.
func BenchmarkProcess(b *testing.B) {
	for _, name := range []string{"store=memory", "store=fresh", "store=existing"} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			if name == "store=existing" {
				launch(b, dir, true).stop()
			}
			var ready durations
			for i := range b.N {
				data := dir
				if name == "store=fresh" {
					data = filepath.Join(dir, strconv.Itoa(i))
				}
				p := launch(b, data, name != "store=memory")
				ready = append(ready, p.ready)
				p.stop()
			}
			b.ReportMetric(0, "ns/op") // it would include the stop
			b.ReportMetric(milliseconds(ready.quantile(0.5)), "ready-p50-ms")
			b.ReportMetric(milliseconds(ready.quantile(1)), "ready-max-ms")
		})
	}
}

// BenchmarkIdle measures kapok up without and with the built-in controllers: its start, and its
// memory and processor time in a minute in which nothing happens, which begins 20 seconds after the
// start.
func BenchmarkIdle(b *testing.B) {
	for _, names := range []string{"", "*"} {
		b.Run("controllers="+names, func(b *testing.B) {
			for b.Loop() {
				p := launch(b, filepath.Join(b.TempDir(), "data"), true, "--controllers="+names)
				time.Sleep(20 * time.Second)
				memory, used := p.memory("RssAnon"), p.cpu()
				time.Sleep(time.Minute)
				b.ReportMetric(milliseconds(p.ready), "ready-ms")
				b.ReportMetric(memory, "RssAnon-MB")
				b.ReportMetric(milliseconds(p.cpu()-used), "cpu-ms/minute")
				p.stop()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestMain removes the binaries that benchmarks have built.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.Load() {
		path, _ := binary()
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// A process is a running kapok up.
type process struct {
	*exec.Cmd
	config *rest.Config
	ready  time.Duration // time until it was ready
	once   sync.Once
}

var built atomic.Bool // binary has been called

// binary returns the path of kapok, which is built once.
var binary = sync.OnceValues(func() (string, error) {
	built.Store(true)
	dir, err := os.MkdirTemp("", "kapok-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kapok")
	build := exec.Command("go", "build", "-o", path, "../../../cmd/kapok")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := build.CombinedOutput(); err != nil {
		return path, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// launch starts a server and waits until it is ready.
func launch(b *testing.B, dir string, durable bool, flags ...string) *process {
	b.Helper()
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	args := append([]string{"up", "--listen=127.0.0.1:0", "--controllers=", "--kubeconfig", file}, flags...)
	if durable {
		args = append(args, "--data-dir", dir)
	} else {
		args = append(args, "--in-memory")
	}
	p := &process{Cmd: exec.Command(path, args...)}
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	begin := time.Now()
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	for tick := time.Tick(200 * time.Microsecond); ; <-tick {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			p.stop()
			b.Fatalf("not ready after a minute:\n%s", &out)
		}
	}
	if p.config, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
		b.Fatal(err)
	}
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := client.Get(p.config.Host + "/readyz")
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	p.ready = time.Since(begin)
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("/readyz: %s", resp.Status)
	}
	return p
}

func (p *process) stop() {
	p.once.Do(func() {
		p.Process.Signal(os.Interrupt)
		p.Wait()
	})
}

// cpu returns the processor time that the process has used, with a resolution of 10 ms.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, can contain spaces.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ is 100 on all architectures of Linux
}

// memory returns a line of /proc/PID/status, such as RssAnon, in MB.
func (p *process) memory(line string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), line+":")
	n, _ := strconv.Atoi(strings.Fields(rest)[0])
	return float64(n) / 1000
}
