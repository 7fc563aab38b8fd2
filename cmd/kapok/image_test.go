package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	processnode "github.com/kapok-dev/kapok/node/process"
)

// TestImage sets, lists and removes mappings of images on a server with a node of processes.
func TestImage(t *testing.T) {
	if (processnode.Options{Dir: "/x"}).Validate() != nil {
		t.Skip("no processes on this system")
	}
	data := t.TempDir()
	image := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"image"}, append(args, "--kubeconfig", filepath.Join(data, "kubeconfig"))...)
		if code := run(args, &out, &errs); code != want {
			t.Fatalf("%v: code %d, want %d: %s", args, code, want, &errs)
		}
		return out.String() + errs.String()
	}
	node := &processnode.Node{Options: processnode.Options{Name: "machine", Dir: t.TempDir(), Tether: true}}
	server, err := kapok.Start(t.Context(), kapok.Options{Kubeconfig: filepath.Join(data, "kubeconfig"), Listen: "127.0.0.1:0", Controllers: node})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	list := []string{"image", "list", "--kubeconfig", filepath.Join(data, "kubeconfig")}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var out, errs bytes.Buffer
		if run(list, &out, &errs) == 0 { // the node has defined the kind
			break
		}
		if !strings.Contains(errs.String(), "start it with kapok up --node process") || time.Now().After(limit) {
			t.Fatalf("before the kind is defined: %s", &errs)
		}
	}
	if got := image(0, "set", "nginx=./bin/nginx", "ghcr.io/acme/web:1=go://./cmd/web"); got != "image nginx is mapped to ./bin/nginx\nimage ghcr.io/acme/web:1 is mapped to go://./cmd/web\n" {
		t.Errorf("set: %s", got)
	}
	image(0, "set", "nginx=/bin/other")
	lines := strings.Split(image(0, "list"), "\n")
	want := []string{"IMAGE PROGRAM OBJECT", "ghcr.io/acme/web:1 go://./cmd/web ghcr-io-acme-web-1-", "nginx /bin/other nginx", ""}
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); i >= len(want) || !strings.HasPrefix(got, want[i]) {
			t.Errorf("line %d of the list is %q, want %q", i, got, want)
		}
	}
	if got := image(1, "unset", "nginx", "absent"); !strings.Contains(got, `image "absent" is not mapped`) {
		t.Errorf("unset of an absent image: %s", got)
	}
	image(0, "unset", "nginx", "ghcr.io/acme/web:1")
	if got := image(0, "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("after unset: %s", got)
	}

	yaml := image(0, "set", "nginx=./bin/nginx", "*=/stub", "--dry-run")
	for _, part := range []string{"apiVersion: node.kapok.dev/v1alpha1\nkind: ImageMapping\nmetadata:\n  name: nginx\nspec:\n  image: nginx\n  program: ./bin/nginx\n---\n", "image: '*'"} {
		if !strings.Contains(yaml, part) {
			t.Errorf("--dry-run prints\n%s", yaml)
		}
	}
	for _, args := range [][]string{{"set"}, {"set", "nginx"}, {"set", "nginx=http://x"}, {"set", "a b=/x"}, {"unset"}} {
		image(2, args...)
	}
}
