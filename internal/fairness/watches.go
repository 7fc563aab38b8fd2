package fairness

import (
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watches counts open watches by scope and by user.
type watches struct {
	most int // limit for one user; negative: no limit

	mu     sync.Mutex
	all    int
	of     map[watched]int
	byUser map[string]int
}

// watched is the scope of a watch: all objects of a resource, those in a namespace, or one object.
type watched struct{ group, resource, namespace, name string }

// Watch counts a watch until forget is called. It returns a 429 error if the user has reached the
// limit, which does not apply to members of system:masters.
func (l *Limiter) Watch(a *authz.Attributes) (forget func(), err error) {
	return l.watches.add(a)
}

func (w *watches) add(a *authz.Attributes) (forget func(), err error) {
	key, user := watched{a.APIGroup, a.Resource, a.Namespace, a.Name}, a.User.Name
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.byUser[user]; w.most >= 0 && n >= w.most && !a.User.In(authn.Masters) {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("user %q has %d watches open, the maximum for one user: end some of them first", user, n), 10)
	}
	if w.of == nil {
		w.of, w.byUser = map[watched]int{}, map[string]int{}
	}
	w.all++
	w.of[key]++
	w.byUser[user]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all--
		drop(w.of, key)
		drop(w.byUser, user)
	}, nil
}

func drop[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// interested returns the number of watches that may receive the event of a write.
func (w *watches) interested(a *authz.Attributes) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all < watchesPerSeat {
		return w.all // below watchesPerSeat the exact number makes no difference
	}
	key := watched{group: a.APIGroup, resource: a.Resource}
	n := w.of[key]
	if key.namespace = a.Namespace; key.namespace != "" {
		n += w.of[key]
	}
	if key.name = a.Name; key.name != "" {
		n += w.of[key]
	}
	return n
}
