package fairness

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// atstart.jsonl holds, one a line, the objects that Kubernetes has from its start, as a Store keeps them: first as they are with
// fairness, then the FlowSchemas as they are without. What differs from one server to the next is placeUID and placeTime.
// TestAtStart writes it.
//
//go:embed atstart.jsonl
var atStartLines []byte

// What stands before and behind the specification of a stored object; with their quotes, they stand nowhere else.
const (
	specKey   = `,"spec":`
	statusKey = `,"status":{`
)

const (
	placeUID  = "00000000-0000-0000-0000-000000000000"
	placeTime = "2000-01-01T00:00:00Z"
)

// A start is an object that a server has from its start. It is immutable.
type start struct {
	key object.Key
	// raw is the object, and plain what it is without fairness.
	raw, plain []byte
	spec       []byte // the part of raw from specKey to the end of statusKey
	mandatory  bool   // it must be there, and be like this

	// What it says: one of these.
	level   *flowcontrolv1.PriorityLevelConfigurationSpec
	matcher *matcher
	found   []byte // the condition of a FlowSchema whose level is there
}

// atStart returns the objects, those first that others refer to.
var atStart = sync.OnceValue(func() []*start {
	var all []*start
	levels := func(mandatory bool, objects []*flowcontrolv1.PriorityLevelConfiguration) {
		for _, o := range objects {
			all = append(all, &start{key: object.Key{Resource: priorityLevels, Name: o.Name}, mandatory: mandatory, level: &o.Spec})
		}
	}
	schemas := func(mandatory bool, objects []*flowcontrolv1.FlowSchema) {
		for _, o := range objects {
			all = append(all, &start{key: object.Key{Resource: flowSchemas, Name: o.Name}, mandatory: mandatory, matcher: newMatcher(o.Name, &o.Spec)})
			all[len(all)-1].found = danglingCondition(o.Spec.PriorityLevelConfiguration.Name, true).canonical()
		}
	}
	levels(true, bootstrap.MandatoryPriorityLevelConfigurations)
	levels(false, bootstrap.SuggestedPriorityLevelConfigurations)
	schemas(true, bootstrap.MandatoryFlowSchemas)
	schemas(false, bootstrap.SuggestedFlowSchemas)

	lines := bytes.Split(bytes.TrimSpace(atStartLines), []byte("\n"))
	if len(lines) < len(all) {
		return all // being written
	}
	plain := lines[len(all):]
	for i, at := range all {
		at.raw, at.plain = lines[i], lines[i]
		if at.matcher != nil && len(plain) > 0 {
			at.plain, plain = plain[0], plain[1:]
		}
		if from, to := bytes.Index(at.raw, []byte(specKey)), bytes.LastIndex(at.raw, []byte(statusKey)); from >= 0 && to > from {
			at.spec = at.raw[from : to+len(statusKey)]
		}
	}
	return all
})

// startOf returns what an object is by its name, if it says what it said at the start; else nil.
func startOf(o *object.Object) *start {
	for _, at := range atStart() {
		if at.key == o.Key {
			if at.saysSame(o) {
				return at
			}
			return nil
		}
	}
	return nil
}

func (at *start) saysSame(o *object.Object) bool {
	return len(at.spec) > 0 && bytes.Contains(o.Raw, at.spec)
}

// entry is the write that makes the object.
func (at *start) entry(store *resource.Store, plain bool, now time.Time) (journal.Entry, error) {
	d := store.Registry().Load().Resource(at.key.Resource)
	if d == nil {
		return journal.Entry{}, fmt.Errorf("%s are not served", at.key.Resource)
	}
	raw := at.raw
	if plain {
		raw = at.plain
	}
	raw = bytes.Clone(raw)
	fill(raw, placeUID, string(uuid.NewUUID()))
	fill(raw, placeTime, now.UTC().Format(time.RFC3339))
	o, err := object.Parse(at.key, raw, resource.Stamp(d.Storage), now)
	return journal.Entry{Key: at.key, Object: o}, err
}

// fill replaces what stands in raw, by something of the same length.
func fill(raw []byte, place, value string) {
	for {
		i := bytes.Index(raw, []byte(place))
		if i < 0 {
			return
		}
		copy(raw[i:], value)
		raw = raw[i+len(place):]
	}
}

// Ensure creates the FlowSchemas and PriorityLevelConfigurations that every server has, as far as they are not there. Plain is for
// servers that do not follow them.
func Ensure(ctx context.Context, store *resource.Store, plain bool) error {
	now := time.Now()
	var missing []journal.Entry
	for _, at := range atStart() {
		if o, _ := store.State().Get(at.key); o != nil {
			continue
		}
		entry, err := at.entry(store, plain, now)
		if err != nil {
			return fmt.Errorf("create %s: %w", at.key, err)
		}
		missing = append(missing, entry)
	}
	if err := write(ctx, store, missing); err != nil {
		return fmt.Errorf("create flow schemas and priority levels: %w", err)
	}
	return nil
}

// write commits new objects, all at once where the journal takes that. What is there already stays.
func write(ctx context.Context, store *resource.Store, entries []journal.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := store.State().Append(ctx, journal.Batch{Entries: entries})
	var conflict *journal.ConflictError
	if exists := errors.As(err, &conflict); !exists && !errors.Is(err, errors.ErrUnsupported) {
		return err
	} else if exists && len(entries) == 1 {
		return nil
	}
	for chunk := range slices.Chunk(entries, 1) {
		if err := write(ctx, store, chunk); err != nil {
			return err
		}
	}
	return nil
}
