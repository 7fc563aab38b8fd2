package fairness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The names under which Kubernetes manages fields of the objects that it makes, and of the status.
const (
	producer = "api-priority-and-fairness-config-producer-v1"
	consumer = "api-priority-and-fairness-config-consumer-v1"
)

// repairAfter is how long what Kubernetes has from its start may be gone, or different, until it is put right.
const repairAfter = time.Minute

// A maintainer keeps the objects of the configuration as they must be: it tells of FlowSchemas whether their level is
// there, and puts back what Kubernetes has from its start. It owns a goroutine.
type maintainer struct {
	limiter *Limiter
	store   *resource.Store
	feed    *state.Feed
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func (l *Limiter) maintain() *maintainer {
	ctx, cancel := context.WithCancel(context.Background())
	m := &maintainer{limiter: l, store: l.opts.Store, stop: cancel}
	m.feed = m.store.State().Feed(func(e *state.Event) bool {
		if gr := e.Last().Key.Resource; gr.Group != flowcontrolv1.GroupName || gr != flowSchemas && gr != priorityLevels {
			return false
		}
		l.changes.Add(1)
		return true
	})
	m.done.Go(func() {
		defer m.feed.Close()
		m.run(ctx)
	})
	return m
}

func (m *maintainer) close() {
	m.stop()
	m.done.Wait()
}

func (m *maintainer) run(ctx context.Context) {
	m.judge(ctx)
	var due <-chan time.Time // when what is amiss is put right
	for ctx.Err() == nil {
		events, wait := m.feed.Take()
		if len(events) > 0 {
			m.judge(ctx)
			continue
		}
		if due == nil && m.amiss() {
			timer := time.NewTimer(repairAfter)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-wait:
		case <-due:
			due = nil
			m.repair(ctx)
		case <-ctx.Done():
		}
	}
}

// failed logs an error, unless somebody else has been faster, or the server stops.
func (m *maintainer) failed(what string, key object.Key, err error) {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrClosed) {
		return
	}
	m.limiter.opts.Logger.Warn("cannot "+what, "object", key.String(), "error", err)
}

func (m *maintainer) request(key object.Key, subresource, manager string) *resource.Request {
	d := m.store.Registry().Load().Resource(key.Resource)
	return &resource.Request{
		Definition: d, Version: d.Storage, Name: key.Name, Subresource: subresource,
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}

// judge tells every FlowSchema whether its level is there.
func (m *maintainer) judge(ctx context.Context) {
	good := map[string]bool{}
	for o := range m.store.State().Snapshot(priorityLevels).All("") {
		good[o.Key.Name] = levelSpec(o) != nil
	}
	for o := range m.store.State().Snapshot(flowSchemas).All("") {
		if at := startOf(o); at != nil && good[at.matcher.level] && bytes.Contains(o.Raw, at.found) {
			continue // as nearly all are
		}
		f := matcherOf(o)
		if f == nil {
			continue
		}
		if c := danglingCondition(f.level, good[f.level]); !bytes.Contains(o.Raw, c.canonical()) {
			m.failed("write the status of", o.Key, m.tell(ctx, o.Key, c))
		}
	}
}

// A condition is what there is to be said of a FlowSchema.
type condition struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Status  string `json:"status"`
	Type    string `json:"type"`
}

func danglingCondition(level string, found bool) condition {
	c := condition{Type: string(flowcontrolv1.FlowSchemaConditionDangling)}
	c.Status, c.Reason = string(flowcontrolv1.ConditionFalse), "Found"
	text := "and it exists"
	if !found {
		c.Status, c.Reason = string(flowcontrolv1.ConditionTrue), "NotFound"
		text = "but there is no such object"
	}
	c.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q %s", level, text)
	return c
}

// canonical is how the condition is stored, but for its brace and its time, which sorts before.
func (c condition) canonical() []byte {
	encoded, err := object.AppendJSON(nil, map[string]any{"message": c.Message, "reason": c.Reason, "status": c.Status, "type": c.Type})
	if err != nil { // a name is a string like all others
		return nil
	}
	return encoded[1:]
}

