package powercut

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

var (
	long   = flag.Bool("long", false, "200 rounds rather than 8")
	rounds = flag.Int("rounds", 0, "how many rounds, if neither 8 nor 200")
)

func settings(t *testing.T) (n int, seed uint64, r *rand.Rand) {
	n = 8
	if *long {
		n = 200
	}
	if *rounds > 0 {
		n = *rounds
	}
	t.Logf("%d rounds", n)
	seed = seeds.Of(t)
	return n, seed, rand.New(rand.NewPCG(seed, 1))
}

// binary returns the server under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		binary = filepath.Join(dir, "kapok")
		build := exec.Command("go", "build", "-o", binary, "./cmd/kapok")
		build.Dir = "../.."
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// errLost is returned if an object is gone, or differs from what it must be.
var errLost = errors.New("lost")

// TestPowerCut checks that no acknowledged write is lost.
func TestPowerCut(t *testing.T) {
	n, seed, random := settings(t)
	w := newWorld(t, NewDisk(seed, false), random)
	for round := range n {
		changes := 1 + random.IntN(1000) // many starts need that many
		if random.IntN(2) == 0 {
			changes += 1000 + random.IntN(4000)
		}
		if err := w.round(t.Context(), changes); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if err := w.round(t.Context(), -1); err != nil {
		t.Fatalf("at the end: %v", err)
	}
	t.Logf("%d writes acknowledged, %d without an answer, %d incomplete starts, %d syncs", w.acknowledged, w.unanswered, w.stillborn, w.disk.synced)
	if w.acknowledged == 0 {
		t.Error("no write was acknowledged: nothing was tested")
	}
}

// TestPowerCutAfterFirstStart checks that the credentials that the first server has created remain
// after a power cut that loses all unsynced data.
func TestPowerCutAfterFirstStart(t *testing.T) {
	_, seed, random := settings(t)
	w := newWorld(t, NewDisk(seed, false), random)
	w.remains = Nothing
	for _, when := range []string{"at the first start", "after a power cut"} {
		if err := w.round(t.Context(), -1); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
}

// TestLostWritesAreFound checks that lost writes are found if syncs have no effect.
func TestLostWritesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		lies    bool // from the beginning, or after the first start
		remains Remains
		flags   []string
		want    []string // one of these
	}{
		"a disk whose syncs do nothing":     {lies: true, want: []string{"lost", "damaged"}}, // the server may find it first, also in its credentials
		"a disk whose syncs end":            {remains: Nothing, want: []string{"was acknowledged as"}},
		"a server that does not sync":       {flags: []string{"--unsafe-no-fsync"}, want: []string{"lost", "damaged"}},
		"a server that stops to sync later": {remains: Nothing, flags: []string{"--unsafe-no-fsync"}, want: []string{"was acknowledged as"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, seed, random := settings(t)
			w := newWorld(t, NewDisk(seed, c.lies), random)
			if c.remains == Nothing { // credentials created without writes are durable
				if err := w.round(t.Context(), -1); err != nil {
					t.Fatal(err)
				}
				w.disk.lies, w.remains = c.flags == nil, Nothing
			}
			w.flags = c.flags
			for range 20 {
				err := w.round(t.Context(), 300+random.IntN(1000))
				if err != nil && slices.ContainsFunc(c.want, func(part string) bool { return strings.Contains(err.Error(), part) }) {
					t.Logf("found: %.300s", err)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("%d writes were acknowledged on a disk that loses them, but no loss was found", w.acknowledged)
		})
	}
}

// A world is a server's data directory, and its expected content.
type world struct {
	t       *testing.T
	random  *rand.Rand
	disk    *Disk
	dir     string // where the disk is mounted
	flags   []string
	remains Remains
	writers []*writer
	newest  int64             // resourceVersion
	known   map[string]string // credentials at the first time that a server was ready

	acknowledged, unanswered, stillborn int
}

// A writer writes objects of its own.
type writer struct {
	id      int
	random  *rand.Rand
	objects map[string]*known // by name
	count   int
	newest  int64
}

// A known is the expected state of an object: its acknowledged value, and one that it may have
// instead.
type known struct {
	value, maybe string // "" means that it does not exist
	open         bool
}

const writers = 6

func newWorld(t *testing.T, d *Disk, random *rand.Rand) *world {
	dir := t.TempDir()
	mount(t, d, dir)() // or skips the test
	w := &world{t: t, random: random, disk: d, dir: dir}
	for id := range writers {
		w.writers = append(w.writers, &writer{id: id, random: rand.New(rand.NewPCG(random.Uint64(), 0)), objects: map[string]*known{}})
	}
	return w
}

// round starts a server, checks its content, and writes until the power is cut after the given
// number of changes; if that is negative, it ends after the check.
func (w *world) round(ctx context.Context, changes int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	unmount := mount(w.t, w.disk, w.dir)
	defer unmount()
	w.disk.CutAfter(changes)
	p, err := w.launch(ctx)
	if err != nil {
		return err
	}
	err = w.live(ctx, p, changes)
	w.disk.Cut()
	p.kill()
	unmount()
	if err != nil {
		err = fmt.Errorf("%w\nthe server said\n%s", err, &p.out)
	}
	w.disk.Restart(w.remains)
	return err
}

// live checks a running server and writes to it.
func (w *world) live(ctx context.Context, p *process, changes int) error {
	c, err := p.ready(ctx)
	if errors.Is(err, errNoPower) {
		w.stillborn++
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.inspect(ctx, c); err != nil {
		if w.off() {
			return nil // without a response
		}
		return err
	}
	if changes < 0 {
		return nil
	}
	var group sync.WaitGroup
	errs := make([]error, len(w.writers))
	acknowledged := make([]int, len(w.writers))
	for i, writer := range w.writers {
		group.Go(func() { acknowledged[i], errs[i] = writer.run(ctx, c, w.off) })
	}
	group.Wait()
	for i, writer := range w.writers {
		w.acknowledged += acknowledged[i]
		w.newest = max(w.newest, writer.newest)
	}
	return errors.Join(errs...)
}

func (w *world) off() bool {
	select {
	case <-w.disk.Off():
		return true
	default:
		return false
	}
}

// inspect compares the content of a server with the expected one.
func (w *world) inspect(ctx context.Context, c *client) error {
	files := map[string]string{}
	for _, name := range []string{"ca.crt", "token", "service-account.pem"} {
		data, _ := w.disk.ReadFile("data/pki/" + name)
		files[name] = string(data)
	}
	if w.off() {
		return errNoPower
	}
	if w.known != nil && !maps.Equal(w.known, files) {
		return fmt.Errorf("%w: certificates, keys or tokens have changed", errLost)
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []wire
	}
	if _, err := c.do(ctx, http.MethodGet, "/api/v1/namespaces/default/configmaps", nil, &list); err != nil {
		return err
	}
	rv, err := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	var report struct{ Problems []any }
	if code, err := c.do(ctx, http.MethodGet, "/kapok/v1/doctor", nil, &report); err != nil || code != http.StatusOK || len(report.Problems) > 0 {
		return errors.Join(err, fmt.Errorf("doctor: %d %v", code, report.Problems))
	}
	w.known = files
	found := map[string]string{}
	for _, o := range list.Items {
		if o.Metadata.Name != "kube-root-ca.crt" {
			found[o.Metadata.Name] = o.Data.Value
		}
	}
	for _, writer := range w.writers {
		for name, k := range writer.objects {
			value := found[name]
			switch {
			case value == k.value:
			case k.open && value == k.maybe:
			default:
				return fmt.Errorf("%w: %s is %.40q, and was acknowledged as %.40q (open %v, maybe %.40q)", errLost, name, value, k.value, k.open, k.maybe)
			}
			if k.open {
				w.unanswered++
			}
			writer.objects[name] = &known{value: value}
			delete(found, name)
		}
	}
	for name := range found {
		return fmt.Errorf("%w: the deletion of %s, or it was never created", errLost, name)
	}
	if rv < w.newest {
		return fmt.Errorf("%w: the resourceVersion is %d, and was %d before", errLost, rv, w.newest)
	}
	w.newest = rv
	return nil
}

// run writes until the power is cut.
func (w *writer) run(ctx context.Context, c *client, off func() bool) (acknowledged int, err error) {
	for !off() {
		name := fmt.Sprintf("writer-%d-%d", w.id, w.random.IntN(4))
		if w.objects[name] == nil {
			w.objects[name] = &known{}
		}
		k := w.objects[name]
		w.count++
		value := fmt.Sprintf("%d.%d %s", w.id, w.count, strings.Repeat("x", w.random.IntN(100)*w.random.IntN(200)))
		method, path, want := http.MethodPut, "/api/v1/namespaces/default/configmaps/"+name, http.StatusOK
		body := any(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"value": value}})
		switch {
		case k.value == "":
			method, path, want = http.MethodPost, "/api/v1/namespaces/default/configmaps", http.StatusCreated
		case w.random.IntN(4) == 0:
			method, value, body = http.MethodDelete, "", nil
		}
		k.maybe, k.open = value, true
		var answer wire
		code, err := c.do(ctx, method, path, body, &answer)
		switch {
		case err != nil && off() || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout || code == http.StatusInsufficientStorage:
			if !off() {
				return acknowledged, fmt.Errorf("%s %s: %d on a disk with power", method, path, code)
			}
			return acknowledged, nil
		case err != nil:
			return acknowledged, err
		case code != want:
			return acknowledged, fmt.Errorf("%s %s: %d, want %d: %s", method, path, code, want, answer.Message)
		}
		*k = known{value: value}
		acknowledged++
		if rv, err := strconv.ParseInt(answer.Metadata.ResourceVersion, 10, 64); err == nil {
			w.newest = max(w.newest, rv)
		}
	}
	return acknowledged, nil
}

// wire is a decoded object, or a Status.
type wire struct {
	Metadata struct{ Name, ResourceVersion string }
	Data     struct{ Value string }
	Message  string
}

// A process is a running server.
type process struct {
	*exec.Cmd
	world  *world
	config string // the kubeconfig, which is on another disk
	out    bytes.Buffer
	done   chan struct{}
}

func (w *world) launch(ctx context.Context) (*process, error) {
	p := &process{world: w, config: filepath.Join(w.t.TempDir(), "kubeconfig"), done: make(chan struct{})}
	args := append([]string{"up", "--listen=127.0.0.1:0", "--controllers=", "--data-dir", filepath.Join(w.dir, "data"), "--kubeconfig", p.config}, w.flags...)
	p.Cmd = exec.CommandContext(ctx, binary, args...)
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.Wait()
		close(p.done)
	}()
	return p, nil
}

