//go:build unix

package shards_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager/shards"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestProcesses suspends processes until others have replaced them, lets them go on, and kills
// them. Each time, it waits until all keys have been held again.
func TestProcesses(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	var list corev1.ConfigMapList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	p := &processes{t: t, client: c, kubeconfig: kubeconfig, running: map[string]*exec.Cmd{}}
	defer p.end()
	for _, name := range []string{"a", "b", "c"} {
		p.start(name)
	}
	p.allHeld("a", "b", "c")
	for round := range 2 {
		suspended, killed := string(rune('a'+round)), string(rune('b'+round))
		p.signal(suspended, syscall.SIGSTOP)
		t.Logf("%s is suspended; the others have its keys after %v", suspended, p.allHeldWithout(suspended))
		p.signal(suspended, syscall.SIGCONT)
		p.allHeld("a", "b", "c")
		p.signal(killed, syscall.SIGKILL)
		t.Logf("%s is killed; the others have its keys after %v", killed, p.allHeldWithout(killed))
		_ = p.running[killed].Wait()
		p.start(killed)
		p.allHeld("a", "b", "c")
	}
	p.end()
	judge(t, c, list.ResourceVersion)
}

// processes are the members.
type processes struct {
	t          *testing.T
	client     client.WithWatch
	kubeconfig string
	running    map[string]*exec.Cmd
	once       sync.Once
}

func (p *processes) start(name string) {
	p.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	c := exec.Command(binary)
	c.Env = append(os.Environ(), asMember+"="+name, "KUBECONFIG="+p.kubeconfig)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.running[name] = c
}

func (p *processes) signal(name string, s syscall.Signal) {
	p.t.Helper()
	if err := p.running[name].Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end kills all processes.
func (p *processes) end() {
	p.once.Do(func() {
		for _, c := range p.running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// allHeld waits until these are the members, and each key has been held by them since.
func (p *processes) allHeld(members ...string) {
	p.t.Helper()
	p.until(func(holders map[string]bool) bool {
		for _, m := range members {
			if !holders[m] {
				return false
			}
		}
		return len(holders) == len(members)
	})
}

// allHeldWithout waits until a process is no member, and each key has been held since. It returns
// the time until then.
func (p *processes) allHeldWithout(name string) time.Duration {
	p.t.Helper()
	begun := time.Now()
	p.until(func(holders map[string]bool) bool { return !holders[name] })
	return time.Since(begun).Round(10 * time.Millisecond)
}

// until waits until the holders of Leases are as wanted, and all keys have been held since.
func (p *processes) until(wanted func(holders map[string]bool) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	w, err := p.client.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace))
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Stop()
	held, reached := map[string]bool{}, false
	for e := range w.ResultChan() {
		var leases coordinationv1.LeaseList
		if err := p.client.List(ctx, &leases, client.MatchingLabels{shards.Label: group}); err != nil {
			p.t.Fatal(err)
		}
		holders := map[string]bool{}
		for _, l := range leases.Items {
			holders[*l.Spec.HolderIdentity] = true
		}
		switch o, ok := e.Object.(*corev1.ConfigMap); {
		case !wanted(holders):
			held, reached = map[string]bool{}, false
		case !reached:
			reached = true // earlier writes prove nothing
		case ok && o.Data["holder"] != "" && holders[o.Data["holder"]]:
			held[o.Name] = true
		}
		if len(held) == keys {
			return
		}
	}
	p.t.Fatalf("after three minutes only %d of %d keys are held", len(held), keys)
}
