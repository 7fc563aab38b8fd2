package accounts

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a Keeper on a store that tests write to.
type rig struct {
	*testing.T
	*Keeper
	log bytes.Buffer
}

// inBubble runs a test with a Keeper that is idle.
func inBubble(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		defer j.Close()
		st, err := state.Open(t.Context(), j, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))
		if err := bootstrap.EnsureNamespaces(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := serviceaccount.NewKeys(key)
		if err != nil {
			t.Fatal(err)
		}
		issuer, err := serviceaccount.New(serviceaccount.Config{Keys: keys, State: st})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t}
		r.Keeper = Start(t.Context(), store, Options{Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Issuer: issuer, Authority: []byte("trust me")})
		defer r.Close()
		synctest.Wait()
		test(r)
	})
}

func (r *rig) about(gr schema.GroupResource, name string) *resource.Request {
	r.Helper()
	request, err := r.request(gr, "default", name)
	if err != nil {
		r.Fatal(err)
	}
	return request
}

func (r *rig) create(gr schema.GroupResource, obj string) {
	r.Helper()
	if _, err := r.store.Create(context.Background(), r.about(gr, ""), resource.Body{Data: []byte(obj)}); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) edit(gr schema.GroupResource, name string, edit func(resource.Tree)) {
	r.Helper()
	_, err := r.store.Edit(context.Background(), r.about(gr, name), func(live resource.Tree) error {
		edit(live)
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) delete(gr schema.GroupResource, name string) {
	r.Helper()
	if _, err := r.store.Delete(context.Background(), r.about(gr, name), &metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// get returns an object, nil if it does not exist.
func (r *rig) get(gr schema.GroupResource, name string) resource.Tree {
	r.Helper()
	o, _ := r.state.Get(object.Key{Resource: gr, Namespace: "default", Name: name})
	if o == nil {
		return nil
	}
	tree, err := o.Tree()
	if err != nil {
		r.Fatal(err)
	}
	return tree
}

// TestWritesOnce checks that correct objects are not written again, even by another Keeper.
func TestWritesOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.create(accounts, `{"metadata":{"name":"robot"}}`)
		r.create(secrets, `{"metadata":{"name":"s","annotations":{"kubernetes.io/service-account.name":"robot"}},"type":"kubernetes.io/service-account-token"}`)
		before := r.state.Revision()
		again := Start(r.Context(), r.store, r.Options)
		synctest.Wait()
		again.Close()
		r.edit(accounts, defaultAccount, func(obj resource.Tree) { obj["automountServiceAccountToken"] = false })
		r.edit(configMaps, rootAuthority, func(obj resource.Tree) { obj["metadata"].(resource.Tree)["labels"] = resource.Tree{"a": "b"} })
		if after := r.state.Revision(); after != before+2 {
			r.Errorf("%d revisions after 2 writes", after-before)
		}
	})
}

// TestTriesAgain checks that failures are retried with growing pauses.
func TestTriesAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.edit(configMaps, rootAuthority, func(obj resource.Tree) { obj["immutable"] = true })
		r.delete(configMaps, rootAuthority)
		if r.get(configMaps, rootAuthority) == nil {
			r.Fatal("the config map was not created again")
		}
		// The test creates the config map first, as an immutable one.
		r.stop()
		r.done.Wait()
		r.delete(configMaps, rootAuthority)
		r.create(configMaps, `{"metadata":{"name":"kube-root-ca.crt"},"immutable":true,"data":{"a":"b"}}`)
		r.log.Reset()
		again := Start(r.Context(), r.store, r.Options)
		defer again.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := strings.Count(r.log.String(), "cannot update"); n < 60 || n > 90 {
			r.Errorf("tried %d times in an hour:\n%s", n, r.log.String())
		}
		r.delete(configMaps, rootAuthority)
		time.Sleep(time.Minute)
		synctest.Wait()
		data, _ := json.Marshal(r.get(configMaps, rootAuthority)["data"])
		if string(data) != `{"ca.crt":"trust me"}` {
			r.Errorf("got %s", data)
		}
		r.log.Reset()
		time.Sleep(time.Hour)
		if r.log.Len() > 0 {
			r.Errorf("says %s", r.log.String())
		}
	})
}

func TestSecrets(t *testing.T) {
	for _, tc := range []struct{ name, metadata, kind, want string }{
		{"filled", `"annotations":{"kubernetes.io/service-account.name":"robot"}`, "kubernetes.io/service-account-token", "ca.crt namespace token"},
		{"of a missing account", `"annotations":{"kubernetes.io/service-account.name":"nobody"}`, "kubernetes.io/service-account-token", "gone"},
		{"of another of that name", `"annotations":{"kubernetes.io/service-account.name":"robot","kubernetes.io/service-account.uid":"x"}`,
			"kubernetes.io/service-account-token", "gone"},
		{"of another type", `"annotations":{"kubernetes.io/service-account.name":"nobody","a":"kubernetes.io/service-account-token"}`, "Opaque", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.create(accounts, `{"metadata":{"name":"robot"}}`)
				r.create(secrets, fmt.Sprintf(`{"metadata":{"name":"s",%s},"type":%q}`, tc.metadata, tc.kind))
				got := "gone"
				if secret := r.get(secrets, "s"); secret != nil {
					var keys []string
					for _, key := range []string{"ca.crt", "namespace", "token"} {
						if len(datum(secret, key)) > 0 {
							keys = append(keys, key)
						}
					}
					got = strings.Join(keys, " ")
				}
				if got != tc.want {
					r.Errorf("got %q, want %q", got, tc.want)
				}
			})
		})
	}
}
