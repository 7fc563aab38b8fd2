package flowschemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
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

// The field managers of Kubernetes for the default objects, and for the status.
const (
	producer = "api-priority-and-fairness-config-producer-v1"
	consumer = "api-priority-and-fairness-config-consumer-v1"
)

// repairAfter is the delay before a missing or modified default object is restored.
const repairAfter = time.Minute

// A Maintainer keeps the default objects, and the status of all FlowSchemas, up to date.
type Maintainer struct {
	store *resource.Store
	log   *slog.Logger
	feed  *state.Feed
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// Start returns a Maintainer of the objects in a store, to be closed. Each server of a store may
// run one.
func Start(store *resource.Store, log *slog.Logger) *Maintainer {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Maintainer{store: store, log: log, stop: cancel}
	m.feed = store.State().Feed(func(e *state.Event) bool {
		gr := e.Last().Key.Resource
		return gr == fairness.FlowSchemas || gr == fairness.PriorityLevels
	})
	m.done.Go(func() {
		defer m.feed.Close()
		m.run(ctx)
	})
	return m
}

// Close stops the Maintainer and waits for its end.
func (m *Maintainer) Close() {
	m.stop()
	m.done.Wait()
}

func (m *Maintainer) run(ctx context.Context) {
	m.report(ctx)
	var due <-chan time.Time // when repair is due
	for ctx.Err() == nil {
		events, wait := m.feed.Take()
		if len(events) > 0 {
			m.report(ctx)
			continue
		}
		if due == nil && m.damaged() {
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

// failed logs an error, unless another replica was faster, or the server stops.
func (m *Maintainer) failed(what string, key object.Key, err error) {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrClosed) {
		return
	}
	m.log.Warn("cannot "+what, "object", key.String(), "error", err)
}

func (m *Maintainer) request(key object.Key, subresource, manager string) *resource.Request {
	d := m.store.Registry().Load().Resource(key.Resource)
	return &resource.Request{
		Definition: d, Version: d.Storage, Name: key.Name, Subresource: subresource,
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}

// report writes into the status of each FlowSchema whether its level exists.
func (m *Maintainer) report(ctx context.Context) {
	valid := map[string]bool{}
	for o := range m.store.State().Snapshot(fairness.PriorityLevels).All("") {
		valid[o.Key.Name] = fairness.LevelOf(o) != nil
	}
	for o := range m.store.State().Snapshot(fairness.FlowSchemas).All("") {
		level, ok := fairness.LevelNameOf(o)
		if !ok {
			continue
		}
		if c := danglingCondition(level, valid[level]); !bytes.Contains(o.Raw, c.canonical()) {
			m.failed("write the status of", o.Key, m.apply(ctx, o.Key, c))
		}
	}
}

// A condition is one of the status of a FlowSchema, without its time.
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

// canonical returns the condition as it is stored, after its time, which comes first.
func (c condition) canonical() []byte {
	encoded, err := object.AppendJSON(nil, map[string]any{"message": c.Message, "reason": c.Reason, "status": c.Status, "type": c.Type})
	if err != nil { // all values are strings
		return nil
	}
	return encoded[1:]
}

func (m *Maintainer) apply(ctx context.Context, key object.Key, c condition) error {
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

// damaged reports whether there is anything to repair.
func (m *Maintainer) damaged() bool {
	for _, d := range fairness.Defaults() {
		if o, _ := m.store.State().Get(d.Key); o == nil || !upToDate(d, o) {
			return true
		}
	}
	return len(m.unwanted()) > 0
}

// repair creates missing default objects, restores those that the server updates, and deletes
// objects that the server should update but that are no default any more.
func (m *Maintainer) repair(ctx context.Context) {
	for _, d := range fairness.Defaults() {
		o, _ := m.store.State().Get(d.Key)
		if o == nil {
			entry, err := entryOf(m.store, d, false, time.Now())
			if err == nil {
				err = write(ctx, m.store, []journal.Entry{entry})
			}
			m.failed("create", d.Key, err)
		} else if !upToDate(d, o) {
			_, err := m.store.Edit(ctx, m.request(d.Key, "", producer), func(obj resource.Tree) error { return restore(d, obj) })
			m.failed("update", d.Key, err)
		}
	}
	for _, key := range m.unwanted() {
		_, err := m.store.Delete(ctx, m.request(key, "", ""), &metav1.DeleteOptions{})
		m.failed("delete", key, err)
	}
}

// unwanted returns the objects with the annotation that the server updates them, which are no
// default.
func (m *Maintainer) unwanted() []object.Key {
	var all []object.Key
	for _, gr := range []schema.GroupResource{fairness.FlowSchemas, fairness.PriorityLevels} {
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
	return slices.ContainsFunc(fairness.Defaults(), func(d *fairness.Default) bool { return d.Key == key })
}

// annotation returns the value of the annotation that controls whether the server updates an
// object.
func annotation(obj resource.Tree) string {
	value, _, _ := unstructured.NestedString(obj, "metadata", "annotations", flowcontrolv1.AutoUpdateAnnotationKey)
	return value
}

// autoUpdated is the annotation on objects that no user has changed.
var autoUpdated = []byte(`"` + flowcontrolv1.AutoUpdateAnnotationKey + `":"true"`)

// updates reports whether the server updates the specification of an object: always for mandatory
// objects, for others if the annotation is set, or if no user has changed them.
func updates(d *fairness.Default, obj resource.Tree) bool {
	if d.Mandatory {
		return true
	}
	if auto, err := strconv.ParseBool(annotation(obj)); err == nil {
		return auto
	}
	generation, _, _ := unstructured.NestedInt64(obj, "metadata", "generation")
	return generation == 1
}

// upToDate reports whether restore would not change an object.
func upToDate(d *fairness.Default, o *object.Object) bool {
	if bytes.Contains(o.Raw, autoUpdated) && d.SpecOf(o) {
		return true
	}
	before, err := o.Tree()
	if err != nil {
		return true // there is nothing to restore it from
	}
	after := runtime.DeepCopyJSON(before)
	return restore(d, after) != nil || reflect.DeepEqual(before, after)
}

// restore sets the specification and the annotation of a default object.
func restore(d *fairness.Default, obj resource.Tree) error {
	auto := updates(d, obj)
	if auto {
		spec, err := object.DecodeTree(d.Spec())
		if err != nil {
			return err
		}
		if d.Level != nil && d.Level.Exempt != nil { // users may set how much the exempt level lends
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
