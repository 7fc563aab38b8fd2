package kapoktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// WaitFor waits until a condition is true for the object with the name of obj, which need not exist
// yet. It evaluates the condition for each state of the object, with obj set to that state. If ctx
// ends first, the test ends with a failure that shows the history of the object since the Env
// started.
//
// If ctx has no deadline, like the context of the test, the wait is limited to one minute; in a
// bubble that is a minute of virtual time. Every wait ends before the time limit of the test
// binary, and when a function of [Env.Go] fails.
func (e *Env) WaitFor(ctx context.Context, obj client.Object, condition func() bool) {
	e.t.Helper()
	e.wait(ctx, "wait for", obj, func(there bool) bool { return there && condition() })
}

// WaitGone waits until an object does not exist.
func (e *Env) WaitGone(ctx context.Context, obj client.Object) {
	e.t.Helper()
	e.wait(ctx, "wait for the deletion of", obj, func(there bool) bool { return !there })
}

func (e *Env) wait(ctx context.Context, what string, obj client.Object, done func(there bool) bool) {
	e.t.Helper()
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	err := e.follow(ctx, obj, done)
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		err = fmt.Errorf("the condition was never true: %w", context.Cause(ctx))
	}
	e.t.Fatalf("%s %s: %v\n%s%s", what, e.describe(obj), err, e.History(obj), e.refusals())
}

// longest is the limit of a wait whose context has no deadline.
const longest = time.Minute

// bounded returns the context of a wait, which always ends.
func (e *Env) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, why := time.Duration(math.MaxInt64), errors.New("the timeout of the test binary is almost reached")
	if end, ok := deadline(e.t); ok {
		limit = time.Until(end) * 9 / 10 // leave time to report the failure
	}
	if _, ok := ctx.Deadline(); !ok && longest < limit {
		limit, why = longest, fmt.Errorf("gave up after %v, the limit for a context without a deadline", longest)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, why)
	ctx, abandon := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.sound, func() { abandon(context.Cause(e.sound)) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// deadline returns when the test binary is killed, if that is known. It cannot be used in a bubble,
// which has another clock.
func deadline(t testing.TB) (end time.Time, ok bool) {
	defer func() {
		if recover() != nil { // in a bubble
			ok = false
		}
	}()
	if t, has := t.(interface{ Deadline() (time.Time, bool) }); has {
		return t.Deadline()
	}
	return time.Time{}, false
}

// follow sets obj to each of its states, from the current one on, until done returns true. If the
// server has dropped history, states are missing.
func (e *Env) follow(ctx context.Context, obj client.Object, done func(there bool) bool) error {
	objects, name, err := e.resource(obj)
	if err != nil {
		return err
	}
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	for {
		ended, err := e.followFrom(ctx, objects, options, obj, done)
		if ended || err != nil && !apierrors.IsResourceExpired(err) {
			return err
		}
	}
}

// followFrom lists and watches until done returns true, or a request fails.
func (e *Env) followFrom(ctx context.Context, objects dynamic.ResourceInterface, options metav1.ListOptions, obj client.Object, done func(there bool) bool) (ended bool, err error) {
	list, err := objects.List(ctx, options)
	if err != nil {
		return false, err
	}
	if len(list.Items) == 0 {
		if done(false) {
			return true, nil
		}
	} else if err := assign(obj, &list.Items[0]); err != nil || done(true) {
		return true, err
	}
	options.ResourceVersion = list.GetResourceVersion()
	for ctx.Err() == nil {
		w, err := objects.Watch(ctx, options)
		if err != nil {
			return false, err
		}
		if ended, err := followWatch(w, &options, obj, done); ended || err != nil {
			return ended, err
		}
	}
	return false, ctx.Err()
}

// followWatch is followFrom for one watch. It sets the resourceVersion of options for the next
// watch.
func followWatch(w watch.Interface, options *metav1.ListOptions, obj client.Object, done func(there bool) bool) (ended bool, err error) {
	defer w.Stop() // also if done ends the test
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return false, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
		}
		options.ResourceVersion = u.GetResourceVersion()
		if err := assign(obj, u); err != nil || done(event.Type != watch.Deleted) {
			return true, err
		}
	}
	return false, nil
}

// resource returns a client for the resource of an object of any Go type, and the name of the
// object.
func (e *Env) resource(obj client.Object) (dynamic.ResourceInterface, string, error) {
	if err := e.place(obj); err != nil {
		return nil, "", err
	}
	gvk, err := client.GVKForObject(obj, e.scheme)
	if err != nil {
		return nil, "", err
	}
	mapping, err := e.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, "", err
	}
	if obj.GetName() == "" {
		return nil, "", errors.New("the object has no name")
	}
	c, err := dynamic.NewForConfig(e.own())
	if err != nil {
		return nil, "", err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.Resource(mapping.Resource).Namespace(obj.GetNamespace()), obj.GetName(), nil
	}
	return c.Resource(mapping.Resource), obj.GetName(), nil
}

// assign sets obj to the state of an object, and clears all other fields.
func assign(obj client.Object, u *unstructured.Unstructured) error {
	if into, ok := obj.(*unstructured.Unstructured); ok {
		into.Object = runtime.DeepCopyJSON(u.Object)
		return nil
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	reflect.ValueOf(obj).Elem().SetZero()
	return json.Unmarshal(data, obj)
}

// someStates is the number of states that a history shows of its beginning and of its end.
const someStates = 50

// History returns the successive states of an object since the Env started, as diffs of YAML.
// Managed fields are omitted. If there are more than a hundred states, only the first fifty and the
// last fifty are shown. If the server has dropped the history, as after a restart, it returns the
// current state.
func (e *Env) History(obj client.Object) string {
	states, err := e.states(obj, e.began)
	var out strings.Builder
	if apierrors.IsResourceExpired(err) {
		out.WriteString("the server has dropped the earlier history\n")
		states, err = e.states(obj, "0")
	}
	switch {
	case err != nil:
		return fmt.Sprintf("the history cannot be read: %v\n", err)
	case len(states) == 0 && out.Len() == 0:
		return "the object has never existed\n"
	case len(states) == 0:
		return out.String() + "the object does not exist\n"
	}
	before := []string{}
	for n, s := range states {
		if last := len(states) - someStates; n >= someStates && n < last {
			if n == someStates {
				fmt.Fprintf(&out, "--- %d more states\n", last-n)
			}
			before = s.lines
			continue
		}
		fmt.Fprintf(&out, "--- %s at resourceVersion %s\n", strings.ToLower(string(s.Type)), s.revision)
		if s.Type == watch.Deleted {
			before = []string{}
			continue
		}
		out.WriteString(lineDiff(before, s.lines))
		before = s.lines
	}
	return out.String()
}

// A state of an object.
type state struct {
	Type     watch.EventType
	revision string
	lines    []string
}

// states reads the history of an object from a resourceVersion until now; "0" means only the
// current state.
func (e *Env) states(obj client.Object, from string) (all []state, err error) {
	// The context of the test, or that of a wait, may have ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), patience)
	defer cancel()
	objects, name, err := e.resource(obj)
	if err != nil {
		return nil, err
	}
	now, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	w, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), TimeoutSeconds: new(int64(1))})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case !ok || event.Type == watch.Error:
			return all, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
		case event.Type == watch.Bookmark:
			return all, nil
		}
		revision := u.GetResourceVersion()
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, err
		}
		all = append(all, state{Type: event.Type, revision: revision, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")})
		if revision == now.GetResourceVersion() {
			return all, nil
		}
	}
	return all, nil
}
