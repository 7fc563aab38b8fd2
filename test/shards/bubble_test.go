package shards_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager/shards"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) {
	runMember()
	goleak.VerifyTestMain(m)
}

var errCut = errors.New("the network is cut")

// A network is the connection of a member.
type network struct {
	mu   sync.Mutex
	r    *rand.Rand
	cut  bool          // requests and responses are lost
	stop chan struct{} // requests and responses wait until it is closed; nil: they do not
	next http.RoundTripper
}

func (n *network) set(cut bool, stop chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil {
		close(n.stop)
	}
	n.cut, n.stop = cut, stop
}

// pass lets a request or a response pass, after a delay.
func (n *network) pass(ctx context.Context) error {
	n.mu.Lock()
	cut, stop, delay := n.cut, n.stop, time.Duration(n.r.IntN(8))*time.Millisecond
	n.mu.Unlock()
	if stop != nil {
		<-stop // a suspended process does not notice the end of its contexts either
	}
	if cut {
		pause(ctx, 50*time.Millisecond)
		return errCut
	}
	time.Sleep(delay)
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	if err := n.pass(ctx); err != nil {
		return nil, err
	}
	// What has been sent arrives, also if the member does not wait for it any more.
	r = r.Clone(context.WithoutCancel(ctx))
	if body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := n.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	if err := errors.Join(err, n.pass(ctx), ctx.Err()); err != nil {
		return nil, err
	}
	return resp, nil
}

// WrappedRoundTripper returns the inner transport.
func (n *network) WrappedRoundTripper() http.RoundTripper { return n.next }

// TestMembersInVirtualTime lets members come, go, be cut off, suspended and killed at random times.
// In the end, when all is well again, each key must be held within a few seconds.
func TestMembersInVirtualTime(t *testing.T) {
	first := seeds.Of(t)
	for i := range uint64(4) {
		seed := first + i
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { members(t, env, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func members(t *testing.T, env *kapoktest.Env, r *rand.Rand) {
	for i := range keys {
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key(i)}})
	}
	var list corev1.ConfigMapList
	if err := env.Client().List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	type process struct {
		network *network
		end     context.CancelFunc
		ended   chan struct{}
	}
	n := 0
	start := func() *process {
		n++
		p := &process{network: &network{r: rand.New(rand.NewPCG(r.Uint64(), 0))}, ended: make(chan struct{})}
		cfg := env.Config()
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { p.network.next = next; return p.network })
		// Both clients of a member have this network.
		name, rests := fmt.Sprint("p", n), rand.New(rand.NewPCG(r.Uint64(), 0))
		var mu sync.Mutex
		rest := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rests.IntN(300)) * time.Millisecond
		}
		var ctx context.Context
		ctx, p.end = context.WithCancel(t.Context())
		go func() {
			defer close(p.ended)
			if err := shards.Run(ctx, cfg, options(name), work(name, rest)); err != nil {
				t.Error(err)
			}
		}()
		return p
	}
	running := []*process{start(), start(), start()}
	for range 40 {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		p := running[r.IntN(len(running))]
		switch r.IntN(8) {
		case 0, 1:
			p.network.set(true, nil)
		case 2, 3:
			p.network.set(false, make(chan struct{}))
		case 4, 5:
			p.network.set(false, nil)
		case 6: // a graceful end, or a kill where the network is cut
			p.end()
			if r.IntN(2) == 0 {
				p.network.set(true, nil)
			} else {
				p.network.set(false, nil)
			}
			<-p.ended
			for i := range running {
				if running[i] == p {
					running[i] = start()
				}
			}
		case 7:
			if len(running) < 5 {
				running = append(running, start())
			}
		}
	}
	for _, p := range running {
		p.network.set(false, nil)
	}
	time.Sleep(10 * time.Second)
	l := judge(t, env.Client(), list.ResourceVersion)
	if l.moved < keys {
		t.Errorf("only %d holds of another member than the one before", l.moved)
	}
	before := map[string]int{}
	for k, n := range l.begun {
		before[k] = n
	}
	time.Sleep(3 * time.Second)
	l = judge(t, env.Client(), list.ResourceVersion)
	for i := range keys {
		if l.begun[key(i)] == before[key(i)] {
			t.Errorf("%s is not held any more", key(i))
		}
	}
	for _, p := range running {
		p.end()
		<-p.ended
	}
}

func options(name string) shards.Options {
	return shards.Options{
		Namespace: namespace, Name: group, Identity: name,
		LeaseDuration: 1500 * time.Millisecond, RenewDeadline: time.Second, RetryPeriod: 300 * time.Millisecond,
	}
}
