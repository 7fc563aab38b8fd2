package provider_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/examples/internal/exampletest"
	"github.com/kapok-dev/kapok/examples/network/provider"
	"github.com/kapok-dev/kapok/examples/network/provider/memory"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron"
	"github.com/kapok-dev/kapok/examples/network/provider/neutron/neutrontest"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/types"
)

// Whatever is wanted, one after the other, and whichever requests fail on the way, before or after
// they have had their effect: who compares and does what is missing, as the controller does, comes
// to what is wanted as soon as nothing fails any more. What belongs to others stays as it is.
func TestConvergence(t *testing.T) {
	seed := seeds.Of(t)
	for name, start := range map[string]func(*testing.T, *rand.Rand) world{"memory": startMemory, "neutron": startNeutron} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := start(t, random)
			for range 300 {
				key := types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("n%d", random.IntN(3))}
				wanted, exists := randomSpec(random), random.IntN(4) > 0
				w.fail(true)
				for range random.IntN(4) {
					_ = converge(t.Context(), w, key, wanted, exists)
				}
				w.fail(false)
				if err := converge(t.Context(), w, key, wanted, exists); err != nil {
					t.Fatalf("%s shall be %s, %t: %v", key, wanted, exists, err)
				}
				actual, err := w.Get(t.Context(), key)
				switch {
				case exists && (err != nil || actual.Spec != wanted || actual.ID == ""):
					t.Fatalf("%s is %+v, %v, want %s", key, actual, err, wanted)
				case !exists && !errors.Is(err, provider.ErrNotFound):
					t.Fatalf("%s is %+v, %v, want none", key, actual, err)
				}
				w.check(t)
			}
		})
	}
}

// converge does one reconciliation of the controller for a Network that exists or not.
func converge(ctx context.Context, p provider.Provider, key types.NamespacedName, wanted provider.Spec, exists bool) error {
	if !exists {
		return p.Delete(ctx, key)
	}
	actual, err := p.Get(ctx, key)
	change, err := provider.Diff(wanted, actual, err)
	switch change {
	case provider.Create:
		_, err = p.Create(ctx, key, wanted)
	case provider.Update:
		_, err = p.Update(ctx, key, wanted)
	}
	return err
}

func randomSpec(random *rand.Rand) provider.Spec {
	specs := [][2]string{{"10.0.0.0/8", "10.0.0.1"}, {"10.0.0.0/8", "10.255.255.254"}, {"10.1.0.0/16", "10.1.0.1"}, {"10.0.0.0/30", "10.0.0.2"},
		{"192.168.0.0/31", "192.168.0.1"}, {"fd00::/64", "fd00::1"}, {"fd00::/64", "fd00::ffff"}, {"fd00::/48", "fd00::1"}}
	s := specs[random.IntN(len(specs))]
	spec, err := provider.ParseSpec(s[0], s[1])
	if err != nil {
		panic(err)
	}
	return spec
}

// A world is a provider and what is behind it.
type world struct {
	provider.Provider
	fail  func(bool)         // has requests fail at random, or not
	check func(t *testing.T) // what must always be true
}

func startMemory(*testing.T, *rand.Rand) world {
	return world{memory.New(&exampletest.Log{}), func(bool) {}, func(*testing.T) {}}
}

func startNeutron(t *testing.T, random *rand.Rand) world {
	cloud := neutrontest.New()
	cloud.PageSize = 2
	p, err := neutron.New(t.Context(), neutron.Options{Auth: neutrontest.Auth("http://cloud"), HTTPClient: cloud.Client()})
	if err != nil {
		t.Fatal(err)
	}
	foreign := cloud.AddNetwork("a network of another owner", "")
	fail := func(on bool) {
		if !on {
			cloud.Fail(nil)
			cloud.Lose(nil)
			return
		}
		if random.IntN(4) == 0 {
			cloud.ExpireTokens()
		}
		cloud.Fail(func(string, string) (int, string) {
			if random.IntN(4) == 0 {
				return 500, "out of order"
			}
			return 0, ""
		})
		cloud.Lose(func(string, string) bool { return random.IntN(4) == 0 })
	}
	check := func(t *testing.T) {
		names := map[string]int{}
		for _, n := range cloud.Networks() {
			names[n.Name]++
			if n.ID == foreign {
				continue
			}
			if names[n.Name] > 1 {
				t.Fatalf("twice: %+v", cloud.Networks())
			}
		}
		if names["a network of another owner"] != 1 {
			t.Fatalf("the network of another owner is gone: %+v", cloud.Networks())
		}
	}
	return world{p, fail, check}
}
