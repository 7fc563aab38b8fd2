package replicas

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
)

// TestStartTogether checks that servers that start on an empty etcd at the same time agree on the
// initial objects, and on the authority: the kubeconfig of each is valid for all of them.
func TestStartTogether(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	servers := make([]*server, 3)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() { servers[i] = c.startServer(t) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	uids := map[string]bool{}
	for i, from := range servers {
		for j, to := range servers {
			config := from.config(t)
			config.Host = "https://" + to.kapok.Address()
			got := newAPI(t, config).do(t, "GET", "/api/v1/namespaces/kube-system", "")
			if uids[got.Metadata.UID] = true; got.status != 200 {
				t.Errorf("kubeconfig of server %d at %d: %v", i, j, got)
			}
		}
	}
	if len(uids) != 1 {
		t.Errorf("namespace kube-system has the uids %v", uids)
	}
	// Without one all requests are rejected.
	config := servers[0].config(t)
	config.BearerToken, config.CertData, config.KeyData = "", nil, nil
	if got := newAPI(t, config).do(t, "GET", "/api/v1/namespaces/kube-system", ""); got.status != 401 && got.status != 403 {
		t.Errorf("without credentials: %v", got)
	}
	// Exactly one of them leads.
	leader := ""
	for _, s := range servers {
		if name := s.holder(t); leader != "" && name != leader {
			t.Errorf("%s and %s lead", leader, name)
		} else {
			leader = name
		}
	}
}

// TestPrefixes checks that servers with another prefix have other data, even if one prefix begins
// with the other.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	prefixed := func(prefix string) *server {
		return c.startServer(t, func(o *kapok.Options) { o.Etcd.Prefix = prefix })
	}
	a, also, b := prefixed("/registry"), prefixed("registry/"), prefixed("/registry2")
	a.must(t, 201, "POST", configMaps, configMap("a", "x"))
	b.must(t, 201, "POST", configMaps, configMap("b", "x"))
	for s, want := range map[*server]string{a: "a", also: "a", b: "b"} {
		items := s.must(t, 200, "GET", configMaps, "").items
		if len(items) != 1 || items[0].Metadata.Name != want {
			t.Errorf("%s: %v", s.options.Etcd.Prefix, items)
		}
	}
	etcd := c.client(t)
	for _, key := range []string{"/registry/configmaps/default/a", "/registry2/configmaps/default/b"} {
		if !strings.HasPrefix(stored(t, etcd, key), "{") {
			t.Errorf("%s is missing", key)
		}
	}
}

// TestStartWithoutEtcd checks that a server that cannot reach etcd returns an error, after a
// limited time.
func TestStartWithoutEtcd(t *testing.T) {
	t.Parallel()
	l := newLine(t, "")
	for name, lose := range map[string]func(){"cut": l.cut, "silent": l.freeze} {
		lose()
		begin := time.Now()
		k, err := kapok.Start(t.Context(), kapok.Options{Store: "etcd://" + l.address()})
		if err == nil {
			k.Stop()
			t.Fatalf("%s: started", name)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: it took %v to say that there is no etcd", name, took)
		}
		if !strings.Contains(fmt.Sprint(err), l.address()) {
			t.Errorf("%s: %v does not name the etcd", name, err)
		}
	}
}
