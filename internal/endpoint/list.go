package endpoint

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list serves the verb list.
func (c *call) list() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	ctx, cancel := c.context(c.h.requests.Timeout)
	defer cancel()
	found, err := c.h.store.List(ctx, c.request(), resource.ListOptions{
		Labels:               options.LabelSelector,
		Fields:               options.FieldSelector,
		Limit:                options.Limit,
		Continue:             options.Continue,
		ResourceVersion:      options.ResourceVersion,
		ResourceVersionMatch: options.ResourceVersionMatch,
	})
	if err != nil {
		return err
	}
	c.answerList(m, found)
	return nil
}

// yieldEvery is the number of objects of a list after which other goroutines are scheduled.
const yieldEvery = 8

// yield lets other goroutines run, and aborts the response if the client has disconnected. Go
// preempts a goroutine that does not block after 10 ms only: small requests would wait that long
// beside long lists.
func (c *call) yield(i int) {
	if i%yieldEvery != yieldEvery-1 {
		return
	}
	if c.r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	runtime.Gosched()
}

// answerList responds with a list of objects.
func (c *call) answerList(m media, l resource.List) {
	if !c.enterLane(len(l.Objects)) {
		return
	}
	defer c.leaveLane()
	if t := c.transcript(m); t != nil {
		t.keep(c.renderList(t, l))
	}
	out := c.answer(http.StatusOK, m)
	out.close(c.renderList(out, l))
}

func (c *call) renderList(out *output, l resource.List) error {
	m := out.m
	switch m.as.Kind {
	case "PartialObjectMetadata":
		return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", c.goType(c.definition.ListKind)))
	case "Table":
		return c.renderTable(out, l)
	}
	apiVersion, kind := c.definition.APIVersion(c.version), c.definition.ListKind
	if m.as.Kind != "" {
		apiVersion, kind = metav1.GroupName+"/"+m.as.Version, m.as.Kind
	}
	switch m.encoding {
	case asProtobuf:
		return c.renderListProtobuf(out, l, apiVersion, kind)
	case asYAML:
		return c.renderListYAML(out, l, apiVersion, kind)
	}
	return c.renderListJSON(out, l, apiVersion, kind)
}

func (c *call) renderListJSON(out *output, l resource.List, apiVersion, kind string) error {
	m := out.m
	custom := c.definition.Custom && m.as.Kind == ""
	if custom {
		out.buf = append(out.buf, `{"apiVersion":`...)
		out.buf = object.AppendString(out.buf, apiVersion)
		out.buf = append(out.buf, `,"items":[`...)
	} else {
		out.buf = appendTypeMeta(out.buf, kind, apiVersion)
		out.buf = append(out.buf, `,"metadata":`...)
		out.buf = appendListMetaJSON(out.buf, l, false)
		out.buf = append(out.buf, `,"items":[`...)
	}
	for i, o := range l.Objects {
		c.yield(i)
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		var err error
		if m.as.Kind == "" && !custom {
			out.buf, err = c.appendBareItem(out.buf, o)
		} else {
			out.buf, err = c.appendObject(out.buf, m, o, o.Revision)
		}
		if err != nil {
			return err
		}
		out.spill()
	}
	out.buf = append(out.buf, ']')
	if custom {
		out.buf = append(out.buf, `,"kind":`...)
		out.buf = object.AppendString(out.buf, kind)
		out.buf = append(out.buf, `,"metadata":`...)
		out.buf = appendListMetaJSON(out.buf, l, true)
	}
	out.buf = append(out.buf, '}')
	return nil
}

// appendTypeMeta begins an object with the field order of Kubernetes' Go types.
func appendTypeMeta(dst []byte, kind, apiVersion string) []byte {
	dst = append(dst, `{"kind":`...)
	dst = object.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	return object.AppendString(dst, apiVersion)
}

