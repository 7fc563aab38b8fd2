package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run runs a command until it ends or the power is cut, and reports whether it succeeded.
func run(t *testing.T, d *Disk, args ...string) (done bool, out string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-d.Off():
			cancel()
		case <-ctx.Done():
		}
	}()
	text, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	return err == nil, string(text)
}

// saved creates a snapshot, and returns its file and the number of config maps of the namespace
// default in it.
func saved(t *testing.T) (file string, objects int) {
	w := newWorld(t, NewDisk(1, false), rand.New(rand.NewPCG(1, 1)))
	defer mount(t, w.disk, w.dir)()
	p, err := w.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	c, err := p.ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("object-", i)},
			"data": map[string]any{"value": strings.Repeat("x", 50_000)}}
		if code, err := c.do(t.Context(), http.MethodPost, "/api/v1/namespaces/default/configmaps", body, &wire{}); err != nil || code != http.StatusCreated {
			t.Fatal(code, err)
		}
	}
	file = filepath.Join(t.TempDir(), "snapshot")
	if out, err := exec.Command(binary, "snapshot", "save", file, "--kubeconfig", p.config).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file, 60
}

// TestPowerCutDuringRestore checks that a restore during which the power is cut has restored
// everything or nothing, and everything once it has succeeded.
func TestPowerCutDuringRestore(t *testing.T) {
	n, _, random := settings(t)
	file, objects := saved(t)
	count := map[string]int{}
	for range 3 * n {
		w := newWorld(t, NewDisk(random.Uint64(), false), random)
		unmount := mount(t, w.disk, w.dir)
		w.disk.CutAfter(random.IntN(250))
		done, out := run(t, w.disk, "snapshot", "restore", file, "--data-dir", filepath.Join(w.dir, "data"))
		if !done && !w.off() {
			t.Fatalf("restore fails on a disk with power: %s", out)
		}
		w.disk.Cut()
		unmount()
		w.disk.Restart(ByChance)
		found, err := w.look(t)
		switch {
		case err != nil && !done && strings.Contains(err.Error(), "an incomplete restore"):
			count["refused"]++
		case err != nil:
			t.Fatalf("after a restore (done %v): %v", done, err)
		case found == objects && done:
			count["done"]++
		case found == objects:
			count["done without an answer"]++
		case found == 0 && !done:
			count["nothing"]++
		default:
			t.Fatalf("after a restore (done %v) there are %d objects of %d", done, found, objects)
		}
	}
	t.Log(count)
}

// look starts a server, and counts the objects.
func (w *world) look(t *testing.T) (objects int, err error) {
	defer mount(t, w.disk, w.dir)()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := w.launch(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		p.kill()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, &p.out)
		}
	}()
	c, err := p.ready(ctx)
	if err != nil {
		return 0, err
	}
	var list struct{ Items []wire }
	if _, err := c.do(ctx, http.MethodGet, "/api/v1/namespaces/default/configmaps", nil, &list); err != nil {
		return 0, err
	}
	for _, o := range list.Items {
		if strings.HasPrefix(o.Metadata.Name, "object-") {
			objects++
		}
	}
	return objects, nil
}

// TestPowerCutDuringSave checks that a saved snapshot exists and is complete; before that, the
// older one of its name remains.
func TestPowerCutDuringSave(t *testing.T) {
	n, _, random := settings(t)
	file, _ := saved(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "data")
	if out, err := exec.Command(binary, "snapshot", "restore", file, "--data-dir", source, "--bump-revision", "0").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	count := map[string]int{}
	for range 3 * n {
		d, dir := NewDisk(random.Uint64(), false), t.TempDir()
		unmount := mount(t, d, dir)
		older := random.IntN(2) == 0
		target := filepath.Join(dir, "snapshot")
		if older {
			if done, out := run(t, d, "snapshot", "save", target, "--data-dir", source); !done {
				t.Fatal(out)
			}
		}
		d.CutAfter(random.IntN(200))
		done, out := run(t, d, "snapshot", "save", target, "--data-dir", source)
		if d.Cut(); !done && !strings.Contains(out, "input/output error") && out != "" {
			t.Fatalf("save fails: %s", out)
		}
		unmount()
		d.Restart(ByChance)
		data, there := d.ReadFile("snapshot")
		switch {
		case !there && !older && !done:
			count["none"]++
		case !there:
			t.Fatalf("the snapshot is gone (older %v, done %v)", older, done)
		default:
			copied := filepath.Join(t.TempDir(), "snapshot")
			err := os.WriteFile(copied, data, 0o600)
			text, inspected := exec.Command(binary, "snapshot", "inspect", copied).CombinedOutput()
			if err = errors.Join(err, inspected); err != nil || len(data) < len(whole)/2 {
				t.Fatalf("the snapshot (older %v, done %v) has %d bytes: %v\n%s", older, done, len(data), err, text)
			}
			count[fmt.Sprintf("whole (older %v, done %v)", older, done)]++
		}
	}
	t.Log(count)
}
