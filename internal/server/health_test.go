package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
)

// checksOf requests a health path as an admin.
func checksOf(t *testing.T, s *Server, path string) (code int, lines []string) {
	t.Helper()
	client, err := http.NewRequestWithContext(t.Context(), "GET", "http://kapok"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Config().Transport.RoundTrip(client)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.Split(strings.TrimSpace(string(body)), "\n")
}

// TestHealthChecksOfKubernetes checks that the health checks that Kubernetes' e2e tests require
// exist and pass, in kube-apiserver's order.
func TestHealthChecksOfKubernetes(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	required := []string{
		"ping", "log", "etcd",
		"poststarthook/start-apiserver-admission-initializer",
		"poststarthook/generic-apiserver-start-informers",
		"poststarthook/start-apiextensions-informers",
		"poststarthook/start-apiextensions-controllers",
		"poststarthook/crd-informer-synced",
		"poststarthook/start-system-namespaces-controller",
		"poststarthook/start-cluster-authentication-info-controller",
		"poststarthook/start-service-ip-repair-controllers",
		"poststarthook/rbac/bootstrap-roles",
		"poststarthook/scheduling/bootstrap-system-priority-classes",
		"poststarthook/bootstrap-controller",
		"poststarthook/start-kube-aggregator-informers",
		"poststarthook/apiservice-status-local-available-controller",
		"poststarthook/apiservice-status-remote-available-controller",
		"poststarthook/apiservice-registration-controller",
		"poststarthook/apiservice-discovery-controller",
		"poststarthook/kube-apiserver-autoregistration",
		"autoregister-completion",
		"poststarthook/apiservice-openapi-controller",
		"poststarthook/apiservice-openapiv3-controller",
	}
	for path, more := range map[string][]string{"healthz": nil, "livez": nil, "readyz": {"etcd-readiness", "informer-sync", "shutdown"}} {
		code, lines := checksOf(t, s, "/"+path+"?verbose=1")
		if code != 200 || lines[len(lines)-1] != path+" check passed" {
			t.Errorf("%s: %d %s", path, code, lines)
		}
		at := 0
		for _, name := range required {
			next := slices.Index(lines[at:], fmt.Sprintf("[+]%s ok", name))
			if next < 0 {
				t.Fatalf("%s does not have %s at its place: %q", path, name, lines)
			}
			at += next + 1
		}
		for _, name := range more {
			if !slices.Contains(lines, fmt.Sprintf("[+]%s ok", name)) {
				t.Errorf("%s has no %s", path, name)
			}
		}
		for _, name := range append(required, more...) {
			if code, text := checksOf(t, s, "/"+path+"/"+name); code != 200 || text[0] != "ok" {
				t.Errorf("/%s/%s: %d %s", path, name, code, text)
			}
		}
		if _, lines := checksOf(t, s, "/"+path+"?verbose&exclude=etcd&exclude=poststarthook/crd-informer-synced"); !slices.Contains(lines, "[+]etcd excluded: ok") ||
			!slices.Contains(lines, "[+]poststarthook/crd-informer-synced excluded: ok") {
			t.Errorf("%s with two checks excluded: %q", path, lines)
		}
	}
	if code, _ := checksOf(t, s, "/livez/etcd-readiness"); code != 404 {
		t.Errorf("a check of /readyz exists at /livez: %d", code)
	}
}

type health struct{ err error }

func (h *health) Health() error { return h.err }

// TestHealthChecksFail checks that the failure of a part fails its own checks, and no others.
func TestHealthChecksFail(t *testing.T) {
	o := &Options{}
	for _, missing := range o.steps() {
		p := progress{}
		for _, s := range o.steps() {
			if s != missing {
				p.done(s)
			}
		}
		for _, check := range p.checks(o, &health{}, nil) {
			if err := check.Run(nil); (err != nil) != (check.Name == string(missing)) && check.Name != "informer-sync" {
				t.Errorf("without %s, %s: %v", missing, check.Name, err)
			}
		}
	}
	for _, c := range []struct {
		err  error
		fail []string
	}{
		{journal.ErrFull, []string{"etcd-readiness"}},
		{fmt.Errorf("%w: no leader", journal.ErrUnavailable), []string{"etcd-readiness"}},
		{journal.ErrClosed, []string{"etcd", "etcd-readiness"}},
	} {
		p := progress{}
		p.done(o.steps()...)
		var fail []string
		for _, check := range p.checks(o, &health{c.err}, nil) {
			if err := check.Run(nil); err != nil {
				fail = append(fail, check.Name)
				if !errors.Is(err, c.err) {
					t.Errorf("%s: %v", check.Name, err)
				}
			}
		}
		if !slices.Equal(fail, c.fail) {
			t.Errorf("%v: %q fail, want %q", c.err, fail, c.fail)
		}
	}
}