var address = regexp.MustCompile(`server: (https://\S+)`)

// ready waits until the server is ready, and returns its client; errNoPower if it never will be.
func (p *process) ready(ctx context.Context) (*client, error) {
	for tick := time.Tick(time.Millisecond); ; {
		if config, err := os.ReadFile(p.config); err == nil {
			found := address.FindSubmatch(config)
			if ca, ok := p.world.disk.ReadFile("data/pki/ca.crt"); ok && found != nil {
				token, _ := p.world.disk.ReadFile("data/pki/token")
				return newClient(string(found[1]), ca, string(token)), nil
			}
		}
		select {
		case <-p.world.disk.Off():
			return nil, errNoPower
		case <-p.done:
			if p.world.off() {
				return nil, errNoPower
			}
			return nil, fmt.Errorf("the server ended by itself: %v", p.ProcessState)
		case <-ctx.Done():
			return nil, fmt.Errorf("the server is not ready: %w", ctx.Err())
		case <-tick:
		}
	}
}

func (p *process) kill() {
	p.Process.Kill()
	<-p.done
}

// A client sends requests as the admin.
type client struct {
	http        http.Client
	host, token string
}

func newClient(host string, ca []byte, token string) *client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &client{
		http: http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}},
		host: host, token: strings.TrimSpace(token),
	}
}

func (c *client) do(ctx context.Context, method, path string, body, into any) (code int, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	return resp.StatusCode, err
}
