package policy

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A checker checks the types in validating policies' expressions and writes the warnings to their
// status, as a controller of kube-controller-manager does. It checks each generation of a policy
// once.
type checker struct {
	*Policies
	log *slog.Logger
}

// CheckTypes starts a goroutine that checks the types of policies, including existing ones. The
// returned function ends it and waits for it.
func (p *Policies) CheckTypes(log *slog.Logger) (end func()) {
	c := &checker{p, log}
	ctx, stop := context.WithCancel(context.Background())
	feed := p.store.State().Feed(func(e *state.Event) bool {
		return e.Object != nil && e.Object.Key.Resource == p.validating.policies
	})
	var running sync.WaitGroup
	running.Go(func() {
		defer feed.Close()
		c.follow(ctx, feed)
	})
	return func() {
		stop()
		running.Wait()
	}
}

// follow checks policies as they change. It retries a failed write of the status after a pause.
func (c *checker) follow(ctx context.Context, feed *state.Feed) {
	due := map[string]bool{}
	for o := range c.store.State().Snapshot(c.validating.policies).All("") {
		due[o.Key.Name] = true
	}
	for {
		events, more := feed.Take()
		for i := range events {
			due[events[i].Object.Key.Name] = true
		}
		for name := range due {
			if err := c.check(ctx, name); err != nil && ctx.Err() == nil {
				c.log.Warn("type check of a policy", "policy", name, "error", err)
				continue
			}
			delete(due, name)
		}
		if len(events) > 0 {
			continue
		}
		var again <-chan time.Time
		if len(due) > 0 {
			again = time.After(pauseAfterFailure)
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		case <-again:
		}
	}
}

const pauseAfterFailure = time.Second

// check writes the status of a policy whose generation has not been checked.
func (c *checker) check(ctx context.Context, name string) error {
	set := c.store.Registry().Load()
	d := set.Resource(c.validating.policies)
	o, _ := c.store.State().Get(object.Key{Resource: c.validating.policies, Name: name})
	if o == nil || d == nil {
		return nil
	}
	obj, err := tree(d, o)
	if err != nil {
		return err
	}
	policy, err := typed[admissionv1.ValidatingAdmissionPolicy](obj)
	if err != nil || policy.Generation <= policy.Status.ObservedGeneration {
		return err
	}
	warnings, err := typeWarnings(ctx, set, &policy.Spec)
	if err != nil {
		return err
	}
	configuration, err := json.Marshal(map[string]any{
		"apiVersion": admissionv1.SchemeGroupVersion.String(),
		"kind":       "ValidatingAdmissionPolicy",
		"metadata":   map[string]any{"name": name},
		"status": map[string]any{
			"observedGeneration": policy.Generation,
			"typeChecking":       admissionv1.TypeChecking{ExpressionWarnings: warnings},
		},
	})
	if err != nil {
		return err
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage, Name: name, Subresource: "status", Manager: "validatingadmissionpolicy-status",
		FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
	_, err = c.store.Patch(ctx, r, resource.Patch{Type: types.ApplyPatchType, Data: configuration, Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
