//go:build unix

package replicas

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = "../../.."

// TestPage follows docs/replicas.md, with its commands, on a copy of the sources: six processes,
// each of which is killed once, while kubectl uses the others.
func TestPage(t *testing.T) {
	if !*long {
		t.Skip("builds etcd and kapok, and starts three of each: with -long")
	}
	p := newPage(t)
	p.start(t, "./etcd", "345")
	p.start(t, "./kapok", "345")
	for _, i := range "345" {
		p.ready(t, i)
	}

	talk := p.block(t, "create configmap hello")
	if got := p.shell.run(t, talk); !strings.Contains(got, "configmap/hello created") || !strings.Contains(got, "hello   0 ") {
		t.Errorf("%s\n%s", talk, got)
	}
	for _, program := range []string{"./etcd", "./kapok"} {
		for _, victim := range "345" {
			p.kill(t, program, victim)
			through := "345"
			if program == "./kapok" {
				through = strings.ReplaceAll(through, string(victim), "")
			}
			p.talks(t, talk, fmt.Sprintf("without-%s-%c", program[2:], victim), through[0], through[1])
			p.talks(t, talk, fmt.Sprintf("without-%s-%c-back", program[2:], victim), through[1], through[0])
			p.start(t, program, string(victim))
			if program == "./kapok" {
				p.ready(t, victim)
			}
		}
	}

	p.kill(t, "./etcd", '3')
	p.kill(t, "./etcd", '4')
	create, _, _ := strings.Cut(talk, "\n")
	create = strings.ReplaceAll(create, "hello", "never")
	if got, code := p.shell.try(t, create); code == 0 {
		t.Fatalf("%s\n%s", create, got)
	}
	stale := p.block(t, "resourceVersion=0")
	if got := p.shell.run(t, stale); !strings.Contains(got, `"name":"hello"`) {
		t.Errorf("%s\n%s", stale, got)
	}
	p.start(t, "./etcd", "34")
	p.talks(t, talk, "again", '5', '3')
}

// A page is the page, and a shell in which its commands run.
type page struct {
	blocks []string
	shell  *shell
	pids   map[string]int // by program and number
	built  map[string]bool
}

func newPage(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "replicas.md"))
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t)
	p := &page{pids: map[string]int{}, built: map[string]bool{}}
	inside := false
	for line := range strings.Lines(string(text)) {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case is && inside:
			p.blocks[len(p.blocks)-1] += ports.Replace(code)
		case is:
			p.blocks = append(p.blocks, ports.Replace(code))
		}
		inside = is
	}
	dir := t.TempDir()
	copySources(t, dir)
	p.shell = newShell(t, dir, "KUBECACHEDIR="+filepath.Join(dir, "cache"), "PATH="+kubectl(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return p
}

// freePorts replaces the ports of the page by free ones: 2379 by 12379, for instance, and 6443 by
// 12443.
func freePorts(t *testing.T) *strings.Replacer {
	t.Helper()
	for range 100 {
		n := 11 + rand.IntN(20)
		if !allFree(n, "379", "479", "579", "380", "480", "580", "443", "444", "445") {
			continue
		}
		return strings.NewReplacer("127.0.0.1:2", fmt.Sprintf("127.0.0.1:%d", n), "127.0.0.1:644", fmt.Sprintf("127.0.0.1:%d44", n))
	}
	t.Fatal("there are no free ports")
	return nil
}

func allFree(prefix int, ports ...string) bool {
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d%s", prefix, port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// copySources makes a new copy, as the commands create files.
func copySources(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, relative)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		if info, err := d.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 10<<20 {
			return err // programs that were built before
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubectl returns the directory of a kubectl.
func kubectl(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("kubectl"); err == nil {
		return filepath.Dir(path)
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "kubectl"), "./kubectl")
	build.Dir = filepath.Join(root, "test", "kubectl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return dir
}

// block returns the only block of the page with a text.
func (p *page) block(t *testing.T, text string) string {
	t.Helper()
	found := ""
	for _, b := range p.blocks {
		if strings.Contains(b, text) {
			if found != "" {
				t.Fatalf("the page has %q more than once", text)
			}
			found = b
		}
	}
	if found == "" {
		t.Fatalf("the page has nothing with %q", text)
	}
	return found
}

// start runs the block that builds a program and starts processes of it. A program that has been
// built is only started.
func (p *page) start(t *testing.T, program, numbers string) {
	t.Helper()
	block := p.block(t, "\n  "+program+" ")
	const loop = "for i in 3 4 5; do"
	build, run, ok := strings.Cut(block, loop)
	if !ok {
		t.Fatalf("no loop in\n%s", block)
	}
	if !p.built[program] {
		p.shell.run(t, build)
		p.built[program] = true
	}
	for _, i := range numbers {
		pids := p.shell.launch(t, fmt.Sprintf("for i in %c; do", i)+run)
		if len(pids) != 1 {
			t.Fatalf("%s %c: processes %v", program, i, pids)
		}
		p.pids[program+string(i)] = pids[0]
	}
}

func (p *page) kill(t *testing.T, program string, number rune) {
	t.Helper()
	if err := syscall.Kill(p.pids[program+string(number)], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a server is ready.
func (p *page) ready(t *testing.T, number rune) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("kapok-%c is ready", number), func() bool {
		_, code := p.shell.try(t, fmt.Sprintf("kubectl --kubeconfig kapok-%c/kubeconfig get --raw /readyz 2>&1", number))
		return code == 0
	})
}

// talks runs the commands of the page that create an object through one server and get it through
// another, with the given name and servers. They may fail for some seconds, until the former
// leader's lease expires.
func (p *page) talks(t *testing.T, talk, name string, first, second byte) {
	t.Helper()
	create, get, ok := strings.Cut(strings.TrimSpace(talk), "\n")
	if !ok {
		t.Fatalf("not two commands:\n%s", talk)
	}
	create = strings.NewReplacer("hello", name, "kapok-3", "kapok-"+string(first)).Replace(create)
	get = strings.NewReplacer("hello", name, "kapok-4", "kapok-"+string(second)).Replace(get)
	for begin := time.Now(); ; {
		got, code := p.shell.try(t, create)
		if code == 0 || strings.Contains(got, "AlreadyExists") || strings.Contains(got, "already exists") {
			break
		}
		t.Logf("%s\n%s", create, got)
		if time.Since(begin) > 15*time.Second {
			t.Fatalf("not after 15 s: %s", create)
		}
	}
	if got := p.shell.run(t, get); !strings.Contains(got, name) {
		t.Errorf("%s\n%s", get, got)
	}
}
