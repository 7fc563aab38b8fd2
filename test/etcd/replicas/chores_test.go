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

func watchFrom(revision int64) []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithRev(revision)}
}

func namespace(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
}

func dependent(name, ownerUID string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"ownerReferences":[
{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]}}`, name, ownerUID)
}

// TestLeaderDies checks that tasks that one server does for all continue when that server dies,
// even in the middle of one.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	servers := c.startServers(t, 3)
	leader, other := servers[0], servers[1]
	first := other.holder(t)
	const count = 300
	other.must(t, 201, "POST", "/api/v1/namespaces", namespace("doomed"))
	uid := other.must(t, 201, "POST", configMaps, configMap("owner", "")).Metadata.UID
	for i := range count {
		other.must(t, 201, "POST", configMaps, dependent(fmt.Sprint("d", i), uid))
		other.must(t, 201, "POST", "/api/v1/namespaces/doomed/configmaps", configMap(fmt.Sprint("c", i), ""))
	}
	other.must(t, 200, "DELETE", "/api/v1/namespaces/doomed", "")
	other.must(t, 200, "DELETE", configMaps+"/owner", "")
	leader.die()
	begin := time.Now()
	left := len(other.must(t, 200, "GET", configMaps, "").items)
	t.Logf("%d of %d dependents exist when the leader has died", left, count)

	// A second task begins while there is no leader.
	uid = other.must(t, 201, "POST", configMaps, configMap("owner", "")).Metadata.UID
	other.must(t, 201, "POST", configMaps, dependent("late", uid))
	other.must(t, 200, "DELETE", configMaps+"/owner", "")
	for _, s := range servers[1:] {
		eventually(t, 40*time.Second, "all is gone", func() bool {
			return len(s.must(t, 200, "GET", configMaps, "").items) == 0 &&
				s.do(t, "GET", "/api/v1/namespaces/doomed", "").status == 404
		})
	}
	t.Logf("all is gone after %v", time.Since(begin))
	if second := other.holder(t); second == first {
		t.Errorf("%s still leads", second)
	}
}

// TestLeaderIsPaused checks that another server leads after a while, and continues to lead when the
// first one is back.
func TestLeaderIsPaused(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 1).startServers(t, 2)
	paused, other := servers[0], servers[1]
	first := other.holder(t)
	paused.reach((*line).freeze)
	took := eventually(t, 20*time.Second, "another server leads", func() bool { return other.holder(t) != first })
	t.Logf("another server leads after %v", took)
	if took < 9*time.Second {
		t.Error("the first one may have led still")
	}
	second := other.holder(t)
	paused.reach((*line).heal)
	eventually(t, 20*time.Second, "the first one comes back", func() bool { return paused.do(t, "GET", "/readyz", "").status == 200 })
	for _, s := range servers {
		if now := s.holder(t); now != second {
			t.Errorf("%s leads, want %s", now, second)
		}
	}
	uid := paused.must(t, 201, "POST", configMaps, configMap("owner", "")).Metadata.UID
	paused.must(t, 201, "POST", configMaps, dependent("d", uid))
	paused.must(t, 200, "DELETE", configMaps+"/owner", "")
	eventually(t, 20*time.Second, "the dependent is gone", func() bool {
		return paused.do(t, "GET", configMaps+"/d", "").status == 404
	})
}

// holder returns the name of the leader.
func (a *api) holder(t *testing.T) string {
	t.Helper()
	body := a.must(t, 200, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kapok-controllers", "").body
	_, after, _ := strings.Cut(body, `"holderIdentity":"`)
	name, _, _ := strings.Cut(after, `"`)
	if name == "" {
		t.Errorf("no server leads: %s", body)
	}
	return name
}

// TestNamespaceRaces checks that a create in a namespace that another server deletes at the same
// time either is rejected, or is deleted too.
func TestNamespaceRaces(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	servers := c.startServers(t, 3)
	etcd := c.client(t)
	servers[0].establish(t, "things", 20*time.Second)
	const rounds = 20
	var created atomic.Int64
	for round := range rounds {
		name := fmt.Sprint("race", round)
		path := "/api/v1/namespaces/" + name
		servers[0].must(t, 201, "POST", "/api/v1/namespaces", namespace(name))
		var creators sync.WaitGroup
		started := make(chan struct{}, 6)
		for i, s := range servers {
			for _, kind := range []string{"configmaps", "things"} {
				creators.Go(func() {
					for n := 0; ; n++ {
						var got answer
						var err error
						object := fmt.Sprintf("o%d-%d", i, n)
						if kind == "configmaps" {
							got, err = s.try(t.Context(), "POST", path+"/configmaps", configMap(object, ""))
						} else {
							got, err = s.try(t.Context(), "POST", collection("things", name), custom("things", object))
						}
						if n == 0 {
							started <- struct{}{}
						}
						switch {
						case err != nil:
							t.Errorf("%s: %v", object, err)
							return
						case got.status == http.StatusCreated:
							created.Add(1)
						case got.status == http.StatusNotFound && strings.Contains(got.Message, "namespaces"):
							return // it is deleted
						case got.status == http.StatusForbidden && strings.Contains(got.Message, "being terminated"):
						default:
							t.Errorf("%s %s: %v", kind, object, got)
							return
						}
					}
				})
			}
		}
		for range 6 {
			<-started
		}
		servers[1+round%2].must(t, 200, "DELETE", path, "")
		creators.Wait()
		for _, key := range []string{"/registry/configmaps/", "/registry/test.example.org/things/"} {
			response, err := etcd.Get(t.Context(), key+name+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range response.Kvs {
				t.Errorf("%s exists in a deleted namespace", kv.Key)
			}
		}
	}
	t.Logf("%d objects were created", created.Load())
	if created.Load() < rounds {
		t.Error("there was no race")
	}
}