// appendListMetaJSON appends the metadata of a list. Lists of custom resources include an empty
// continue, others leave it out.
func appendListMetaJSON(dst []byte, l resource.List, custom bool) []byte {
	dst = append(dst, '{')
	if custom || l.Continue != "" {
		dst = append(dst, `"continue":`...)
		dst = object.AppendString(dst, l.Continue)
		dst = append(dst, ',')
	}
	if l.Remaining != nil {
		dst = append(dst, `"remainingItemCount":`...)
		dst = strconv.AppendInt(dst, *l.Remaining, 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"resourceVersion":"`...)
	dst = strconv.AppendInt(dst, int64(l.Revision), 10)
	return append(dst, `"}`...)
}

// appendBareItem appends an object without apiVersion and kind: of built-in kinds, only the list
// has them.
func (c *call) appendBareItem(dst []byte, o *object.Object) ([]byte, error) {
	form, err := resource.Form(c.definition, c.version, o, object.JSON)
	if err != nil {
		return dst, err
	}
	return appendBare(dst, form, o.Revision), nil
}

// appendBare appends a form without its apiVersion and kind. Keys are sorted, so that the metadata,
// and the splice in it, follow both.
func appendBare(dst []byte, form object.Form, revision object.Revision) []byte {
	b := form.Bytes
	dst = append(dst, '{')
	kept := 1 // b[kept:at] is still to be appended
	at := 1
	for seen := 0; seen < 2 && at < len(b) && b[at] == '"'; {
		start := at
		at = skipString(b, at)
		key := b[start:at]
		at = skipValue(b, at+1) + 1 // over the colon, the value, the comma
		if bytes.Equal(key, []byte(`"apiVersion"`)) || bytes.Equal(key, []byte(`"kind"`)) {
			dst = append(dst, b[kept:start]...)
			kept = at
			seen++
		}
	}
	kept = min(kept, len(b))
	return appendForm(dst, object.Form{Bytes: b[kept:], Splice: form.Splice - kept}, revision)
}

// skipString returns the index after the string that starts at b[at].
func skipString(b []byte, at int) int {
	for at++; at < len(b); at++ {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return len(b)
		}
		at += i
		slashes := 0
		for b[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at + 1
		}
	}
	return len(b)
}

// skipValue returns the index after the value that starts at b[at], in JSON without white space.
func skipValue(b []byte, at int) int {
	depth := 0
	for at < len(b) {
		switch b[at] {
		case '"':
			at = skipString(b, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
			at++
		case ',':
			if depth == 0 {
				return at
			}
			at++
			continue
		default:
			at++
			continue
		}
		if depth == 0 {
			return at
		}
	}
	return len(b)
}

// renderListProtobuf renders a list in protobuf. The message in the envelope is preceded by its
// length, so the objects are visited twice; their forms are cached.
func (c *call) renderListProtobuf(out *output, l resource.List, apiVersion, kind string) error {
	message := func(o *object.Object) ([]byte, error) {
		form, err := resource.Form(c.definition, c.version, o, formMedia(asProtobuf, out.m.as.Kind != ""))
		if err != nil {
			return nil, err
		}
		return messageOf(form.Bytes)
	}
	meta := appendListMeta(nil, l.Revision.String(), l.Continue, l.Remaining)
	size := sizeOfField(1, meta)
	for i, o := range l.Objects {
		c.yield(i)
		inside, err := message(o)
		if err != nil {
			return err
		}
		size += sizeOfField(2, inside)
	}
	out.buf = beginEnvelope(out.buf, apiVersion, kind, size)
	out.buf = appendBytes(out.buf, 1, meta)
	for i, o := range l.Objects {
		c.yield(i)
		inside, err := message(o)
		if err != nil {
			return err
		}
		out.buf = appendBytes(out.buf, 2, inside)
		out.spill()
	}
	out.buf = endEnvelope(out.buf)
	return nil
}

// renderListYAML renders a list in YAML with the result of converting the list in JSON: keys are
// sorted. Objects are converted one by one, because the converter takes many times the memory of
// its input.
func (c *call) renderListYAML(out *output, l resource.List, apiVersion, kind string) error {
	m := out.m
	out.converted = true
	part := func(json []byte) error {
		converted, err := toYAML(json)
		out.buf = append(out.buf, converted...)
		return err
	}
	items := "items:\n"
	if len(l.Objects) == 0 {
		items = "items: []\n"
	}
	if err := part(append(object.AppendString([]byte(`{"apiVersion":`), apiVersion), '}')); err != nil {
		return err
	}
	out.buf = append(out.buf, items...)
	var item []byte
	for i, o := range l.Objects {
		c.yield(i)
		var err error
		item = append(item[:0], '[') // a list, because long lines are folded at a column
		if m.as.Kind == "" && !c.definition.Custom {
			item, err = c.appendBareItem(item, o)
		} else {
			item, err = c.appendObject(item, media{encoding: asJSON, as: m.as}, o, o.Revision)
		}
		if err == nil {
			err = part(append(item, ']'))
		}
		if err != nil {
			return err
		}
		out.spill()
	}
	tail := object.AppendString([]byte(`{"kind":`), kind)
	tail = append(tail, `,"metadata":`...)
	tail = appendListMetaJSON(tail, l, c.definition.Custom && m.as.Kind == "")
	return part(append(tail, '}'))
}