func (m *maintainer) tell(ctx context.Context, key object.Key, c condition) error {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(),
		"kind":       "FlowSchema",
		"metadata":   map[string]any{"name": key.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"message": c.Message, "reason": c.Reason, "status": c.Status, "type": c.Type,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = m.store.Patch(ctx, m.request(key, "status", consumer), resource.Patch{Type: types.ApplyPatchType, Data: patch, Force: true})
	return err
}

// amiss says whether there is anything to repair.
func (m *maintainer) amiss() bool {
	for _, at := range atStart() {
		if o, _ := m.store.State().Get(at.key); o == nil || !at.right(o) {
			return true
		}
	}
	return len(m.unwanted()) > 0
}

// repair puts right what is amiss: what is missing comes back, what the server updates by itself is updated, and of that what
// Kubernetes no longer has goes.
func (m *maintainer) repair(ctx context.Context) {
	for _, at := range atStart() {
		o, _ := m.store.State().Get(at.key)
		if o == nil {
			entry, err := at.entry(m.store, false, time.Now())
			if err == nil {
				err = write(ctx, m.store, []journal.Entry{entry})
			}
			m.failed("create", at.key, err)
		} else if !at.right(o) {
			_, err := m.store.Edit(ctx, m.request(at.key, "", producer), at.mend)
			m.failed("update", at.key, err)
		}
	}
	for _, key := range m.unwanted() {
		_, err := m.store.Delete(ctx, m.request(key, "", ""), &metav1.DeleteOptions{})
		m.failed("delete", key, err)
	}
}

// unwanted are the objects that say that the server updates them, and of which it knows nothing.
func (m *maintainer) unwanted() []object.Key {
	var all []object.Key
	for _, gr := range []schema.GroupResource{flowSchemas, priorityLevels} {
		for o := range m.store.State().Snapshot(gr).All("") {
			if known(o.Key) || !bytes.Contains(o.Raw, []byte(flowcontrolv1.AutoUpdateAnnotationKey)) {
				continue
			}
			obj, err := o.Tree()
			if auto, no := strconv.ParseBool(annotation(obj)); err == nil && no == nil && auto {
				all = append(all, o.Key)
			}
		}
	}
	return all
}

func known(key object.Key) bool {
	return slices.ContainsFunc(atStart(), func(at *start) bool { return at.key == key })
}

// annotation is the one that says whether the server updates an object.
func annotation(obj resource.Tree) string {
	value, _, _ := unstructured.NestedString(obj, "metadata", "annotations", flowcontrolv1.AutoUpdateAnnotationKey)
	return value
}

// autoUpdated is the annotation on what nobody has changed.
var autoUpdated = []byte(`"` + flowcontrolv1.AutoUpdateAnnotationKey + `":"true"`)

// updates says whether the server updates the specification of an object by itself: of all that must be there, and else as the
// annotation says, or if nobody has changed it.
func (at *start) updates(obj resource.Tree) bool {
	if at.mandatory {
		return true
	}
	if auto, err := strconv.ParseBool(annotation(obj)); err == nil {
		return auto
	}
	generation, _, _ := unstructured.NestedInt64(obj, "metadata", "generation")
	return generation == 1
}

// right says whether an object is as the server keeps it.
func (at *start) right(o *object.Object) bool {
	if bytes.Contains(o.Raw, autoUpdated) && at.saysSame(o) {
		return true
	}
	before, err := o.Tree()
	if err != nil {
		return true // nothing can be done about it
	}
	after := runtime.DeepCopyJSON(before)
	return at.mend(after) != nil || reflect.DeepEqual(before, after)
}

// mend makes an object what the server keeps it at.
func (at *start) mend(obj resource.Tree) error {
	auto := at.updates(obj)
	if auto {
		spec, err := object.DecodeTree(at.spec[len(specKey) : len(at.spec)-len(statusKey)])
		if err != nil {
			return err
		}
		if at.level != nil && at.level.Exempt != nil { // how much the exempt level lends is free
			if exempt, ok, _ := unstructured.NestedMap(obj, "spec", "exempt"); ok {
				spec["exempt"] = exempt
			}
		}
		obj["spec"] = spec
	}
	if is, err := strconv.ParseBool(annotation(obj)); err != nil || is != auto {
		return unstructured.SetNestedField(obj, strconv.FormatBool(auto), "metadata", "annotations", flowcontrolv1.AutoUpdateAnnotationKey)
	}
	return nil
}
