package replicas

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func definition(plural string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"%[1]s.test.example.org"},"spec":{"group":"test.example.org","scope":"Namespaced",
"names":{"plural":"%[1]s","kind":"%[2]s"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"data":{"type":"object","additionalProperties":{"type":"string"}}}}}}]}}`,
		plural, kindOf(plural))
}

func kindOf(plural string) string { return strings.ToUpper(plural[:1]) + plural[1:] }

func custom(plural, name string) string {
	return fmt.Sprintf(`{"apiVersion":"test.example.org/v1","kind":%q,"metadata":{"name":%q},"data":{"value":"x"}}`, kindOf(plural), name)
}

func collection(plural, namespace string) string {
	return "/apis/test.example.org/v1/namespaces/" + namespace + "/" + plural
}

// establish creates a definition, waits until it is Established, and returns how long that took;
// patience is the limit.
func (a *api) establish(t *testing.T, plural string, patience time.Duration) time.Duration {
	t.Helper()
	a.must(t, 201, "POST", definitions, definition(plural))
	return eventually(t, patience, plural+" is established", func() bool {
		got := a.must(t, 200, "GET", definitions+"/"+plural+".test.example.org?resourceVersion=0", "")
		return strings.Contains(strings.ReplaceAll(got.body, " ", ""), `"status":"True","type":"Established"`)
	})
}

// TestEstablished checks that all servers serve a definition as soon as one server shows it as
// established.
func TestEstablished(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 1).startServers(t, 3)
	var total time.Duration
	const count = 50
	for i := range count {
		plural := fmt.Sprintf("kind%ds", i)
		total += servers[i%3].establish(t, plural, 20*time.Second)
		for j, s := range servers {
			if got := s.do(t, "POST", collection(plural, "default"), custom(plural, fmt.Sprint("at", j))); got.status != 201 {
				t.Errorf("%s on server %d: %v", plural, j, got)
			}
			discovery := s.must(t, 200, "GET", "/apis/test.example.org/v1", "")
			if !strings.Contains(discovery.body, `"`+plural+`"`) {
				t.Errorf("%s is not in the discovery of server %d", plural, j)
			}
		}
	}
	t.Logf("%v each until established", total/count)
}

// TestEstablishedWithoutADeadOne checks that a server that dies without a shutdown delays the
// others for a limited time, and that one that joins later serves all definitions.
func TestEstablishedWithoutADeadOne(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 1).startServers(t, 3)
	servers[0].establish(t, "befores", 20*time.Second)
	servers[2].die()
	took := servers[0].establish(t, "afters", 22*time.Second) // 20 s, and some for a slow machine
	t.Logf("established after %v", took)
	if took < 5*time.Second {
		t.Error("no server waited for one that may be running")
	}
	if err := servers[2].start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers[1:] {
		for _, plural := range []string{"befores", "afters"} {
			s.must(t, 200, "GET", collection(plural, "default"), "")
		}
	}
	// One that shuts down gracefully delays no client.
	if err := servers[1].stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := servers[0].establish(t, "quicks", 20*time.Second); took > 3*time.Second {
		t.Errorf("established after %v, although there was no server to wait for", took)
	}
}

// TestEstablishedWhileServersComeAndGo checks that a server that starts serves all established
// definitions from the beginning, and that the others wait for it from then on.
func TestEstablishedWhileServersComeAndGo(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 1).startServers(t, 3)
	var established sync.Map // set of plurals
	serves := func(s *server) {
		established.Range(func(plural, _ any) bool {
			if got := s.do(t, "GET", collection(plural.(string), "default"), ""); got.status != 200 {
				t.Errorf("%s is established and not served: %v", plural, got)
			}
			return true
		})
	}
	var restarting sync.WaitGroup
	done := make(chan struct{})
	finish := sync.OnceFunc(func() {
		close(done)
		restarting.Wait()
	})
	defer finish()
	var restarts atomic.Int64
	restarting.Go(func() {
		for ; ; restarts.Add(1) {
			select {
			case <-done:
				return
			default:
			}
			if err := servers[2].stop(t.Context()); err != nil {
				t.Error(err)
			}
			if err := servers[2].start(t.Context()); err != nil {
				t.Error(err)
				return
			}
			serves(servers[2])
		}
	})
	// Definitions can be faster than restarts: the test needs enough of both.
	for i := 0; i < 30 || restarts.Load() < 3 && !t.Failed(); i++ {
		plural := fmt.Sprintf("come%ds", i)
		servers[i%2].establish(t, plural, 20*time.Second)
		established.Store(plural, nil)
		for j, s := range servers[:2] {
			s.must(t, 201, "POST", collection(plural, "default"), custom(plural, fmt.Sprint("at", j)))
		}
	}
	finish()
	serves(servers[2])
	t.Logf("%d restarts", restarts.Load())
}

// TestDefinitionRaces checks that when a definition that was deleted through one server is gone, no
// object exists that was created through the others meanwhile.
func TestDefinitionRaces(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	servers := c.startServers(t, 3)
	etcd := c.client(t)
	var created atomic.Int64
	for round := range 10 {
		servers[round%3].establish(t, "races", 20*time.Second)
		started := make(chan struct{}, len(servers))
		var creators sync.WaitGroup
		for i, s := range servers {
			creators.Go(func() {
				for n := 0; ; n++ {
					name := fmt.Sprintf("o%d-%d", i, n)
					got, err := s.try(t.Context(), "POST", collection("races", "default"), custom("races", name))
					if n == 0 {
						started <- struct{}{}
					}
					switch {
					case err != nil:
						t.Errorf("%s: %v", name, err)
						return
					case got.status == http.StatusCreated:
						created.Add(1)
					case got.status == http.StatusNotFound:
						return // it is deleted
					case got.status != http.StatusForbidden || !strings.Contains(got.Message, "terminating"):
						t.Errorf("%s: %v", name, got)
						return
					}
				}
			})
		}
		for range servers {
			<-started
		}
		const path = definitions + "/races.test.example.org"
		servers[(round+1)%3].must(t, 200, "DELETE", path, "")
		for _, s := range servers {
			eventually(t, 20*time.Second, "the definition is gone", func() bool { return s.do(t, "GET", path, "").status == 404 })
		}
		creators.Wait()
		left, err := etcd.Get(t.Context(), "/registry/test.example.org/races/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range left.Kvs {
			t.Errorf("round %d: %s exists after its definition was deleted", round, kv.Key)
		}
	}
	t.Logf("%d objects were created", created.Load())
	if created.Load() < 10 {
		t.Error("there was no race")
	}
}
