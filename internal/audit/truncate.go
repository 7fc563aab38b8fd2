package audit

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// truncated is the annotation of an event without the objects that it should have.
const truncated = "audit.k8s.io/truncated"

// A limit is the size of events and of batches for a sink, in bytes of JSON. The zero value is no
// limit.
type limit struct{ event, batch int }

// validate returns the error of the options of a sink.
func (l limit) validate(sink string) error {
	if l.event < 0 || l.batch < l.event {
		return fmt.Errorf("Options.Audit.%sTruncateMaxEventSize is %d, %sTruncateMaxBatchSize is %d: set the first to a positive number, and the second to at least the first", sink, l.event, sink, l.batch)
	}
	return nil
}

// split returns a batch in parts that are not too large. An event that is too large loses the
// objects of the request and the response; one that is too large even then is left out, and
// counted.
func (l limit) split(events []*auditv1.Event) (parts [][]*auditv1.Event, left int) {
	if l == (limit{}) {
		return [][]*auditv1.Event{events}, 0
	}
	var part []*auditv1.Event
	bytes := 0
	for _, e := range events {
		e, n := l.fit(e)
		if e == nil {
			left++
			continue
		}
		if len(part) > 0 && bytes+n > l.batch {
			parts, part, bytes = append(parts, part), nil, 0
		}
		part, bytes = append(part, e), bytes+n
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts, left
}

// fit returns an event that is not too large, and its size; nil if there is none.
func (l limit) fit(e *auditv1.Event) (*auditv1.Event, int) {
	n := encodedSize(e)
	if n > l.event && !audit.Level(e.Level).Less(audit.LevelRequest) {
		small := *e // other sinks have the event, too
		small.RequestObject, small.ResponseObject = nil, nil
		small.Annotations = maps.Clone(e.Annotations)
		if small.Annotations == nil {
			small.Annotations = map[string]string{}
		}
		small.Annotations[truncated] = "true"
		e, n = &small, encodedSize(&small)
	}
	if n > l.event {
		return nil, 0
	}
	return e, n
}

// encodedSize returns the size of an event in JSON. An event that cannot be encoded has none: the
// sink returns the error.
func encodedSize(e *auditv1.Event) int {
	line, err := json.Marshal(e)
	if err != nil {
		return 0
	}
	return len(line)
}
